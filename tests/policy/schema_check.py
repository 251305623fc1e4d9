#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares config/policy.schema.json with the parser.

usage: schema_check.py COMMAND DIRECTORY

COMMAND is build/nagleshim; its `check` is the parser. DIRECTORY has the policies of policies.table in
its folders valid and bad. Parser and schema judge these, every policy in config/, and some hundreds
of policies with values at the bounds. They must agree, except for the mistakes that a schema cannot
express, which SCHEMA_CANNOT_SEE lists. The schema's options must be those of the parser's own list.
Prints TAP; exits 1 if something differs."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "config/policy.schema.json").read_text())

# Bad policies that are well-formed JSON for Python and valid for the schema.
SCHEMA_CANNOT_SEE = {
    "duplicate-key": "JSON readers keep the last of two members",
    "duplicate-key-escaped": "the same",
    "rule-duplicate-key": "the same",
    "sockopt-duplicate": "the same",
    "sockopt-verb-twice": "the same",
    "endpoint-range-backwards": "a pattern cannot compare two numbers",
    "endpoint-v4-host-bits": "a pattern cannot count bits",
    "endpoint-v6-host-bits": "the same",
    "lone-low-surrogate": "Python lets half a pair pass",
}

failures = 0
count = 0


def ok(good, text, *details):
    global failures, count
    count += 1
    failures += not good
    print(f"{'' if good else 'not '}ok {count} - {text}")
    for detail in [] if good else details:
        print(f"# {detail}")


def parser_messages(command, paths):
    """The parser's error for each path that it refuses."""
    errors = {}
    for start in range(0, len(paths), 500):
        batch = [str(p) for p in paths[start : start + 500]]
        run = subprocess.run([command, "check", *batch], capture_output=True, text=True)
        if run.returncode not in (0, 1):
            sys.exit(f"{command} check: exit status {run.returncode}: {run.stderr}")
        for line in run.stderr.splitlines():
            place = re.match(r"(.*?\.json):\d+:\d+: (.*)", line)
            if place and place[1] in batch:
                errors[place[1]] = place[2]
    return {p: errors.get(str(p)) for p in paths}


def schema_objects(node, where="policy"):
    """Every part of the schema that describes an object, and every key with its description. Conditional parts
    (if, then) add no description."""
    if isinstance(node, dict):
        if "properties" in node:
            yield where, node
        for key, value in node.items():
            if key not in ("enum", "default", "if", "then"):
                yield from schema_objects(value, f"{where}.{key}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from schema_objects(value, f"{where}[{i}]")


def check_schema_itself():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    ok(True, "the schema is a JSON Schema of 2020-12")
    for where, node in schema_objects(SCHEMA):
        ok(node.get("additionalProperties") is False, f"{where} allows no other keys")
        for key, value in node["properties"].items():
            target = value
            if "description" not in target and "$ref" in target:
                target = SCHEMA["$defs"][target["$ref"].rsplit("/", 1)[1]]
            ok(bool(target.get("description")), f"{where}: {key} has a description")


def c_integer(text):
    return eval(text.replace("INT_MAX", "2147483647").replace("/", "//"), {})


def option_table():
    text = (ROOT / "shim/policy/sockopts.def").read_text()
    rows = re.findall(r"^NS_SOCKOPT_ROW\((\w+), \w+, \w+, ([^,]+), ([^)]+)\)", text, re.M)
    return {name: (c_integer(least), c_integer(most)) for name, least, most in rows}


def check_options():
    table = option_table()
    properties = SCHEMA["$defs"]["sockopt"]["properties"]
    ok(list(properties) == list(table), "the schema's options are those of sockopts.def")
    for name, (least, most) in table.items():
        action = SCHEMA["$defs"][properties[name]["$ref"].rsplit("/", 1)[1]]
        node = action["anyOf"][1]["additionalProperties"]
        ok((node["minimum"], node["maximum"]) == (least, most), f"{name} has its range")


def rule(**members):
    return {"version": 1, "rules": [members]}


def boundary_policies():
    for name, (least, most) in option_table().items():
        for value in (least - 1, least, most, most + 1):
            for verb in ("set", "min", "max"):
                yield rule(sockopt={name: {verb: value}})
        for word in ("pass", "ignore", "Pass", ""):
            yield rule(sockopt={name: word})
    for key, node in (("send", "rule"), ("ack", "rule"), ("role", "match")):
        words = SCHEMA["$defs"][node]["properties"][key]["enum"]
        for word in [*words, "unknown", "adaptive", "", words[0].upper()]:
            yield rule(**{key: word}) if node == "rule" else rule(match={key: word})
    for value in (49, 50, 51, 99999, 100000, 100001, 50.0, 50.5, 1e2, 1e30, True, "50", None):
        yield rule(max_delay_us=value)
    for n in (0, 1, 64, 65):
        yield rule(name="é" * n)
    for n in (0, 1, 1024, 1025):
        yield rule(match={"process": "é" * n})
        yield rule(match={"args": "é" * n})
    for character in "\x01\x1f\x20\x7e\x7f\x80":
        yield rule(name="a" + character)
        yield rule(comment="a" + character)


ENDPOINTS = """1 65535 65536 0 00 080 80-90 80- -90 80-90-100 a example.com *:80 10.0.0.1 10.0.0.1/32
    10.0.0.0/8 10.0.0.0/08 10.0.0.0/33 10.0.0 10.0.0.256 010.0.0.1 10.0.0.1:80 10.0.0.1:0 10.0.0.1:80-81
    10.0.0.0/8:80 10.0.0.0:80/8 10.0.0.1: 0.0.0.0/0 ::/0 :: ::1 ::1/128 ::1/129 fd00::/8 [fd00::/8]
    [fd00::/8]:443 [fd00::/8]:443-444 [fd00::]/8 [fd00::/8]443 [] []:80 [::1 ::1] FD00::/8 fd00::%1
    ::ffff:10.0.0.1 ::ffff:10.0.0.0/104 [10.0.0.1]:80 1:2:3:4:5:6:7:8 1:2 g::1 12345::1 00080 -80 80-90-9
    +80 8a localhost a.b:80 * 1.2.3 1.2.3.4/ 1.2.3.4/33 1.2.3.4/032 1.2.3.4: 1.2.3.4:80:90 01.2.3.4 :80 [::1]80
    [::1]: [1.2.3.4]:80 [::1]/128 fe80::1%eth0 ::/-1 ::/129 1.2.3.4/99999999999999999999 9999999999999999999
    [::1]:0 1.2.3.4:0""".split() + ["", " 80", "80 "]


def schema_accepts(validator, policy):
    return next(validator.iter_errors(policy), None) is None


def check_fixtures(command, validator, directory):
    goods = [*sorted((directory / "valid").glob("*.json")), ROOT / "config/default.json",
             *sorted((ROOT / "config/policies").glob("*.json"))]
    bads = sorted((directory / "bad").glob("*.json"))
    messages = parser_messages(command, goods + bads)
    for path in goods:
        good = schema_accepts(validator, json.loads(path.read_text()))
        ok(good and messages[path] is None, f"both accept {path.name}", messages[path])
    unseen = set()
    for path in bads:
        try:
            good = schema_accepts(validator, json.loads(path.read_bytes().decode()))
        except ValueError:
            good = False  # not JSON: nothing that a schema could judge
        if good:
            unseen.add(path.stem)
        ok(messages[path] is not None, f"the parser refuses {path.name}")
    ok(unseen == set(SCHEMA_CANNOT_SEE), "the schema refuses them too, except for the listed ones",
       f"not listed: {sorted(unseen - set(SCHEMA_CANNOT_SEE))}",
       f"listed but seen: {sorted(set(SCHEMA_CANNOT_SEE) - unseen)}")


def check_made(command, validator):
    policies = [*boundary_policies(), *(rule(match={"remote": e}) for e in ENDPOINTS)]
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for i, policy in enumerate(policies):
            paths.append(pathlib.Path(directory) / f"{i}.json")
            paths[i].write_text(json.dumps(policy))
        messages = parser_messages(command, paths)
    verdicts = [(schema_accepts(validator, p), messages[path], p) for p, path in zip(policies, paths)]
    differ = [f"schema {s}, parser {m}: {json.dumps(p)}" for s, m, p in verdicts if s == bool(m)]
    taken = sum(s for s, _, _ in verdicts)
    ok(100 < taken < len(verdicts) - 100, f"of {len(verdicts)} made policies {taken} are good")
    ok(not differ, "schema and parser agree on every one", *differ[:10])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    check_schema_itself()
    check_options()
    check_fixtures(sys.argv[1], validator, pathlib.Path(sys.argv[2]))
    check_made(sys.argv[1], validator)
    print(f"1..{count}")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
