# SPDX-License-Identifier: MIT
"""Programs that write continuously without a wait: with the library they must be as fast as without it, and send
as many segments. The kernel's own batching is on, as by default; the MTU is that of Ethernet and that of loopback."""

import functools

from side_by_side import BUILT_IN, NO_SHIM, PROBES, column, field, path, quartiles

STREAM = PROBES / "bench_stream"
MTUS = (1500, 65536)
SIZES = (60, 300, 600, 1448, 4000, 16384)
# Size of a read -> the most bytes that are written; small reads are slow.
READS = {65536: 24_000_000, 200: 5_000_000}
MOST_WRITES = 20000

# Compared with the program without the library.
MOST_TIME = 1.05
MOST_SEGMENTS = 1.30


def start_reader(bench, cpu, policy, reads):
    return bench.start(cpu, policy, [STREAM, "reader", 0, reads])


def add_rows(bench, name, cpus, ours, without, note=""):
    """ours and without: (seconds, segments) of each turn."""
    bench.add_ratio(f"{name} / without", cpus, column(ours, 0), column(without, 0), MOST_TIME, " a write" + note)
    bench.add_ratio(f"{name}, segments", cpus, column(ours, 1), column(without, 1), MOST_SEGMENTS, " a write",
                    form="{:.3g}".format)


def loop(bench, cpu, policy, port, size, most_bytes, *how):
    """Seconds and segments of one write."""
    count = min(MOST_WRITES, most_bytes // size) // (4 if bench.quick else 1)
    out = bench.client(cpu, policy, [STREAM, "writer", "127.0.0.1", port, count, size, *how])
    return field(out, "total_ms") / 1e3 / count, field(out, "segments") / count


def loops(bench, cpus, place, mtu, reads):
    """All sizes, with two readers that keep running: one with the library and one without."""
    names = {size: f"loop of {size}, MTU {mtu}, reads of {reads}" for size in (SIZES[1:5:3] if bench.quick else SIZES)}
    names = {size: name for size, name in names.items() if bench.wanted(f"{name}: writer / without")}
    if not names:
        return
    port, shimmed = (start_reader(bench, place[0], policy, reads) for policy in (NO_SHIM, BUILT_IN))
    for size, name in names.items():
        ways = [functools.partial(loop, bench, place[1], policy, where, size, READS[reads], *how)
                for policy, where, *how in ((NO_SHIM, port), (BUILT_IN, port), (BUILT_IN, shimmed),
                                            (NO_SHIM, port, "nodelay"))]
        without, writer, both, by_hand = bench.by_turns(ways, bench.pairs(5))
        slower, more = (quartiles(column(by_hand, n))[1] / quartiles(column(without, n))[1] for n in (0, 1))
        add_rows(bench, f"{name}: writer", cpus, writer, without,
                 note=f"; TCP_NODELAY {slower:.2f}, segments {more:.2f}")
        add_rows(bench, f"{name}: both", cpus, both, without)
    bench.end_servers()


def bench_streams(bench):
    for mtu in MTUS:
        with path(mtu):
            for cpus, place in bench.places.items():
                for reads in READS:
                    loops(bench, cpus, place, mtu, reads)


BENCHES = (bench_streams,)
