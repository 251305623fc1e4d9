# SPDX-License-Identifier: MIT
"""Programs that write on and on and wait for nothing: with the shim they must be as fast as without it,
and take as many segments. Here the kernel's own gathering is on, as it is on a system, and the MTU that
of a wire and that of loopback."""

import functools
import time

from side_by_side import BUILT_IN, DEADLINE, NO_SHIM, ROOT, CannotRun, field, path

STREAM = ROOT / "build/probes/bench_stream"
PYTHON = "/usr/bin/python3"
MTUS = (1500, 65536)
SIZES = (60, 300, 600, 1448, 4000, 16384)
# Of one read -> how many bytes are written at most, since small reads take their time.
READS = {65536: 24_000_000, 200: 5_000_000}
MOST_WRITES = 20000

# Beyond the program without the shim.
MOST_TIME = 1.05
MOST_SEGMENTS = 1.30

COPY = """
import shutil, socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as peer, open(sys.argv[1], "rb") as file:
    shutil.copyfileobj(file, peer.makefile("wb", buffering=0), 4096)
"""


def start_reader(bench, cpu, policy, reads):
    return bench.start(cpu, policy, [STREAM, "reader", 0, reads], wait_for=r"listening on port (\d+)")


def add_rows(bench, name, cpus, ours, without, each=" a write", note=""):
    """ours and without: (seconds, segments) of each turn."""
    bench.add_ratio(f"{name} / without", cpus, *([one[0] for one in side] for side in (ours, without)), MOST_TIME,
                    each + note)
    bench.add_ratio(f"{name}, segments", cpus, *([one[1] for one in side] for side in (ours, without)),
                    MOST_SEGMENTS, each, form="{:.3g}".format)


def ratio_of_middles(some, others, which):
    return (sorted(one[which] for one in some)[len(some) // 2]
            / sorted(one[which] for one in others)[len(others) // 2])


def loop(bench, cpu, policy, port, size, most_bytes, *how):
    """Seconds and segments of one write."""
    count = min(MOST_WRITES, most_bytes // size) // (4 if bench.quick else 1)
    out = bench.client(cpu, policy, [STREAM, "writer", "127.0.0.1", port, count, size, *how])
    return field(out, "total_ms") / 1e3 / count, field(out, "segments") / count


def loops(bench, cpus, place, mtu, reads):
    """All sizes, with two readers that stay: one with the shim and one without."""
    names = {size: f"loop of {size}, MTU {mtu}, reads of {reads}"
             for size in (SIZES[1:5:3] if bench.quick else SIZES)}
    names = {size: name for size, name in names.items()
             if bench.wanted(f"{name}: writer / without")}
    if not names:
        return
    port, shimmed = (start_reader(bench, place[0], policy, reads) for policy in (NO_SHIM, BUILT_IN))
    for size, name in names.items():
        ways = [functools.partial(loop, bench, place[1], policy, where, size, READS[reads], *how)
                for policy, where, *how in ((NO_SHIM, port), (BUILT_IN, port), (BUILT_IN, shimmed),
                                            (NO_SHIM, port, "nodelay"))]
        without, writer, both, by_hand = bench.by_turns(ways, bench.pairs(5))
        slower, more = (ratio_of_middles(by_hand, without, which) for which in (0, 1))
        add_rows(bench, f"{name}: writer", cpus, writer, without,
                 note=f"; TCP_NODELAY {slower:.2f}, segments {more:.2f}")
        add_rows(bench, f"{name}: both", cpus, both, without)
    bench.end_servers()


def polled(bench, cpus, place, mtu):
    """A writer that looks for an answer between two writes. What it costs cannot be more than by
    hand."""
    name = f"loop of 60 and poll, MTU {mtu}: writer"
    if not bench.wanted(name):
        return
    port = start_reader(bench, place[0], NO_SHIM, 65536)
    ways = [functools.partial(loop, bench, place[1], policy, port, 60, READS[65536], "poll", *how)
            for policy, *how in ((BUILT_IN,), (NO_SHIM, "nodelay"), (NO_SHIM,))]
    ours, by_hand, without = ([time for time, _ in turns]
                              for turns in bench.by_turns(ways, bench.pairs(7)))
    bench.end_servers()
    bench.add_ratio(f"{name} / TCP_NODELAY", cpus, ours, by_hand, MOST_TIME, " a write")
    bench.add_ratio(f"{name} / without", cpus, ours, without, None, " a write")


def whole_program(bench, place, on_reader, on_writer, command):
    """Seconds and segments as the reader saw them: from the first byte to the end."""
    port = start_reader(bench, place[0], on_reader, 65536)
    bench.client(place[1], on_writer, [str(word).replace("PORT", str(port)) for word in command])
    end = time.monotonic() + DEADLINE
    while "total_ms" not in (said := (bench.work / "server.log").read_text()):
        if time.monotonic() > end:
            raise CannotRun(f"{command[0]}: the other end has not read all of it")
        time.sleep(0.001)
    bench.end_servers()
    return field(said, "total_ms") / 1e3, field(said, "segments")


def programs(bench, cpus, place, mtu):
    file = bench.work / "large"
    size = 20_000_000 if bench.quick else 100_000_000
    for title, command in ((f"socat -u FILE, {size // 1000000} MB",
                            ["socat", "-u", f"FILE:{file}", "TCP:127.0.0.1:PORT"]),
                           (f"copyfileobj of 4 KiB, {size // 1000000} MB",
                            [PYTHON, "-c", COPY, file, "PORT"])):
        name = f"{title}, MTU {mtu}"
        if not bench.wanted(name):
            continue
        if not file.exists():
            file.write_bytes(bytes(size))
        ways = [functools.partial(whole_program, bench, place, *on, command)
                for on in ((NO_SHIM, NO_SHIM), (NO_SHIM, BUILT_IN), (BUILT_IN, BUILT_IN))]
        without, writer, both = bench.by_turns(ways, bench.pairs(5))
        for where, ours in (("writer", writer), ("both", both)):
            add_rows(bench, f"{name}: {where}", cpus, ours, without, "")


def bench_streams(bench):
    for mtu in MTUS:
        with path(mtu):
            for cpus, place in bench.places.items():
                for reads in READS:
                    loops(bench, cpus, place, mtu, reads)
                polled(bench, cpus, place, mtu)
                programs(bench, cpus, place, mtu)


BENCHES = (bench_streams,)
