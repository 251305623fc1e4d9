# SPDX-License-Identifier: MIT
"""What the shim costs as a process grows: instructions that it adds to a call, which repeat from run to
run where times do not."""

import resource

from side_by_side import BUILT_IN, NO_SHIM, ROOT

SCALE = ROOT / "build/probes/bench_scale"
SPARE_FILES = 300
CALLS_A_BATCH = 100


def most_sockets(wanted):
    """As many as this user may have."""
    return min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - SPARE_FILES)


def instructions_for_one(bench, policy, kind, sockets, also, count):
    once, twice = (bench.instructions(policy, [SCALE, kind, sockets, also, n * count])
                   for n in (1, 2))
    return (twice - once) / count


def added(bench, kind, sockets, also, count, policy=BUILT_IN):
    return (instructions_for_one(bench, policy, kind, sockets, also, count)
            - instructions_for_one(bench, NO_SHIM, kind, sockets, also, count))


def add_row(bench, name, value, base, target, most):
    bench.add(name, "1", target, value, value, value, good=most is None or value <= most,
              unit="instr", note="" if base is None else f"{base:.1f} with the fewest")


def bench_calls(bench):
    sockets = dict.fromkeys(most_sockets(n) for n in (
        (10, 100000) if bench.quick else (10, 100, 1000, 10000, 100000)))
    threads = (64,) if bench.quick else (4, 16, 64)
    base = None
    for open_sockets, running in [(n, 1) for n in sockets] + [(10, n) for n in threads]:
        name = f"added to a write and a poll: {open_sockets} sockets, {running} threads"
        if not bench.wanted(name):
            continue
        value = added(bench, "calls", open_sockets, running, 10) / CALLS_A_BATCH / running
        # Flat: within 5 per cent of one thread with ten sockets.
        add_row(bench, name, value, base, "" if base is None else "flat",
                None if base is None else base * 1.05)
        base = value if base is None else base


def bench_waits(bench):
    """Each of the owed connections is read from once a wait, and that read is counted, too."""
    many = most_sockets(100000)
    base = None
    for open_sockets, owed in ((10, 1), (many, 1), (10, 10), (10, 100), (many, 100)):
        name = f"added to epoll_wait: for each of {owed} that owe, {open_sockets} more"
        if not bench.wanted(name):
            continue
        value = added(bench, "wait", open_sockets, owed, 10) / owed
        add_row(bench, name, value, base, "" if base is None else "flat",
                None if base is None else base * 1.05)
        base = value if base is None else base


BENCHES = (bench_calls, bench_waits)
