# SPDX-License-Identifier: MIT
"""What it costs a program to be observed: 15 small writes and a wait, redis, and many idle sockets. What would
stall is cured by hand, since 44 ms would hide everything."""

import functools
import re
import shutil

from rows_rounds import fifteen
from rows_scale import added, most_sockets
from rows_send import CURES
from side_by_side import NO_SHIM, OBSERVE, free_port, path

WRITES = "15 writes with {} by hand, observed / not"
REDIS = "redis, {} connections, both ends observed / not"
IDLE = "added to a write and a poll, observed: {} sockets"
MTU = 1500


def bench_writes(bench):
    """Under TCP_CORK one ioctl and a few loads a round; with TCP_NODELAY the loads."""
    packets = 300 if bench.quick else 3000
    for cure in ("cork", "no_delay"):
        name = WRITES.format(CURES[cure])
        if not bench.wanted(name):
            continue
        with path(MTU):
            for cpus, place in bench.places.items():
                ways = [functools.partial(fifteen, bench, place, (NO_SHIM, client), [cure], packets)
                        for client in (OBSERVE, NO_SHIM)]
                bench.add_ratio(name, cpus, *bench.by_turns(ways, bench.pairs(11)), 1.10)


def redis(bench, policy, connections):
    """Seconds for a request."""
    port = free_port()
    bench.start(bench.places["2"][0] if "2" in bench.places else bench.places["1"][0], policy,
                ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", bench.work],
                port)
    out = bench.client(bench.places["1"][0], policy, [
        "redis-benchmark", "-p", port, "-c", connections, "-n", 20000 if bench.quick else 100000,
        "-t", "get", "--csv"])
    bench.end_servers()
    return 1 / float(re.search(r'^"GET","([0-9.]+)"', out, re.MULTILINE)[1])


def bench_redis(bench):
    for connections in (1, 20):
        name = REDIS.format(connections)
        if not bench.wanted(name) or not shutil.which("redis-benchmark"):
            continue
        ways = [functools.partial(redis, bench, policy, connections) for policy in (OBSERVE, NO_SHIM)]
        bench.add_ratio(name, "2" if "2" in bench.places else "1", *bench.by_turns(ways, bench.pairs(7)),
                        1.10)


def bench_idle_sockets(bench):
    """Flat: sockets that nothing is written to are not looked at."""
    base = None
    for sockets in dict.fromkeys(most_sockets(n) for n in (10, 10000)):
        name = IDLE.format(sockets)
        if not bench.wanted(name):
            continue
        value = added(bench, "calls", sockets, 1, 10, OBSERVE) / 100
        good = base is None or value <= base * 1.05
        bench.add(name, "1", "" if base is None else "flat", value, value, value, good=good, unit="instr")
        base = value if base is None else base


BENCHES = (bench_writes, bench_redis, bench_idle_sockets)
