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


BENCHES = (patterns, trickles)
