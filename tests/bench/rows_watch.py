# SPDX-License-Identifier: MIT
"""What it costs to look at connections from outside: the processor time of `nagleshim top`."""

import re
import subprocess
import sys

from side_by_side import DEADLINE, NO_SHIM, ROOT, CannotRun

MANY = ROOT / "tests/bench/many_sockets.py"
SETTLE = 3  # seconds until what has just been connected counts as idle


def watch(bench, pid, seconds):
    """Per cent of a processor, and looks a second, in the last of some intervals."""
    top = bench.popen(bench.places["1"][0], NO_SHIM,
                      [ROOT / "build/nagleshim", "top", "--pid", pid, "--interval", seconds],
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    bench.running.append(top)
    found = []
    for line in top.stdout:
        found += re.findall(r"^(\d+) looks/s, ([0-9.]+) % of a CPU", line)
        if len(found) == 2:
            break
    top.stdout.close()
    top.terminate()
    top.wait(timeout=DEADLINE)
    bench.running.remove(top)
    if len(found) < 2:
        raise CannotRun("nagleshim top does not say what it costs")
    return float(found[1][1]), int(found[1][0])


def bench_watch(bench):
    for sockets in (10, 1000, 100000):
        for busy, word in ((0, "idle"), (1, "busy")):
            name = f"looks from outside: {sockets} sockets, {word}"
            if not bench.wanted(name):
                continue
            many = bench.popen(bench.places["1"][0], NO_SHIM, [sys.executable, MANY, sockets, busy],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            bench.running.append(many)
            if many.stdout.readline() != "ready\n":
                raise CannotRun("many_sockets.py does not say that it is ready")
            share, looks = watch(bench, many.pid, SETTLE if bench.quick else 10)
            many.communicate(timeout=DEADLINE)
            bench.running.remove(many)
            bench.add(name, "1", "<= 10 %", share, share, share, good=share <= 10, unit="%",
                      note=f"of a processor; {looks} looks a second")


BENCHES = (bench_watch,)
