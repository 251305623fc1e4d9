# SPDX-License-Identifier: MIT
"""The cost of 15 small writes, in every mode of the library and with the cures by hand."""

import functools

from side_by_side import BUILT_IN, EXAMPLES, NO_SHIM, column, field, modes

# Mode -> the cure by hand that it is compared with, the highest ratio allowed with both ends on one CPU and on two, and
# the most segments for a round.
SMALL_WRITES = {
    "nodelay": ("no_delay", {"1": 1.03, "2": 1.03}, None),
    "auto-cork": ("cork", {"1": 1.00, "2": 1.00}, 1.02),
    "adaptive": ("join", {"1": 1.05, "2": 1.05}, 2.05),
}
CURES = {"no_delay": "TCP_NODELAY", "cork": "TCP_CORK", "join": "TCP_NODELAY before the wait"}


def small_writes(bench, place, policies, cure, rounds):
    """Seconds and segments of a round of 15 writes and one read."""
    out = bench.exchange(place, policies, [EXAMPLES / "tcp_nodelay_server", 0, 0],
                         [EXAMPLES / "tcp_nodelay_client", "--stats", "--warmup", 50, "127.0.0.1", "PORT", rounds, *cure])
    return field(out, "total_ms") / 1e3 / rounds, field(out, "segments_per_round")


def compare_small_writes(bench, title, policies, cure, most, segments=None):
    rounds = 300 if bench.quick else 5000
    name = f"15 writes of 2 bytes: {title} / {CURES[cure]}"
    for cpus, place in bench.places.items() if bench.wanted(name) else ():
        ours, by_hand = bench.by_turns(
            [functools.partial(small_writes, bench, place, *way, rounds)
             for way in ((policies, []), ((NO_SHIM, NO_SHIM), [cure]))], bench.pairs(15))
        bench.add_ratio(name, cpus, column(ours, 0), column(by_hand, 0), most[cpus])
        if segments:
            bench.add_most(f"15 writes of 2 bytes: {title}, segments a round", cpus, column(ours, 1), segments, "")


def bench_small_writes(bench):
    for mode, policy in modes().items():
        if mode in SMALL_WRITES:
            compare_small_writes(bench, f"client {mode}", (NO_SHIM, policy), *SMALL_WRITES[mode])
    # The library sends two segments, because it alters no write; TCP_CORK sends one.
    compare_small_writes(bench, "client adaptive", (NO_SHIM, BUILT_IN), "cork", {"1": 1.50, "2": 1.50})
    compare_small_writes(bench, "server only", (BUILT_IN, NO_SHIM), "no_delay", {"1": 0.45, "2": 0.65})


BENCHES = (bench_small_writes,)
