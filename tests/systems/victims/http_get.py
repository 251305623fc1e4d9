# SPDX-License-Identifier: MIT
# GETs over one persistent connection with Python's own client. Usage: http_get.py PORT OPERATIONS
import http.client
import sys

import rounds


def main(port, count):
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def get():
        connection.request("GET", "/page.html")
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200 and body.startswith(rounds.PAGE), "another page"
        assert connection.sock is not None, "the connection was not kept"

    rounds.measure(get, count)


main(int(sys.argv[1]), int(sys.argv[2]))
