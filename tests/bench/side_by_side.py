# SPDX-License-Identifier: MIT
"""What all measurements share: a network namespace, programs with and without the library on chosen CPUs, turns
and the table. It ends only processes that it started."""

import contextlib
import fnmatch
import functools
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "build/examples"
PROBES = ROOT / "build/probes"
ISOLATED = "NS_BENCH_NETWORK"
# The most that the lower quartile of a ratio may be. Two runs of the same program differ by one per cent.
BEYOND_SPREAD = {"no slower": 1.01, "within 2 %": 1.02}
# The MTU, and tcp_autocorking: off, because the kernel's own batching would change the number of segments of a burst.
PATH = (1500, 0)
DEADLINE = 60  # seconds, for everything that is waited for
LISTENING = r"(?i)listening on (?:port )?(\d+)"

# What a program is run with: a policy in JSON, or one of these.
NO_SHIM = None
BUILT_IN = ""  # the library without a policy


class CannotRun(Exception):
    pass


@functools.cache
def modes():
    """Name -> policy of each way of sending in tests/modes."""
    listed = subprocess.run([ROOT / "tests/modes"], stdout=subprocess.PIPE, text=True)
    if listed.returncode != 0:
        raise CannotRun("tests/modes failed")
    return dict(line.split("|", 1) for line in listed.stdout.splitlines())


def isolate():
    """Starts this program again in its own network namespace, if the user may have one."""
    if ISOLATED not in os.environ:
        unshare = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net"]
        if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode == 0:
            os.environ[ISOLATED] = "own"
            os.execvp("unshare", [*unshare, *sys.argv])
        print("bench: this user cannot make a network namespace", file=sys.stderr)
        return False
    set_path(*PATH)
    return True


def set_path(mtu, autocorking):
    subprocess.run(["ip", "link", "set", "lo", "mtu", str(mtu), "up"], check=True)
    pathlib.Path("/proc/sys/net/ipv4/tcp_autocorking").write_text(f"{autocorking}\n")


@contextlib.contextmanager
def path(mtu=1500):
    """Loopback with this MTU, and with the kernel's own batching, which is on by default."""
    if os.environ.get(ISOLATED) != "own":
        raise CannotRun(f"an MTU of {mtu} needs a network namespace")
    set_path(mtu, 1)
    try:
        yield
    finally:
        set_path(*PATH)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bench:
    def __init__(self, options, work):
        self.quick, self.only, self.work = options.quick, options.only, work
        self.rows, self.running = [], []
        # A copy: a build during the measurement must not change what is measured.
        self.library = pathlib.Path(shutil.copy(ROOT / "build/libnagleshim.so", work))
        allowed = sorted(os.sched_getaffinity(0))
        # number of CPUs -> the CPU of the server and that of the client
        self.places = {"1": (allowed[0], allowed[0])}
        if len(allowed) > 1:
            self.places["2"] = (allowed[0], allowed[1])
        self.clean = {k: v for k, v in os.environ.items()
                      if k != "LD_PRELOAD" and not k.startswith("NAGLESHIM_")}
        # The policies of this machine must not change what is measured.
        self.clean.update(LC_ALL="C", NAGLESHIM_POLICY_DIR=str(work / "no-policies"))

    # --- processes ---

    def environment(self, policy):
        extra = {}
        if policy is not NO_SHIM:
            extra = {"LD_PRELOAD": str(self.library), **({"NAGLESHIM_POLICY": policy} if policy else {})}
        return {**self.clean, **extra}

    def popen(self, cpu, policy, command, **how):
        return subprocess.Popen(["taskset", "-c", str(cpu), *map(str, command)], text=True,
                                env=self.environment(policy), **how)

    def start(self, cpu, policy, command, port=None):
        """Starts a server and returns its port as soon as it listens there, or says which one it is. Its output goes
        to server.log, or to a file with a number if other servers run."""
        log = self.work / f"server{len(self.running) or ''}.log"
        with open(log, "w") as out:
            server = self.popen(cpu, policy, command, stdout=out, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL)
        self.running.append(server)
        end = time.monotonic() + DEADLINE
        while not (listens := self.listening(log, port)):
            if server.poll() is not None:
                raise CannotRun(f"{command[0]} does not start: {log.read_text().strip()}")
            if time.monotonic() > end:
                raise CannotRun(f"{command[0]} does not listen: {log.read_text().strip()}")
            time.sleep(0.01)
        loaded = str(self.work) in pathlib.Path(f"/proc/{server.pid}/maps").read_text()
        if loaded != (policy is not NO_SHIM):
            raise CannotRun(f"{command[0]}: the library is {'' if loaded else 'not '}loaded")
        return listens

    @staticmethod
    def listening(log, port):
        if port is None:
            found = re.search(LISTENING, log.read_text())
            return found and int(found.group(1))
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return port

    def end_servers(self):
        for server in self.running:
            server.terminate()
        for server in self.running:
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        self.running.clear()

    def client(self, cpu, policy, command):
        """Runs it to its end; what it printed."""
        client = self.popen(cpu, policy, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.running.append(client)
        try:
            out, err = client.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired as error:
            raise CannotRun(f"{command[0]} does not end") from error
        self.running.remove(client)
        if client.returncode != 0:
            raise CannotRun(f"{command[0]} failed: {(err or out).strip()[-300:]}")
        return out

    def exchange(self, place, policies, server, client, port=None):
        """Runs a server and its client, whose word PORT becomes the port; what the client printed. policies: the
        server's and the client's."""
        port = self.start(place[0], policies[0], server, port)
        out = self.client(place[1], policies[1], [port if word == "PORT" else word for word in client])
        self.end_servers()
        return out

    @contextlib.contextmanager
    def ready(self, policy, command):
        """A program that prints "ready", and then runs until its standard input ends."""
        program = self.popen(self.places["1"][0], policy, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.running.append(program)
        if program.stdout.readline() != "ready\n":
            raise CannotRun(f"{command[0]} does not say that it is ready")
        yield program.pid
        program.communicate(timeout=DEADLINE)
        self.running.remove(program)

    def instructions(self, policy, command):
        """How many instructions a process executes in user space, as callgrind counts them."""
        probe = self.popen(self.places["1"][0], policy,
                           ["valgrind", "--tool=callgrind",
                            f"--callgrind-out-file={self.work}/callgrind.out", *command],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.running.append(probe)
        _, err = probe.communicate(timeout=DEADLINE)
        self.running.remove(probe)
        found = re.search(r"Collected : (\d+)", err)
        if probe.returncode != 0 or not found:
            raise CannotRun(f"valgrind failed: {err.strip()[-300:]}")
        return int(found.group(1))

    # --- results ---

    def pairs(self, full, quick=3):
        return quick if self.quick else full

    def wanted(self, name):
        return not self.only or any(word in name or fnmatch.fnmatch(name, f"{word}*") for word in self.only)

    def by_turns(self, measures, turns, warm=True):
        """What each of the functions returned, turn by turn: A B, B A, ..."""
        seen = [[] for _ in measures]
        if warm and not self.quick:
            for measure in measures:
                measure()  # fills caches
        for turn in range(turns):
            order = list(zip(seen, measures))
            for results, measure in order if turn % 2 else order[::-1]:
                results.append(measure())
        return seen

    def compare(self, name, cpus, ours, by_hand, pairs, target="no slower", note=""):
        """A row for two functions that measure once and return a time; see add_ratio."""
        self.add_ratio(name, cpus, *self.by_turns((ours, by_hand), pairs), target, note)

    def add_ratio(self, name, cpus, ours, by_hand, target="no slower", note="", form=None):
        """A row for what was measured by turns. target: the most that the median ratio may be, a key of BEYOND_SPREAD,
        or None for no verdict. form: how a value is printed if it is not a time."""
        low, middle, high = quartiles([o / h for o, h in zip(ours, by_hand)])
        if target is None:
            good, target = True, ""
        elif target in BEYOND_SPREAD:
            good = low <= BEYOND_SPREAD[target]
        else:
            good, target = round(middle, 2) <= target, f"<= {target:.2f}"
        medians = [(form or readable)(statistics.median(side)) for side in (ours, by_hand)]
        self.add(name, cpus, target, middle, low, high, good=good,
                 note=f"{medians[1]} -> {medians[0]}{note}",
                 raw={"pairs": len(ours), "with_shim_s": ours, "by_hand_s": by_hand})

    def add_most(self, name, cpus, values, most, unit, note="", raw=None):
        """A row for values whose median may be at most this, or with no target if most is None."""
        low, middle, high = min(values), statistics.median(values), max(values)
        self.add(name, cpus, "" if most is None else f"<= {most:g} {unit}".rstrip(), middle, low, high,
                 good=most is None or middle <= most, unit=unit, note=note, raw=raw)

    def add(self, name, cpus, target, value, low, high, *, good, unit="", note="", raw=None):
        row = {"name": name, "cpus": cpus, "target": target, "measured": value, "low": low, "high": high, "unit": unit,
               "verdict": ("ok" if good else "over") if target else "", "note": note}
        print(format_row(row), flush=True)
        self.rows.append({**row, **(raw or {})})


def column(runs, number):
    return [run[number] for run in runs]


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0], values[0]
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def readable(seconds):
    if seconds < 1e-7:
        return f"{seconds * 1e9:.3g} ns"
    return f"{seconds * 1e6:.4g} us" if seconds < 1e-3 else f"{seconds * 1e3:.4g} ms"


def field(text, name):
    """The number after this word in the last line that has it."""
    found = re.findall(rf"\b{re.escape(name)} ([-0-9.]+)", text)
    if not found:
        raise CannotRun(f"no '{name}' in: {text.strip()[-300:]}")
    return float(found[-1])


def matched(pattern, text, program):
    """The number that the pattern finds."""
    found = re.search(pattern, text, re.MULTILINE)
    if not found:
        raise CannotRun(f"{program} says: {text.strip()[-300:]}")
    return float(found.group(1))


FORMAT = ("{name:<60} {cpus:>4}  {target:<13} {measured:<12} {spread:<17} {verdict:<5} {note}")


def format_row(row):
    unit = f" {row['unit']}" if row["unit"] else ""
    places = 1 if unit else 2
    return FORMAT.format(**{**row, "measured": f"{row['measured']:.{places}f}{unit}",
                            "spread": f"[{row['low']:.{places}f}, {row['high']:.{places}f}]"}).rstrip()
