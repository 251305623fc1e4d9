# SPDX-License-Identifier: MIT
"""The library's costs in large processes: the instructions that it adds to a call, which are the same in every run, unlike
times; memory; and the start of a program."""

import pathlib
import re
import resource
import shutil

from side_by_side import BUILT_IN, NO_SHIM, PROBES, field, modes, quartiles

SPARE_FILES = 300


def most_sockets(wanted):
    """At most as many as this user may open."""
    return min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - SPARE_FILES)


def added(bench, kind, sockets, also, count, policy=BUILT_IN):
    """Instructions that the library adds to one repetition."""
    one, other = ([bench.instructions(way, [PROBES / "bench_scale", kind, sockets, also, n * count]) for n in (1, 2)]
                  for way in (policy, NO_SHIM))
    return ((one[1] - one[0]) - (other[1] - other[0])) / count


def add_flat(bench, rows):
    """(name, function) of each row: the values must be within 10 per cent of the first one. A look at a descriptor above
    1023 takes seven instructions more, in a second part of the table."""
    base = None
    for name, measure in rows:
        if not bench.wanted(name):
            continue
        value = measure()
        bench.add(name, "1", "" if base is None else "flat", value, value, value,
                  good=base is None or value <= base * 1.10, unit="instr",
                  note="" if base is None else f"{base:.1f} with the fewest")
        base = value if base is None else base


def bench_scale(bench):
    counts = (10, 100000) if bench.quick else (10, 100, 1000, 10000, 100000)
    threads = (64,) if bench.quick else (4, 16, 64)
    sizes = [(n, 1) for n in dict.fromkeys(map(most_sockets, counts))] + [(10, n) for n in threads]
    add_flat(bench, [(f"added to a write and a poll: {sockets} sockets, {running} threads",
                      lambda sockets=sockets, running=running: added(bench, "calls", sockets, running, 10) / 100 / running)
                     for sockets, running in sizes])


def bench_calls(bench):
    for kind, title, most in (("pipe", "write to a pipe", 40), ("tcp", "write to a TCP socket, nodelay", 80),
                              ("read", "read from a TCP socket that writes nothing", 320),
                              ("poll", "poll with nothing pending", 40),
                              ("select", "select with nothing pending", 40)):
        name = f"added to one call: {title}"
        if bench.wanted(name):
            bench.add_most(name, "1", [added(bench, kind, 10, 1, 20, modes()["nodelay"]) / 100], most, "instr")


def bench_process(bench):
    """Compared with an empty preloaded library, side by side."""
    empty, place = PROBES / "empty.so", bench.places["1"][0]
    name = "process: posix_spawn of `true`, of an empty library"
    if bench.wanted(name):
        runs = [bench.client(place, NO_SHIM, [PROBES / "bench_start", 300, shutil.which("true"),
                                              f"LD_PRELOAD={bench.library}", "NAGLESHIM_POLICY_DIR=/nonexistent",
                                              "--", f"LD_PRELOAD={empty}"]) for _ in range(bench.pairs(9))]
        bench.add_most(name, "1", [field(run, "loaded_us") / field(run, "plain_us") for run in runs], 1.10, "times",
                       f"{quartiles([field(run, 'faults') for run in runs])[1]:.0f} page faults more")
    name = "process: fork and _exit, of an empty library"
    if bench.wanted(name):
        runs = [[bench.client(place, NO_SHIM, ["env", f"LD_PRELOAD={library}", PROBES / "bench_start", 1000])
                 for library in (bench.library, empty)] for _ in range(bench.pairs(15))]
        bench.add_most(name, "1", [field(ours, "fork_us") / field(other, "fork_us") for ours, other in runs], 1.05,
                       "times", f"{quartiles([field(a, 'faults') - field(b, 'faults') for a, b in runs])[1]:.0f} "
                       "page faults more in the child")


def private_dirty(bench, policy, sockets):
    with bench.ready(policy, [PROBES / "bench_scale", "ready", sockets]) as pid:
        smaps = pathlib.Path(f"/proc/{pid}/smaps").read_text()
    sizes = [[int(kib) for kib in re.findall(rf"^{key}: +(\d+) kB", smaps, re.MULTILINE)]
             for key in ("Private_Dirty", "Anonymous")]
    # A page of a recently written file also counts as dirty, although it does not belong to the process.
    return sum(map(min, *sizes))


def bench_memory(bench):
    for sockets in (10, 2000, 100000):
        name = f"memory: added, {sockets} sockets"
        if bench.wanted(name) and most_sockets(sockets) == sockets:
            sizes = [private_dirty(bench, BUILT_IN, sockets) - private_dirty(bench, NO_SHIM, sockets)
                     for _ in range(bench.pairs(7))]
            # A connection takes 64 bytes, its entry in the descriptor table 8; a byte more for pages that are not full.
            bench.add_most(name, "1", sizes, round(128 + 73 * sockets / 1024), "KiB")


BENCHES = (bench_calls, bench_process, bench_memory, bench_scale)
