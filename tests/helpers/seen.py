# SPDX-License-Identifier: MIT
# Holds what `nagleshim diagnose` has said of a row of seen.table against the row, and what its policy has done against
# what was foretold. Usage: seen.py DIRECTORY SAYS BESIDES FLAGS WIRE; seen.py DIRECTORY cured.
import json
import pathlib
import re
import sys

TICK_MS = 4
CALLED = ("proven", "likely")
GRADES = {"proven": ("proven",), "maybe": ("cannot tell",), "none": ("none",), "late": ("late but nobody waited",),
          "no": ("none", "late but nobody waited", "cannot tell"), "likely": ("likely",),
          "held": ("proven", "likely", "none", "late but nobody waited", "cannot tell")}


class Row:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.wrong = []

    def read(self, view, end):
        return json.loads((self.directory / view / (end + ".json")).read_text(encoding="utf-8"))

    def number(self, name, view="inside"):
        return int((self.directory / view / name).read_text())

    def expect(self, what, text):
        if not what:
            self.wrong.append(text)

    def end(self):
        if self.wrong:
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
                for log in sorted((self.directory / view).glob("*.err")) if view == "inside" else ():
                    print(log.name, log.read_text(errors="replace")[:2000])
            print("\n".join(self.wrong))
        sys.exit(bool(self.wrong))


def causes(said):
    return {one["cause"] for row in said["rows"] for one in row["besides"]}


def judge_view(row, view, writer, expected, other, flags):
    reader = "server" if writer == "client" else "client"
    if view == "outside" and other == "likely":
        other = "no"
    ends = {writer: GRADES[expected], reader: GRADES[other]}
    for end, grades in ends.items():
        said = row.read(view, end)
        row.expect(said["grade"] in grades, f"{view}, the {end}: {said['grade']}, not {' or '.join(grades)}")
        for one in said["rows"]:
            row.expect(one["grade"] in grades or one["grade"] not in CALLED, f"{view}, the {end}: {one['grade']}")
    status, grade = row.number("watched.status", view), row.read(view, "client")["grade"]
    row.expect(status == (1 if grade in CALLED else 2 if grade == "cannot tell" else 0),
               f"{view}: --fail-on likely ended with {status}")


# Bytes that a program waited for, at either end; those whose answers came late are not certain to have cost it so much.
def held(row, view):
    return sum(one["stalls"] + one["maybe"] for end in ("client", "server") for one in row.read(view, end)["rows"])


def judge_stalls(row, writer, flags):
    said = row.read("inside", writer)
    stalls, delayed = sum(one["stalls"] for one in said["rows"]), row.number("watched.delayed")
    row.expect(stalls >= 10, f"{stalls} stalls from inside")
    if "uncounted" in flags:
        return said
    row.expect(abs(held(row, "inside") - delayed) <= 1, f"{held(row, 'inside')} holds, {delayed} delayed ACKs")
    delayed = row.number("watched.delayed", "outside")
    row.expect(held(row, "outside") >= 0.7 * delayed, f"{held(row, 'outside')} from outside, {delayed} delayed ACKs")
    return said


def watched(row, says, besides, flags, wire):
    writer, inside, outside, other = (says.split() + ["no"])[:4]
    for view, expected in (("inside", inside), ("outside", outside)):
        judge_view(row, view, writer, expected, other, flags)
    for word in besides.split():
        views, _, cause = word.rpartition(":")
        for view in (views,) if views else ("inside", "outside"):
            found = causes(row.read(view, writer))
            row.expect(cause in found, f"{view}: {cause} is not named, but {', '.join(found) or 'nothing'}")
    if inside == "proven":
        said = judge_stalls(row, writer, flags)
        (row.directory / "inside" / "cure.json").write_text(json.dumps(said["policy"]))


def field(text, name):
    return float(re.findall(rf"\b{name} ([0-9.]+)", text)[-1])


def cured(row):
    before, after = ((row.directory / "inside" / (name + "-client.out")).read_text() for name in ("watched", "cured"))
    row.expect(row.number("cured.status") == 0, "the client failed under the policy")
    # Over a wire what is left is the distance.
    trip = max(one["rtt_us"] or 0 for one in row.read("inside", "client")["rows"]) / 1e3
    row.expect(field(after, "stalls") == 0 or 10 < field(after, "median_us") / 1e3 < trip + 10, f"under the policy: {after}")
    gain = (field(before, "median_us") - field(after, "median_us")) / 1e3
    cures = [cure for end in ("client", "server") for one in row.read("inside", end)["rows"]
             if one["grade"] == "proven" for cure in one["cures"][:1]]
    foretold = cures[0]["from_ms"] - cures[0]["to_ms"]
    row.expect(abs(gain - foretold) <= 0.15 * foretold, f"a gain of {gain} ms where {foretold} ms were foretold")


def main(directory, says, *words):
    row = Row(directory)
    if says == "cured":
        cured(row)
    else:
        watched(row, says, *words)
    row.end()


main(*sys.argv[1:])
