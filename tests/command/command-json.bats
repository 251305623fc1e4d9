# SPDX-License-Identifier: MIT
# Promise: With --json, a command prints one JSON object, whatever it finds and whatever goes wrong.
# check, explain and doctor: the object fits the schema, and the exit status of the text form.

load ../helpers/doctor

# json STATUS EXPRESSION WORD...: `nagleshim WORD...` exits with STATUS and prints one object in strict UTF-8 with that
# status. The Python expression is true for the object o. The text form must have the same status.
json() {
    local expected=$1 expression=$2
    shift 2
    status=0
    "$NS" "$@" >"$T/out" 2>"$T/err" || status=$?
    output=$(cat "$T/out")
    stderr=$(cat "$T/err")
    expect_status "$expected"
    keep "$output"
    python3 - "$T/out" "$expected" "$expression" "$1" "$T/err" <<'PYTHON' || unexpected
import json, sys
def once(pairs):
    keys = [k for k, v in pairs]
    assert len(keys) == len(set(keys)), keys
    return dict(pairs)
text = open(sys.argv[1], "rb").read().decode("utf-8")
o = json.loads(text, object_pairs_hook=once, parse_constant=lambda c: sys.exit(c))
assert o["status"] == int(sys.argv[2]), o["status"]
assert o["command"] == sys.argv[4] and o["nagleshim"], o
said = open(sys.argv[5], "rb").read().decode("utf-8", "replace").splitlines()
assert len(said) == len(o["messages"]) and all(m in l for m, l in zip(o["messages"], said)), (said, o["messages"])
assert eval("(" + sys.argv[3] + ")"), o
PYTHON
}

@test "check --json has an entry for every file: valid, with warnings, with errors, unreadable" {
    local good bad
    good=$(policy good '{}, {"name": "late"}')
    bad=$T/bad.json
    printf '{"rules": [\n {"send": "fast"},\n {"match": 3}]}\n' >"$bad"
    json 0 'o["files"][0] == {"file": "'"$good"'", "valid": True, "n_rules": 2, "enabled": True,
        "errors": [], "warnings": [{"number": 2, "name": "late",
        "text": "never used: rule 1 before it already takes every socket it could match"}]}' check --json "$good"
    json 2 '[f["valid"] for f in o["files"]] == [True, False, False] and o["files"][1]["more"] is False
        and [(e["line"], e["column"]) for e in o["files"][1]["errors"]] == [(2, 11), (3, 12), (1, 1)]
        and o["files"][2]["errors"] == [{"line": None, "column": None, "text": "cannot be read: No such file or directory"}]
        ' check "$good" --json "$bad" "$T/none.json"
    json 1 'len(o["files"]) == 2' check --json "$bad" "$good"
    json 1 'o["files"][0]["file"] == "-" and "text ends too early" in o["files"][0]["errors"][-1]["text"]' \
        check --json - <<<'{'
    json 0 'o["files"][0]["file"] is None' check --json
    policy policies/default '{}' >/dev/null
    json 0 'o["files"][0]["file"].endswith("default.json")' check --json
    NAGLESHIM_OFF=1 json 0 'len(o["messages"]) == 1' check --json
}

@test "check --json shows that a file may have more errors than are printed" {
    python3 -c 'print("""{"version": 1, "rules": [%s]}""" % ", ".join(["{\"x\": 1}"] * 150))' >"$T/many.json"
    json 1 'len(o["files"][0]["errors"]) == 100 and o["files"][0]["more"] is True' check --json "$T/many.json"
}

@test "explain --json has the process, the socket, every rule with its result, and what is done" {
    policy p '{"name": "a \"quote\"", "match": {"process": "other"}}, {"match": {"remote": "10.0.0.1"}},
        {"send": "auto-cork", "max_delay_us": 350, "sockopt": {"SO_SNDBUF": "ignore"}}' >/dev/null
    json 0 'o["facts"][0]["name"] == "program" and o["facts"][0]["text"].endswith("/cat")
        and o["socket"] == {"role": "client", "local": None, "remote": None}
        and o["tried"] == [{"path": "'"$T"'/p.json", "result": "taken"}]
        and [o[m] for m in ("policy", "valid", "enabled", "n_rules")] == ["'"$T"'/p.json", True, True, 3]
        and [(r["number"], r["name"], r["result"]) for r in o["rules"]] == [(1, "a \"quote\"", "does not match"),
            (2, None, "undecided"), (3, None, "matches")]
        and o["rule"] == {"number": 3, "max_delay_us": 350, "name": None, "send": "auto-cork", "ack": "before-wait"}
        and len(o["effects"]) == 4 and not any("\n" in e or "  " in e for e in o["effects"])
        and len(o["warnings"]) == 1' explain --json -p "$T/p.json" --role client cat
    policy p '{"match": {"role": "server"}}' >/dev/null
    json 1 '"rule" not in o and o["effects"] == []' explain --json -p "$T/p.json" --role client cat
    NAGLESHIM_OFF=1 json 0 'o["policy"] is None and "NAGLESHIM_OFF" in o["reasons"][0]["text"]' explain --json cat
    json 2 'o["valid"] is False and o["tried"][0]["result"] == "invalid" and o["messages"]' \
        explain --json -p "$(broken_policy)" cat
}

@test "doctor --json has facts, warnings, reasons and the verdict of a program" {
    program ordinary "$T/ordinary"
    program static "$T/static"
    json 0 'o["works"] == "yes" and o["verdict"].startswith("the library can reach this program; ") and o["reasons"] == []
        and o["preloaded"] is False
        and {"name": "program", "text": "'"$T"'/ordinary"} in o["facts"] and o["warnings"] == []
        and o["tried"][0] == {"path": "'"$T"'/policies/ordinary.json", "result": "not there"}' doctor --json "$T/ordinary"
    LD_PRELOAD=$LIBRARY json 0 'o["works"] == "yes" and o["preloaded"] is True' doctor --json "$T/ordinary"
    json 1 'o["works"] == "no" and [r["text"] for r in o["reasons"]] == ["it is linked statically, so that nothing can be preloaded into it"]' \
        doctor --json "$T/static"
    # After the program, --json is the program's own option.
    run -0 "$NS" doctor "$T/ordinary" --json
    expect_verdict "the library can reach this program; it is not preloaded here ('nagleshim run' does it)"
}

@test "doctor --json has the same members for a process" {
    may_look
    patient p pause env LD_PRELOAD="$LIBRARY"
    json 0 'o["works"] == "yes" and o["verdict"] == "the library works in process '"${NS_PID[p]}"'"
        and [p["library"] for p in o["processes"]] == ["works"] and o["processes"][0]["counters"]["pushes"] == 0
        and o["processes"][0]["rules"] == [{"number": 1, "name": "every-tcp-socket", "send": "adaptive", "ack": "before-wait", "sockets": 0}]
        and any(f["name"] == "so far" and f["text"].startswith("sockets ") for f in o["facts"])' doctor --pid "${NS_PID[p]}" --json
    patient q pause
    json 1 'o["works"] == "no" and "LD_PRELOAD was not set" in o["reasons"][0]["text"]' doctor --json --pid "${NS_PID[q]}"
}

@test "--json is valid JSON after wrong usage, for missing files and failed programs, and for invalid UTF-8" {
    json 2 'o["files"] == [] and "unknown option \u0027--frobnicate\u0027" in o["messages"][0]' check --frobnicate --json
    json 2 'o["rules"] == [] and "the program is missing" in o["messages"][0]' explain --json
    json 2 '"--remote" in o["messages"][0]' explain --remote nowhere --json cat
    json 2 '"needs a value" in o["messages"][0]' doctor --json --pid
    json 2 '"there is no process" in o["messages"][0] and "works" not in o' doctor --json --pid 2147483647
    json 2 '"cannot find" in o["messages"][0]' doctor --json no-such-program
    json 2 '"there is no process" in o["messages"][0]' diagnose --json --pid 2147483647
    json 2 '"must be seconds" in o["messages"][0]' diagnose --json --for 0 -- true
    json 126 "\"cannot run '/'\" in o[\"messages\"][0]" diagnose --json -- /
    json 2 '"unknown option" in o["messages"][0]' diagnose --json --such -- true
    json 2 "\"cannot write '/nowhere/x'\" in o[\"messages\"][0]" diagnose --json --html /nowhere/x -- true
    json 2 '"failed with status 3" in o["messages"][0] and len(o) == 4' compare --json -- sh -c 'exit 3'
    json 2 'o["files"][0]["file"].endswith("/\ufffdx\u00e9.json")' check --json "$T/"$'\xffx\xc3\xa9.json'
    printf '{"version": 1, "rules": [], "\xc3\xa9\\u0001\\"": 1}' >"$T/odd.json"
    json 1 '"\u00e9" in o["files"][0]["errors"][0]["text"]' check --json "$T/odd.json"
    # Cut in the middle of a character.
    printf '{"version": 1, "rules": [{"name": 5}], "%s": 1}' "$(printf '\xc3\xa9%.0s' {1..60})" >"$T/long.json"
    json 1 'len(o["files"][0]["errors"]) == 2' check --json "$T/long.json"
    run --separate-stderr "$NS" check --json --help
    expect 0 output has "usage: nagleshim check"
    run -2 bash -c '"$0" check --json >/dev/full' "$NS"
}

@test "the file of --json is written even if nobody reads what is said on standard error" {
    local words
    for words in check 'explain true' 'doctor true' 'host status'; do
        rm -f "$T/o.json"
        # shellcheck disable=SC2086 # words
        set -- $words
        { sleep 0.3; NAGLESHIM_NONE=1 "$NS" "$1" --json="$T/o.json" "${@:2}" 2>&1 || true; } | true
        jq -e --arg verb "$1" '.command == $verb and (.messages[0] | contains("NAGLESHIM_NONE"))' "$T/o.json"
    done
}
