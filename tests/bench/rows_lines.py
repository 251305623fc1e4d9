# SPDX-License-Identifier: MIT
"""Programs over a line with a round trip (probes/bench/delay_line.py), without the library, with it at one end or at
both, and with TCP_NODELAY by hand: the median time of a round, segments with data and pure ACKs. Times are at the scale of a
round trip, so that a busy machine hardly changes them."""

import re
import signal
import subprocess
import sys

from side_by_side import BUILT_IN, NO_SHIM, ROOT, CannotRun, field

TURNS = [sys.executable, ROOT / "tests/probes/turns.py"]
TRICKLE = [sys.executable, ROOT / "tests/probes/trickle.py"]
TRIPS = (1, 20, 80)
# name -> policies of the client and the server, and the words before theirs
ENDS = {"client": (BUILT_IN, NO_SHIM, ""), "server": (NO_SHIM, BUILT_IN, ""), "both": (BUILT_IN, BUILT_IN, ""),
        "by hand": (NO_SHIM, NO_SHIM, "nodelay ")}


class Line:
    """A line with these options of delay_line. Its near end is in this network namespace."""

    def __init__(self, bench, trip, *options):
        self.bench, self.program = bench, subprocess.Popen(
            [sys.executable, ROOT / "tests/probes/bench/delay_line.py", *options, str(int(trip * 500))], stdout=subprocess.PIPE, text=True)
        if not self.program.stdout.readline().startswith("near "):
            raise CannotRun("delay_line does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bench.end_servers()
        self.program.terminate()
        self.program.wait()

    def popen(self, far, policy, command):
        place = ["nsenter", f"--net=/proc/{self.program.pid}/ns/net"] if far else []
        program = subprocess.Popen([*place, *map(str, command)], env=self.bench.environment(policy), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.bench.running.append(program)
        return program

    def run(self, server, client, policies=(NO_SHIM, NO_SHIM), times=1):
        """The last outputs of the client and the server; the client's word PORT becomes the port."""
        far = self.popen(True, policies[1], server)
        port = re.search(r"port (\d+)", far.stdout.readline())
        if not port:
            raise CannotRun(f"{server[1]} does not listen")
        for _ in range(times):
            near = self.popen(False, policies[0], [port[1] if word == "PORT" else word for word in client])
            out = near.communicate(timeout=120)[0]
            self.bench.running.remove(near)
        rest = far.communicate(timeout=120)[0]
        self.bench.running.remove(far)
        return out, rest

    def counts(self):
        """The counters of both ends: data, acks and dropped of near, then of far."""
        self.program.send_signal(signal.SIGUSR1)
        lines = [self.program.stdout.readline() for _ in range(2)]
        return [int(field(line, name)) for line in lines for name in ("data", "acks", "dropped")]


def turns(bench, line, server, client, rounds, end=(NO_SHIM, NO_SHIM, ""), times=1, per_round=1):
    """Milliseconds of a round, data segments of both ends, pure ACKs of each, and stalls."""
    client_policy, server_policy, words = end
    with Line(bench, *line) as wire:
        out, _ = wire.run([*TURNS, "server", 0, rounds * per_round, times, *f"{words}: {server}".split()],
                          [*TURNS, "client", "10.99.0.2", "PORT", rounds, 1, *f"{words}: {client}".split()],
                          (client_policy, server_policy), times)
        counts = wire.counts()
        return field(out, "median_us") / 1e3, counts[0] + counts[3], counts[1], counts[4], field(out, "stalls")


def patterns(bench):
    """Requests and answers: with the library at either end no slower than without it."""
    cases = {"2 writes": ("r210 w100", "w10 w200 r100"), "15 writes": ("r30 w30", "w2 " * 15 + "r30"),
             "10 outstanding": ("r100 w20 w80", None)}
    lines = [(trip,) for trip in TRIPS] + [(20, "-l", "1"), (20, "-j", "20000"), (20, "-r", "1000")]
    for line in lines[1:2] if bench.quick else lines:
        for case, (server, client) in cases.items():
            name = f"line of {' '.join(map(str, line))} ms: {case}"
            if not bench.wanted(name):
                continue
            batch = 10 if client is None else 1
            client = client or "w10 w90 " * 10 + "r1000"
            rounds = 40 if line[0] > 1 else 200
            base = turns(bench, line, server, client, rounds, per_round=batch)
            for end, way in ENDS.items():
                seen = turns(bench, line, server, client, rounds, way, per_round=batch)
                bench.add_most(f"{name}, {end}", "-", [seen[0] / base[0]],
                               None if end == "by hand" or len(line) > 1 else 1.05, "",
                               note=f"{base[0]:.1f} -> {seen[0]:.1f} ms; segments a round {base[1] / rounds:.1f} -> "
                                    f"{seen[1] / rounds:.1f}, ACKs {sum(base[2:4]) / rounds:.2f} -> "
                                    f"{sum(seen[2:4]) / rounds:.2f}")


def few_acks(bench):
    """Where no peer waits for an ACK: at most 40 more pure ACKs than without the library, and 5 %."""
    cases = {
        "own clocks of 10 and 100 ms": ((20,), "w60 f10", "w60 f100", 100, "client", True, 1, 10),
        "own clocks of 20 ms": ((20,), "w60 f20", "w60 f20", 400, "client", True, 1, 1),
        "jitter of 20 ms": ((40, "-j", "20000"), "r210 w100", "w10 w200 r100", 100, "server", True, 1, 1),
        "answer of several segments, 1 Mbit/s": ((20, "-r", "1000"), "r100 w20 w4000", "w100 r4020", 80, "client", False,
                                                 1, 1),
        "100 connections of 10 requests": ((2,), "r210 s5 w500", "w210 r500", 10, "server", False, 100, 1),
    }
    for case, (line, server, client, rounds, end, nodelay, times, ratio) in cases.items():
        name = f"line: {case}, {end}"
        if not bench.wanted(name):
            continue
        words = "nodelay " if nodelay else ""
        acks = []
        for policy in (NO_SHIM, BUILT_IN):
            way = (policy, NO_SHIM, words) if end == "client" else (NO_SHIM, policy, words)
            seen = turns(bench, line, server, client, rounds, way, times, ratio)
            acks.append(seen[2] if end == "client" else seen[3])
        bench.add_most(name, "-", [acks[1]], round(acks[0] * 1.05 + 40), "ACKs", note=f"{acks[0]} without")


def learns(bench):
    """One request in 40 comes in two pieces: how many of 20 stall."""
    for trip in (20, 40, 80):
        name = f"line of {trip} ms: one request in 40 in two pieces"
        if not bench.wanted(name):
            continue
        count = 5 if bench.quick else 20 if trip < 40 else 10
        client = "w210 r100 " * 39 + f"m{2 * trip + 35} w10 w200 r100"
        seen = [turns(bench, (trip,), "r210 s5 w100", client, count, (NO_SHIM, policy, ""), per_round=40)[4]
                for policy in (NO_SHIM, BUILT_IN)]
        bench.add_most(name, "-", [seen[1]], 2, "stalls", note=f"{seen[0]:.0f} without")


def trickles(bench):
    """A stream of small records: on a line that it nearly fills as fast as without the library."""
    lines = [((20, "-r", "1000"), 1000, 8000), ((80, "-r", "1000"), 1000, 8000)]
    lines += [((trip,), every, 4000000 // every) for trip in TRIPS for every in (1000, 5000, 20000)]
    for line, every, count in lines:
        name = f"line of {' '.join(map(str, line))} ms: trickle, one record in {every / 1000:g} ms"
        if not bench.wanted(name):
            continue
        seen = {}
        for way, policy in (("without", NO_SHIM), ("with", BUILT_IN)):
            with Line(bench, *line) as wire:
                _, out = wire.run([*TRICKLE, "sink", 0], [*TRICKLE, "send", "10.99.0.2", "PORT", 100, every,
                                                          count // (4 if bench.quick else 1)], (policy, NO_SHIM))
                seen[way] = field(out, "median_us") / 1e3, field(out, "p99_us") / 1e3, wire.counts()[0]
        without, ours = seen["without"], seen["with"]
        note = f"{without[0]:.1f} -> {ours[0]:.1f} ms; segments {without[2]} -> {ours[2]}"
        bench.add_most(f"{name}, median", "-", [ours[0] / without[0]], 1.10, "", note=note)
        if len(line) > 1:
            bench.add_most(f"{name}, 99th percentile", "-", [ours[1] / without[1]], 1.10, "",
                           note=f"{without[1]:.1f} -> {ours[1]:.1f} ms")


BENCHES = (patterns, few_acks, learns, trickles)
