# SPDX-License-Identifier: MIT
"""The library's costs in large processes: the instructions that it adds to a call, which are the same in every run, unlike
times; memory; the start of a program; and the CPU time of `nagleshim top`."""

import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

from side_by_side import BUILT_IN, DEADLINE, NO_SHIM, PROBES, ROOT, CannotRun, field, modes, quartiles

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
    # Each connection with a pending ACK is read from before a wait and written to after it; both are counted, too.
    many = most_sockets(100000)
    add_flat(bench, [(f"added to epoll_wait: for each of {pending} pending ACKs, {sockets} more",
                      lambda sockets=sockets, pending=pending: added(bench, "wait", sockets, pending, 10) / pending)
                     for sockets, pending in ((10, 1), (many, 1), (10, 10), (10, 100), (many, 100))])


def bench_calls(bench):
    for kind, title, most in (("pipe", "write to a pipe", 40), ("tcp", "write to a TCP socket, nodelay", 80),
                              ("poll", "poll with nothing pending", 40)):
        name = f"added to one call: {title}"
        if bench.wanted(name):
            bench.add_most(name, "1", [added(bench, kind, 10, 1, 20, modes()["nodelay"]) / 100], most, "instr")


def ten_rules(bench):
    rules = [{"name": f"rule {i}",
              "match": {"process": [f"program-{i}-*", f"/opt/program-{i}/bin/*"],
                        "role": "server" if i % 2 else "client",
                        "remote": [f"10.{i}.0.0/16", f"[fd00:{i}::/32]:443", f"{7000 + i}-7999"]},
              "send": "auto-cork" if i % 3 else "nodelay", "max_delay_us": 200 + i,
              "sockopt": {"SO_SNDBUF": "ignore", "SO_KEEPALIVE": {"set": 1}}}
             for i in range(9)] + [{"name": "all others"}]
    file = bench.work / "ten-rules.json"
    file.write_text(json.dumps({"version": 1, "rules": rules}, indent=2))
    return file


def bench_start(bench):
    for title, policy, most in (("policy of ten rules", f"NAGLESHIM_POLICY={ten_rules(bench)}", 300),
                                ("no policy", "NAGLESHIM_POLICY_DIR=/nonexistent", 200),
                                ("rules: []", 'NAGLESHIM_POLICY={"version": 1, "rules": []}', 200),
                                ("NAGLESHIM_OFF=1", "NAGLESHIM_OFF=1", 150)):
        name = f"start-up: added to `true`, {title}"
        if not bench.wanted(name):
            continue
        out = bench.client(bench.places["1"][0], NO_SHIM, [PROBES / "bench_start", 200 if bench.quick else 2000,
                                                           shutil.which("true"), f"LD_PRELOAD={bench.library}", policy])
        value, low, high, plain, loaded, cpu = (field(out, f"{word}_us")
                                                for word in ("added", "low", "high", "plain", "loaded", "cpu"))
        bench.add(name, "1", f"<= {most} us", value, low, high, good=value <= most, unit="us",
                  note=f"{plain:.0f} us -> {loaded:.0f} us; {cpu:.0f} us of processor time")


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


def processor_time(pid):
    """Seconds that a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost_of_top(bench, pid, seconds):
    """Per cent of a processor, and samples a second, in the second of two intervals."""
    top = bench.popen(bench.places["1"][0], NO_SHIM,
                      ["timeout", DEADLINE, ROOT / "build/nagleshim", "top", "--pid", pid, "--interval", seconds],
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    bench.running.append(top)
    found = []
    for line in top.stdout:
        found += re.findall(r"(\d+) samples/s, ([0-9.]+)% of a CPU", line)
        if len(found) == 2:
            break
    top.stdout.close()
    top.terminate()
    top.wait(timeout=DEADLINE)
    bench.running.remove(top)
    if len(found) < 2:
        raise CannotRun("nagleshim top does not print what it costs")
    return float(found[1][1]), int(found[1][0])


def bench_top(bench):
    for sockets in (10, 1000, 100000):
        for busy, word in ((0, "idle"), (1, "busy")):
            name = f"nagleshim top: {sockets} sockets, {word}"
            if not bench.wanted(name):
                continue
            with bench.ready(NO_SHIM, [sys.executable, ROOT / "tests/bench/many_sockets.py", sockets, busy]) as pid:
                # New connections count as idle after three seconds.
                share, samples = cost_of_top(bench, pid, 3 if bench.quick else 10)
            bench.add_most(name, "1", [share], 10, "%", f"of a processor; {samples} samples a second")


def bench_cure(bench):
    """The CPU time of `nagleshim cure --follow` after it has treated all sockets."""
    for sockets in (10, 1000, 10000):
        name = f"nagleshim cure --follow: {sockets} sockets"
        if not bench.wanted(name):
            continue
        with bench.ready(NO_SHIM, [sys.executable, ROOT / "tests/bench/many_sockets.py", sockets, 1]) as pid:
            cure = bench.popen(bench.places["1"][0], NO_SHIM,
                               ["env", f"RUNTIME_DIRECTORY={bench.work}/cure", ROOT / "build/nagleshim", "cure", "--pid", pid, "--follow"], stdout=subprocess.PIPE)
            bench.running.append(cure)
            cure.stdout.readline()
            shares = []
            for _ in range(bench.pairs(5)):
                begun, before = time.monotonic(), processor_time(cure.pid)
                time.sleep(2 if bench.quick else 6)
                shares.append(100 * (processor_time(cure.pid) - before) / (time.monotonic() - begun))
            bench.running.remove(cure)
            cure.terminate()
            cure.communicate(timeout=DEADLINE)
        bench.add_most(name, "1", shares, 1, "%", "of a processor")


BENCHES = (bench_calls, bench_start, bench_process, bench_memory, bench_scale, bench_top, bench_cure)
