# SPDX-License-Identifier: MIT
# Compares the results of `nagleshim diagnose` with a row of seen.table, and the gain of its policy with the estimate.
# Usage: seen.py DIRECTORY SAYS BESIDES FLAGS; seen.py DIRECTORY cured FLAGS; seen.py DIRECTORY control ROUNDS.
import json
import pathlib
import re
import sys

MISSED = 3  # the exit status
HELD = "held-by-the-peer"
CALLED = ("proven", "likely")
GRADES = {"proven": ("proven",), "maybe": ("cannot-tell",), "none": ("none",), "late": ("late-but-nobody-waited",),
          "no": ("none", "late-but-nobody-waited", "cannot-tell"), "likely": ("likely",),
          "far": ("cannot-tell", "likely"),
          "held": ("proven", "likely", "none", "late-but-nobody-waited", "cannot-tell")}


class Row:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.wrong = []
        self.missed = []

    def read(self, view, end):
        return json.loads((self.directory / view / (end + ".json")).read_text(encoding="utf-8"))

    def number(self, name, view="inside"):
        return int((self.directory / view / name).read_text())

    def expect(self, what, text):
        if not what:
            self.wrong.append(text)

    # What a view may miss. A wrong claim is checked by expect.
    def hope(self, what, text):
        if not what:
            self.missed.append(text)

    def end(self):
        if self.wrong or self.missed:
            for view in ("inside", "outside"):
                for end in ("client", "server"):
                    file = self.directory / view / (end + ".json")
                    if file.exists():
                        said = self.read(view, end)
                        print(view, end, said["verdict"])
                        for row in said["rows"]:
                            print("  ", {key: row[key] for key in ("role", "grade", "requests", "stalls", "maybe",
                                  "late", "receiving", "late_acks", "shortest_ms", "longest_ms", "rtt_us")},
                                  [(one["cause"], one["times"], one["ms"]) for one in row["besides"]])
            for view in ("inside", "control"):
                for log in sorted((self.directory / view).glob("*.err")):
                    print(log.name, log.read_text(errors="replace")[:2000])
            print("\n".join(self.wrong + self.missed))
        sys.exit(1 if self.wrong else MISSED if self.missed else 0)


def causes(said):
    return {one["cause"] for row in said["rows"] if not row["is_peer"] for one in row["besides"]}


# The test ends a server that does not end with its client, by SIGTERM.
def ended(row, view, client, server):
    row.expect(client == 0 and server in (0, 143), f"{view}: the client ended with {client}, the server with {server}")


# Without an observer the programs succeed. The kernel counts a delayed ACK for each stall, and the client takes longer. The
# first rounds of a connection may not stall.
def control(row, rounds):
    client = row.number("control.status", "control")
    ended(row, "control", client, row.number("control.server", "control"))
    if client == 0:
        delayed = row.number("control.delayed", "control")
        slow = field((row.directory / "control" / "control-client.out").read_text(), "stalls")
        row.expect(min(delayed, slow) >= int(rounds) / 4,
                   f"the control does not stall: {delayed} delayed ACKs, {slow} of {rounds} rounds take over 20 ms")


def judge_view(row, view, writer, expected, other, flags):
    reader = "server" if writer == "client" else "client"
    ends = {writer: GRADES[expected], reader: GRADES[other]}
    if writer == "either":
        ends = {"client": GRADES[other], "server": GRADES[other]}
        called = [row.read(view, end)["grade"] for end in ends]
        row.hope(expected == "no" or set(called) & set(GRADES[expected]), f"{view}: {' and '.join(called)}")
    for end, grades in ends.items():
        said = row.read(view, end)
        if view == "outside" and other == "likely" and end == reader:
            grades = GRADES["no"]
        # Each end also looks at the other one, and then both know of the same stall.
        found = [one["grade"] for one in said["rows"] if not one["is_peer"]] or [said["grade"]]
        at_peer = {one["grade"] for one in said["rows"] if one["is_peer"]} & set(CALLED)
        for grade in found:
            # "likely" is less than the proof that was expected, and no wrong claim.
            wrong = grade in CALLED and (grade != "likely" or "proven" not in grades)
            check = row.expect if wrong or grades == GRADES["far"] else row.hope
            check(grade in grades or (grade == HELD and at_peer), f"{view}, the {end}: {grade}, not {' or '.join(grades)}")
        if end == reader and writer != "either" and expected == "proven" and other != "far" and "distant" not in flags:
            row.hope(HELD in found, f"{view}, the {end} is not '{HELD}', but {' and '.join(found)}")
        row.expect(not at_peer or set(GRADES[expected]) & set(CALLED) or writer == "either" or other == "likely",
                   f"{view}, the {end}: its peer is called {' and '.join(at_peer)}")
    status, grade = row.number("watched.status", view), row.read(view, "client")["grade"]
    row.expect(status == (1 if grade in CALLED else 2 if grade == "cannot-tell" else 0),
               f"{view}: --fail-on likely ended with {status}")
    ended(row, view, 0, row.read(view, "server")["status"])
    row.expect((row.directory / view / "watched-client.out").stat().st_size, f"{view}: the client has printed nothing")


# Holds for which a program waited, at either end, whether certain or not.
def held(row, view):
    return sum(one["stalls"] + one["maybe"] for end in ("client", "server") for one in row.read(view, end)["rows"] if not one["is_peer"])


def judge_stalls(row, flags):
    stalls = sum(one["stalls"] for end in ("client", "server") for one in row.read("inside", end)["rows"] if not one["is_peer"])
    delayed = row.number("watched.delayed")
    row.hope(stalls >= 3, f"{stalls} stalls from inside")
    if "uncounted" in flags:
        return
    holds = held(row, "inside")
    if "static" in flags:
        holds = sum(one["stalled"] for one in row.read("inside", "server")["rows"] if not one["is_peer"])
    row.hope(abs(holds - delayed) <= 1 + delayed // 8, f"{holds} holds, {delayed} delayed ACKs")
    delayed = row.number("watched.delayed", "outside")
    row.hope(held(row, "outside") >= 0.5 * delayed, f"{held(row, 'outside')} from outside, {delayed} delayed ACKs")


def watched(row, says, besides, flags):
    writer, inside, outside, other = (says.split() + ["no"])[:4]
    for view, expected in (("inside", inside), ("outside", outside)):
        judge_view(row, view, writer, expected, other, flags)
    for word in besides.split():
        views, _, cause = word.rpartition(":")
        for view in (views,) if views else ("inside", "outside"):
            found = causes(row.read(view, writer))
            row.hope(cause in found, f"{view}: {cause} is not named, but {', '.join(found) or 'nothing'}")
    if "corks" not in flags and "cork" not in besides:
        for view in ("inside", "outside"):
            for end in ("client", "server"):
                row.expect("cork" not in causes(row.read(view, end)), f"{view}, the {end}: a cork is named, and there is none")
    if inside == "proven":
        judge_stalls(row, flags)
        # The policy of the end that holds, and not of one that only knows of it, as its cure leaves a round trip.
        said = max((row.read("inside", end) for end in ("client", "server")), key=lambda one: one["lost_ms"] * any(
            held["grade"] == "proven" and not held["is_peer"] for held in one["rows"]))
        (row.directory / "inside" / "cure.json").write_text(json.dumps(said["proposal"]))


def field(text, name):
    return float(re.findall(rf"\b{name} ([0-9.]+)", text)[-1])


# The estimated gain for each request of the client.
def estimated_ms(row):
    ends = [one for end in ("client", "server") for one in row.read("inside", end)["rows"]
            if one["grade"] == "proven" and not one["is_peer"]]
    both = len(ends) == 2 and all("send" in one["cures"][0]["does"] and "ack" in one["cures"][0]["does"] for one in ends)
    return sum(one["cures"][0]["from_ms"] - one["cures"][0]["to_ms"] for one in ends) / (2 if both else 1)


def cured(row, flags):
    before, after = ((row.directory / "inside" / (name + "-client.out")).read_text() for name in ("watched", "cured"))
    row.expect(row.number("cured.status") == 0, "the client failed under the policy")
    # Over a wire the round trip remains.
    trip = max(one["rtt_us"] or 0 for one in row.read("inside", "client")["rows"]) / 1e3
    row.hope(field(after, "stalls") == 0 or 10 < field(after, "median_us") / 1e3 < trip + 10,
             f"under the policy: {after}")
    gain = (field(before, "median_us") - field(after, "median_us")) / 1e3
    estimated = estimated_ms(row)
    row.hope("unpriced" in flags or abs(gain - estimated) <= 0.15 * estimated, f"a gain of {gain} ms, but the estimate is {estimated} ms")


def main(directory, says, *words):
    row = Row(directory)
    if says == "cured":
        cured(row, words[0])
    elif says == "control":
        control(row, *words)
    else:
        watched(row, says, *words)
    row.end()


main(*sys.argv[1:])
