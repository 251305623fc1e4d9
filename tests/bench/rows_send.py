# SPDX-License-Identifier: MIT
"""What sending costs in every mode of the shim, next to the cures by hand: 15 small writes, the record sender,
and quotes on two connections."""

import functools

from side_by_side import BUILT_IN, EXAMPLES, NO_SHIM, column, field, modes

# Of a segment on a path of 1500 bytes: 20 bytes are IP's, 20 TCP's, and 12 the time stamps.
MSS = 1448

# Mode -> the cure by hand that it is compared with, the most that the ratio may be with both ends on one CPU and on
# two, and the most segments for a round.
SMALL_WRITES = {
    "nodelay": ("no_delay", {"1": 1.03, "2": 1.03}, None),
    "auto-cork": ("cork", {"1": 1.00, "2": 1.00}, 1.02),
    "adaptive": ("cork", {"1": 1.50, "2": 1.05}, 2.05),
}
CURES = {"no_delay": "TCP_NODELAY", "cork": "TCP_CORK", "one_write": "one write"}


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
    compare_small_writes(bench, "server only", (BUILT_IN, NO_SHIM), "no_delay", {"1": 0.5, "2": 0.5})


def records(bench, place, policy, options, count):
    """Seconds for a record, as the receiver saw it, and segments over what the bytes would fill. The sender does not
    read the clock for each send: one way has 80 times as many as the other."""
    port = bench.start(place[0], NO_SHIM, [EXAMPLES / "record_receiver", 0])
    out = bench.client(place[1], policy, [EXAMPLES / "record_sender", "--whole", *options, "127.0.0.1", port, count])
    server = bench.server_said()
    return field(server, "total_ms") / 1e3 / count, field(out, "segments") * MSS / field(server, "bytes")


def bench_records(bench):
    """Compared with the article's own cure, 80 records in one send."""
    count = 2000 if bench.quick else 10000
    ways = {"default": (NO_SHIM, []), "TCP_NODELAY": (NO_SHIM, ["--nodelay"]), "TCP_CORK": (NO_SHIM, ["--cork"]),
            **{f"shim, {mode}": (policy, []) for mode, policy in modes().items()}}
    for cpus, place in bench.places.items():
        for way, how in ways.items():
            name = f"{count} records: {way} / batches of 80"
            if not bench.wanted(name):
                continue
            ours, by_hand = bench.by_turns([functools.partial(records, bench, place, *how, count)
                                            for how in (how, (NO_SHIM, ["--batch", 80]))], bench.pairs(31))
            bench.add_ratio(name, cpus, column(ours, 0), column(by_hand, 0), None)
            bench.add_most(f"{count} records: {way}, segments over bytes / MSS", cpus, column(ours, 1), None, "")


def quotes(bench, place, policies=(NO_SHIM, NO_SHIM), server=("--winsock-ack",), client=("--winsock-ack",)):
    rounds = 500 if bench.quick else 3000
    out = bench.exchange(place, policies, [EXAMPLES / "quote_server", *server, 0],
                         [EXAMPLES / "quote_client", "--warmup", 100, *client, "127.0.0.1", "PORT", rounds])
    return field(out, "total_ms") / 1e3 / rounds


def bench_quotes(bench):
    nodelay = ["--winsock-ack", "--nodelay"]
    # By hand at one end only. That end needs immediate ACKs, too, as with the shim, and they cost a system call a round. The
    # warm-up contains the one ACK that the shim skips as a test.
    rows = [(f"by hand, {end} only", {end: ["--quickack", "--nodelay"]}, None) for end in ("client", "server")]
    for mode, policy in modes().items():
        rows += [(f"{mode}, client only", {"policies": (NO_SHIM, policy)}, 1.20),
                 (f"{mode}, server only", {"policies": (policy, NO_SHIM)}, 1.20)]
    for what, how, most in rows:
        name = f"quotes: {what} / TCP_NODELAY on both"
        for cpus, place in bench.places.items() if bench.wanted(name) else ():
            bench.compare(name, cpus, lambda: quotes(bench, place, **how),
                          lambda: quotes(bench, place, server=nodelay, client=nodelay), bench.pairs(9), most)


BENCHES = (bench_small_writes, bench_records, bench_quotes)
