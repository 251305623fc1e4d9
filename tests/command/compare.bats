#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: `nagleshim compare` shows what the shim changes, and calls nothing a difference that chance makes.
# shellcheck disable=SC2154 # bats sets $output and $status; helpers set $port and $python

bats_require_minimum_version 1.5.0
load ../helpers/doctor

setup() {
    doctor_setup
    ns_python
}

teardown() {
    ns_teardown
}

victim() {
    ns_start server "$EXAMPLES/tcp_nodelay_server" --connections 0 0 0
    ns_port server
}

compare() {
    run --separate-stderr "$NS" compare "$@"
}

says() {
    "$python" - "$1" "$2" <<'PYTHON'
import json, sys
o = json.load(open(sys.argv[1]))
assert eval("(" + sys.argv[2] + ")"), o
PYTHON
}

@test "a client that stalls is faster with the shim, and that is no chance" {
    victim
    compare --runs 5 --json "$T/o.json" -- "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 30
    expect_status 0
    expect_whole output ""
    [[ ${stderr_lines[0]} == "nagleshim compare: with the shim it is faster, and that is no chance (5 and 5 runs, p 0.0079)" ]]
    says "$T/o.json" 'o["differs"] is True and o["p"] < 0.01 and len(o["without"]["ms"]) == len(o["with"]["ms"]) == 5
        and o["without"]["median_ms"] > 1000 and o["with"]["median_ms"] < 250
        and o["without"]["stalls"] >= 25 and o["with"]["stalls"] == 0 and o["without"]["delayed_acks"] >= 125'
}

@test "the runs with the shim have the policy that is named" {
    victim
    compare --runs 5 -p "$(policy app '{"send": "app", "ack": "app"}')" --json "$T/o.json" -- \
        "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 6
    expect_status 0
    says "$T/o.json" 'o["with"]["median_ms"] > 100'
}

@test "too few runs to tell are not told" {
    victim
    compare --runs 2 -- "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 6
    expect_status 0
    [[ ${stderr_lines[0]} == "nagleshim compare: these are too few runs to tell a difference from chance (2 and 2 runs, p 0.33)" ]]
}

@test "a run that fails ends it, with its last words" {
    compare -- sh -c 'echo out of luck >&2; exit 3'
    expect_status 2
    [[ $stderr == "nagleshim compare: a run with"*" the shim ended with status 3, so that its time means nothing; it said: out of luck" ]]
    run -127 --separate-stderr "$NS" compare -- no-such-program
    expect_whole stderr "nagleshim compare: cannot find 'no-such-program' in PATH"
}

@test "a program that the shim cannot reach is warned of" {
    program static "$T/static"
    compare -- "$T/static"
    expect_status 2 # it ends with 3
    expect_part stderr "warning: the shim cannot reach it: $T/static is linked statically"
}

@test "wrong input gets one line" {
    local words expected
    while IFS='|' read -r words expected; do
        # shellcheck disable=SC2086 # words
        compare $words
        expect_status 2
        expect_whole stderr "nagleshim compare: $expected"
    done <<'END'
|no program is named; see 'nagleshim compare --help'
--runs 1 -- true|--runs must be a number from 2 to 1000, not '1'
--runs x -- true|--runs must be a number from 2 to 1000, not 'x'
-p /nowhere/p.json -- true|/nowhere/p.json: cannot be read: No such file or directory
END
    compare -p "$(broken_policy)" -- true
    expect_status 2
    expect_part stderr "broken.json:2:21: "
}
