# SPDX-License-Identifier: MIT
"""What a round costs with the shim on one end alone: a connection for each request, 15 writes and a read,
and a server whose waits always find something. Here the kernel's own gathering is on, as it is on a
system."""

import functools

from rows_send import CURES, small_writes
from side_by_side import BUILT_IN, NO_SHIM, ROOT, field, path

PROBES = ROOT / "build/probes"
MTU = 1500
WHERE = {"client": (NO_SHIM, BUILT_IN), "server": (BUILT_IN, NO_SHIM), "both": (BUILT_IN, BUILT_IN)}
ONE_CONNECTION = "a connection for each request, on {} / without"
SATURATED = "saturated server, {} writes, {} clients"

# Beyond NODELAY by hand, and the longest round.
MOST_TIME = 1.05
MOST_MS = 8


def connections(bench, cpu, policy, port, count):
    out = bench.client(cpu, policy, [PROBES / "bench_connect", "client", "127.0.0.1", port, count])
    return 1 / field(out, "requests_per_s")


def bench_connections(bench):
    count = 500 if bench.quick else 2500
    names = {where: ONE_CONNECTION.format(where) for where in WHERE}
    if not any(map(bench.wanted, names.values())):
        return
    with path(MTU):
        for cpus, place in bench.places.items():
            ports = {policy: bench.start(place[0], policy, [PROBES / "bench_connect", "server", 0],
                                         wait_for=r"listening on port (\d+)")
                     for policy in (NO_SHIM, BUILT_IN)}
            ways = [functools.partial(connections, bench, place[1], client, ports[server], count)
                    for server, client in ((NO_SHIM, NO_SHIM), *WHERE.values())]
            without, *ours = bench.by_turns(ways, bench.pairs(15))
            bench.end_servers()
            for name, times in zip(names.values(), ours):
                bench.add_ratio(name, cpus, times, without)


def fifteen(bench, place, policies, cure, packets):
    out = small_writes(bench, place, *policies, cure, packets)
    return field(out, "total_ms") / 1e3 / packets


def bench_small_writes(bench):
    """On one CPU the burst costs two calls more than by hand, and one segment."""
    most = {("client", "cork"): {"1": 1.50, "2": 1.05}}
    packets = 300 if bench.quick else 3000
    if not bench.wanted("15 writes, autocorking: on client / TCP_CORK"):
        return
    with path(MTU):
        for cpus, place in bench.places.items():
            cures, ends = ("cork", "no_delay"), ("client", "server")
            ways = [functools.partial(fifteen, bench, place, (NO_SHIM, NO_SHIM), [cure], packets)
                    for cure in cures]
            ways += [functools.partial(fifteen, bench, place, WHERE[end], [], packets) for end in ends]
            cork, no_delay, *ours = bench.by_turns(ways, bench.pairs(11))
            for end, times in zip(ends, ours):
                for cure, by_hand in (("cork", cork), ("no_delay", no_delay)):
                    target = most.get((end, cure), {}).get(cpus)
                    bench.add_ratio(f"15 writes, autocorking: on {end} / {CURES[cure]}", cpus, times,
                                    by_hand, MOST_TIME if cure == "no_delay" else target)


def saturated(bench, place, policy, cure, pieces, clients):
    """Seconds for a round, and the longest in milliseconds."""
    port = bench.start(place[0], policy, [PROBES / "bench_saturated", "server", 0, pieces, *cure],
                       wait_for=r"listening on port (\d+)")
    out = bench.client(place[1], NO_SHIM, [PROBES / "bench_saturated", "client", "127.0.0.1", port,
                                           pieces, clients, 1000 if bench.quick else 6000])
    bench.end_servers()
    return 1 / field(out, "rounds_per_s"), field(out, "max_us") / 1e3


def bench_saturated(bench):
    for pieces in (2, 5, 20):
        for clients in (2, 8):
            name = SATURATED.format(pieces, clients)
            if not bench.wanted(f"{name}: round / TCP_NODELAY"):
                continue
            for cpus, place in bench.places.items():
                with path(MTU):
                    ways = [functools.partial(saturated, bench, place, *how, pieces, clients)
                            for how in ((BUILT_IN, []), (NO_SHIM, ["nodelay"]))]
                    ours, by_hand = bench.by_turns(ways, bench.pairs(7))
                bench.add_ratio(f"{name}: round / TCP_NODELAY", cpus, [one[0] for one in ours],
                                [one[0] for one in by_hand], MOST_TIME)
                longest = sorted(one[1] for one in ours)
                middle = longest[len(longest) // 2]
                bench.add(f"{name}: longest round", cpus, f"<= {MOST_MS} ms", middle, longest[0],
                          longest[-1], good=middle <= MOST_MS, unit="ms",
                          note=f"TCP_NODELAY by hand {max(one[1] for one in by_hand):.1f} ms")


BENCHES = (bench_connections, bench_small_writes, bench_saturated)
