# SPDX-License-Identifier: MIT
"""What sending costs, in every mode of the shim beside the cures by hand: 15 small writes, the record
sender, and quotes on two connections."""

import statistics

from modes import modes
from side_by_side import BUILT_IN, NO_SHIM, ROOT, field

EXAMPLES = ROOT / "build/examples"
# Of a segment on a path of 1500 bytes: 20 bytes of IP, 20 of TCP, and 12 of time stamps.
MSS = 1448

# Mode -> the cure by hand that it is held against, the most that the ratio may be with both ends on one CPU
# and with an end on each of two, and the most segments that it may take for a round.
SMALL_WRITES = {
    "nodelay": ("no_delay", {"1": 1.03, "2": 1.03}, None),
    "auto-cork": ("cork", {"1": 1.00, "2": 1.00}, 1.02),
    "adaptive": ("cork", {"1": 1.50, "2": 1.05}, 2.05),
}
CURES = {"no_delay": "TCP_NODELAY", "cork": "TCP_CORK", "one_write": "one write"}


def small_writes(bench, place, server_policy, client_policy, cure, packets):
    port = bench.start(place[0], server_policy, [EXAMPLES / "tcp_nodelay_server", 0, 0],
                       wait_for=r"listening on port (\d+)")
    out = bench.client(place[1], client_policy,
                       [EXAMPLES / "tcp_nodelay_client", "--stats", "--warmup", 50, "127.0.0.1",
                        port, packets, *cure])
    bench.end_servers()
    return out


def compare_small_writes(bench, title, server_policy, client_policy, cure, most,
                         segments=None):
    packets = 300 if bench.quick else 5000
    for cpus, place in bench.places.items():
        name, seen = f"15 writes of 2 bytes: {title} / {CURES[cure]}", []
        if not bench.wanted(name):
            continue

        def ours():
            out = small_writes(bench, place, server_policy, client_policy, [], packets)
            seen.append(field(out, "segments_per_round"))
            return field(out, "total_ms") / 1e3 / packets

        def by_hand():
            out = small_writes(bench, place, NO_SHIM, NO_SHIM, [cure], packets)
            return field(out, "total_ms") / 1e3 / packets

        bench.compare(name, cpus, ours, by_hand, bench.pairs(15), most[cpus])
        if segments:
            middle = statistics.median(seen)
            bench.add(f"15 writes of 2 bytes: {title}, segments a round", cpus,
                      f"<= {segments:.2f}", middle, min(seen), max(seen), good=middle <= segments)


def bench_small_writes(bench):
    for mode, policy in modes().items():
        if mode in SMALL_WRITES:
            compare_small_writes(bench, f"client {mode}", NO_SHIM, policy, *SMALL_WRITES[mode])
    compare_small_writes(bench, "server only", BUILT_IN, NO_SHIM, "no_delay", {"1": 0.5, "2": 0.5})


def records(bench, place, policy, options, count):
    """Seconds for a record, as the receiver saw it, and segments over what the bytes would fill. The
    sender does not look at the clock for each send: one way has 80 times as many as the other."""
    port = bench.start(place[0], NO_SHIM, [EXAMPLES / "record_receiver", 0],
                       wait_for=r"listening on port (\d+)")
    out = bench.client(place[1], policy,
                       [EXAMPLES / "record_sender", "--whole", *options, "127.0.0.1", port, count])
    bench.running[0].wait(10)
    server = (bench.work / "server.log").read_text()
    bench.running.clear()
    segments = field(out, "segments") * MSS / field(server, "bytes")
    return field(server, "total_ms") / 1e3 / count, segments


def bench_records(bench):
    """All beside the article's own cure, 80 records in one send."""
    count = 2000 if bench.quick else 10000
    ways = {"default": (NO_SHIM, []), "TCP_NODELAY": (NO_SHIM, ["--nodelay"]),
            "TCP_CORK": (NO_SHIM, ["--cork"])}
    ways.update({f"shim, {mode}": (policy, []) for mode, policy in modes().items()})
    for cpus, place in bench.places.items():
        for way, (policy, options) in ways.items():
            name, seen = f"{count} records: {way} / batches of 80", []
            if not bench.wanted(name):
                continue

            def ours():
                took, segments = records(bench, place, policy, options, count)
                seen.append(segments)
                return took

            bench.compare(name, cpus, ours,
                          lambda: records(bench, place, NO_SHIM, ["--batch", 80], count)[0],
                          bench.pairs(31), None)
            middle = statistics.median(seen)
            bench.add(f"{count} records: {way}, segments over bytes / MSS", cpus,
                      "", middle, min(seen), max(seen))


BY_HAND = ["--winsock-ack", "--nodelay"]


def quotes(bench, place, policies=(NO_SHIM, NO_SHIM), server=("--winsock-ack",),
           client=("--winsock-ack",)):
    rounds = 500 if bench.quick else 3000
    port = bench.start(place[0], policies[0], [EXAMPLES / "quote_server", *server, 0],
                       wait_for=r"listening on port (\d+)")
    out = bench.client(place[1], policies[1],
                       [EXAMPLES / "quote_client", "--warmup", 20, *client, "127.0.0.1", port,
                        rounds])
    bench.end_servers()
    return field(out, "total_ms") / 1e3 / rounds


def compare_quotes(bench, what, ours, most):
    name = f"quotes: {what} / TCP_NODELAY on both"
    if not bench.wanted(name):
        return
    for cpus, place in bench.places.items():
        bench.compare(name, cpus, lambda: ours(place),
                      lambda: quotes(bench, place, server=BY_HAND, client=BY_HAND),
                      bench.pairs(9), most)


def bench_quotes(bench):
    # What the cure by hand costs that changes one end: it needs ACKs of their own, as the shim's.
    cure = ["--quickack", "--nodelay"]
    for end in ("client", "server"):
        compare_quotes(bench, f"by hand, {end} only",
                       lambda place: quotes(bench, place, **{end: cure}), None)
    for mode, policy in modes().items():
        for end, policies in (("client", (NO_SHIM, policy)), ("server", (policy, NO_SHIM))):
            compare_quotes(bench, f"{mode}, {end} only",
                           lambda place: quotes(bench, place, policies), 1.02)


BENCHES = (bench_small_writes, bench_records, bench_quotes)
