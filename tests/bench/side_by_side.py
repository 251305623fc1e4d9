# SPDX-License-Identifier: MIT
"""What the rows of the benchmark share: the network they run in, processes with and without the
shim on a CPU, and comparisons by turns. Ends only processes that it started."""

import contextlib
import fnmatch
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIBRARY = ROOT / "build/libnagleshim.so"
ISOLATED = "NS_BENCH_NETWORK"
# What the lower quartile may be. By one per cent two runs of the very same differ all through a
# comparison.
BEYOND_SPREAD = {"no slower": 1.01, "within 2 %": 1.02}
# MTU, and tcp_autocorking: the kernel's own gathering would change how many segments a burst makes.
PATH = (1500, 0)
DEADLINE = 60  # seconds for anything that should have come long before

BUILT_IN = ""  # the shim with no policy at all
OBSERVE = "observe"  # the library that observes, and records
NO_SHIM = None


class CannotRun(Exception):
    pass


def isolate():
    """Start again in a network namespace of our own, where one is to be had."""
    if ISOLATED not in os.environ:
        as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
        unshare = ["unshare", *as_root, "--net"]
        if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode == 0:
            os.environ[ISOLATED] = "own"
            os.execvp("unshare", [*unshare, *sys.argv])
        print("bench: no network namespace of one's own is to be had here", file=sys.stderr)
        return False
    set_path(*PATH)
    return True


def set_path(mtu, autocorking):
    subprocess.run(["ip", "link", "set", "lo", "mtu", str(mtu), "up"], check=True)
    pathlib.Path("/proc/sys/net/ipv4/tcp_autocorking").write_text(f"{autocorking}\n")


@contextlib.contextmanager
def path(mtu):
    """Loopback with this MTU, and the kernel's own gathering as a system has it."""
    if os.environ.get(ISOLATED) != "own":
        raise CannotRun(f"an MTU of {mtu} takes a network namespace of one's own")
    set_path(mtu, 1)
    try:
        yield
    finally:
        set_path(*PATH)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def maps(library, pid):
    try:
        return str(library) in pathlib.Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


class Bench:
    def __init__(self, options, work):
        self.quick = options.quick
        self.only = options.only
        self.work = work
        self.rows = []
        self.baseline = read_baseline(getattr(options, "baseline", None))
        self.running = []
        # A copy: a build that goes on meanwhile must not change what the second half measures.
        self.library = pathlib.Path(shutil.copy(LIBRARY, work))
        self.observer = pathlib.Path(shutil.copy(LIBRARY.with_name("libnagleshim-observe.so"), work))
        allowed = sorted(os.sched_getaffinity(0))
        # name -> the CPUs of the server and of the client
        self.places = {"1": (allowed[0], allowed[0])}
        if len(allowed) > 1:
            self.places["2"] = (allowed[0], allowed[1])
        self.clean = {k: v for k, v in os.environ.items()
                      if k != "LD_PRELOAD" and not k.startswith("NAGLESHIM_")}
        (work / "records").mkdir(exist_ok=True)
        # No policy of this machine may decide what is measured.
        self.clean.update(LC_ALL="C", NAGLESHIM_POLICY_DIR=str(work / "no-policies"))

    # --- processes ---

    def environment(self, policy):
        if policy is NO_SHIM:
            return self.clean
        if policy is OBSERVE:
            extra = {"LD_PRELOAD": str(self.observer),
                     "NAGLESHIM_RECORD": str(self.work / "records")}
        else:
            extra = {"LD_PRELOAD": str(self.library)}
            if policy:
                extra["NAGLESHIM_POLICY"] = policy
        return {**self.clean, **extra}

    def popen(self, cpu, policy, command, **how):
        command = [str(word) for word in command]
        return subprocess.Popen(["taskset", "-c", str(cpu), *command], text=True,
                                env=self.environment(policy), **how)

    def start(self, cpu, policy, command, port=None, wait_for=None):
        """A server: from when it listens on port or says so, until close(). What it says goes to
        server.log, or where others run, to one with their number."""
        log = self.work / f"server{len(self.running) or ''}.log"
        with open(log, "w") as out:
            server = self.popen(cpu, policy, command, stdout=out, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL)
        self.running.append(server)
        end = time.monotonic() + DEADLINE
        while True:
            if server.poll() is not None:
                raise CannotRun(f"{command[0]} does not start: {log.read_text().strip()}")
            if wait_for:
                found = re.search(wait_for, log.read_text())
                if found:
                    port = int(found.group(1))
                    break
            else:
                with contextlib.suppress(OSError), \
                        socket.create_connection(("127.0.0.1", port), 1):
                    break
            if time.monotonic() > end:
                raise CannotRun(f"{command[0]} does not listen: {log.read_text().strip()}")
            time.sleep(0.01)
        library = self.observer if policy is OBSERVE else self.library
        if maps(library, server.pid) != (policy is not NO_SHIM):
            raise CannotRun(f"{command[0]}: the shim is not where it should be")
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
        """Run to its end; what it printed."""
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

    def instructions(self, policy, command):
        """How many a process executes in user space, as callgrind counts them."""
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

    def wanted(self, name):
        return not self.only or any(fnmatch.fnmatch(name, f"*{word}*") for word in self.only)

    def add(self, name, cpus, target, value, low, high, *, good, unit="", note="", raw=None):
        row = {"name": name, "cpus": cpus, "target": target, "measured": value, "low": low,
               "high": high, "unit": unit, "verdict": ("ok" if good else "over") if target else "",
               "note": note, "baseline": self.baseline.get(f"{name}|{cpus}")}
        print(format_row(row), flush=True)
        self.rows.append({**row, **(raw or {})})

    def compare(self, name, cpus, ours, by_hand, pairs, target="no slower", note=""):
        """ours and by_hand measure once, and return the time that something takes. target: the most
        that the median ratio may be, "no slower" or "within 2 %" beyond the spread, or None for
        no verdict."""
        self.add_ratio(name, cpus, *self.by_turns((ours, by_hand), pairs), target, note)

    def by_turns(self, measures, turns):
        """What each of measures returned, turn by turn."""
        seen = [[] for _ in measures]
        if not self.quick:
            for measure in measures:
                measure()  # caches, and whatever is done once
        for turn in range(turns):
            order = list(zip(seen, measures))
            for results, measure in order if turn % 2 else order[::-1]:
                results.append(measure())
        return seen

    def add_ratio(self, name, cpus, ours, by_hand, target="no slower", note="", form=None):
        """The row of times that were measured by turns, and as compare() says; form: how one is
        written, where it is no time."""
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

    def pairs(self, full, quick=3):
        return quick if self.quick else full


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0], values[0]
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def readable(seconds):
    """The time of one of them; above a thousand a second people think in rates."""
    if seconds < 1e-7:
        return f"{seconds * 1e9:.3g} ns"
    return f"{seconds * 1e6:.4g} us" if seconds < 1e-3 else f"{seconds * 1e3:.4g} ms"


def read_baseline(path):
    """What was measured when path was written, by name and CPUs."""
    if path is None or not path.exists():
        return {}
    return json.loads(path.read_text())["measured"]


def write_baseline(path, rows):
    """Rows that were not measured this time keep what they had."""
    measured = read_baseline(path)
    measured.update({f"{row['name']}|{row['cpus']}": round(row["measured"], 4) for row in rows})
    path.write_text(json.dumps({"kernel": os.uname().release, "machine": os.uname().machine,
                                "measured": measured}, indent=1, sort_keys=True) + "\n")


FORMAT = ("{name:<60} {cpus:>4}  {target:<13} {measured:<12} {spread:<17} {change:<7} {verdict:<5} "
          "{note}")


def format_row(row):
    unit = f" {row['unit']}" if row["unit"] else ""
    places = 2 if not unit else 1
    spread = "" if row["low"] is None else f"[{row['low']:.{places}f}, {row['high']:.{places}f}]"
    change = ""
    if row["baseline"]:
        change = f"{100 * (row['measured'] / row['baseline'] - 1):+.0f} %"
    return FORMAT.format(**{**row, "measured": f"{row['measured']:.{places}f}{unit}",
                            "spread": spread, "change": change}).rstrip()


def field(text, name):
    """The number behind this word in the last line that has it."""
    found = re.findall(rf"\b{re.escape(name)} ([-0-9.]+)", text)
    if not found:
        raise CannotRun(f"no '{name}' in: {text.strip()[-300:]}")
    return float(found[-1])


def print_head():
    print(FORMAT.format(name="", cpus="CPUs", target="target", measured="measured", spread="spread",
                        change="change", verdict="", note="by hand -> with the shim"))
