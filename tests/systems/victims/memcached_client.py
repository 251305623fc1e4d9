# SPDX-License-Identifier: MIT
# pymemcache: a set with noreply, and then a get. Usage: memcached_client.py PORT OPERATIONS [nodelay]; nodelay is
# pymemcache's own option against the stall.
import itertools
import sys

from pymemcache.client.base import Client

import rounds


def main(port, count, nodelay):
    client = Client(("127.0.0.1", port), no_delay=nodelay)
    numbers = itertools.count()

    def set_and_get():
        value = b"%d" % next(numbers)
        client.set("key", value, noreply=True)
        assert client.get("key") == value, "another value"

    rounds.measure(set_and_get, count)


main(int(sys.argv[1]), int(sys.argv[2]), "nodelay" in sys.argv[3:])
