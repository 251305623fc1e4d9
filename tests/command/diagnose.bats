#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: `nagleshim diagnose` proves the stalls that are there and no others, prices them, and its policy ends them.
# Parts: 2
# shellcheck disable=SC2016,SC2030,SC2031 # single quotes are for other shells; each test is a process of its own
# shellcheck disable=SC2154 # bats sets $output and $status; helpers set $port and $python
# The programs are the examples, as they are. What is said of them is held against what they measure themselves.

bats_require_minimum_version 1.5.0
load ../helpers/doctor

setup() {
    doctor_setup
    ns_python jsonschema
}

teardown() {
    ns_teardown
}

# on_a_terminal KEYS WORD...: runs it on a terminal of its own and types KEYS there after 1.5 s; what it shows is in
# $T/seen, and at its end its status.
on_a_terminal() {
    "$python" - "$@" >"$T/seen" <<'PYTHON'
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
time.sleep(1.5)
os.write(terminal, sys.argv[1].encode())
text = b""
while True:
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        break
    if not piece:
        break
    text += piece
print(text.decode(errors="replace"))
print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PYTHON
}

# A server for clients that write in pieces: sets port.
victim() {
    ns_start server "$EXAMPLES/tcp_nodelay_server" --connections 0 0 0
    ns_port server
}

# A program that answers late: each answer takes MS milliseconds, whatever is written. Sets port.
slow_server() {
    cat >"$T/slow.py" <<'PYTHON'
import socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
print("listening on port", listener.getsockname()[1], flush=True)
while True:
    one, _ = listener.accept()
    while one.recv(4096):
        time.sleep(float(sys.argv[1]) / 1000)
        one.send(b"answer")
    one.close()
PYTHON
    ns_start slow "$python" "$T/slow.py" "$1"
    ns_port slow
}

# A client with one write for each request.
cat_client() {
    cat >"$T/client.py" <<'PYTHON'
import socket, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for _ in range(int(sys.argv[2])):
    one.send(b"request")
    assert one.recv(4096) == b"answer"
PYTHON
}

# says FILE EXPRESSION: true of the object o in that file, and the schema takes it.
says() {
    "$python" - "$1" "$2" <<'PYTHON'
import json, sys
from jsonschema import Draft202012Validator
o = json.load(open(sys.argv[1], encoding="utf-8"))
schema = json.load(open("config/diagnosis.schema.json"))
Draft202012Validator.check_schema(schema)
Draft202012Validator(schema).validate(o)
rows = o["rows"]
assert eval("(" + sys.argv[2] + ")"), json.dumps(o, indent=1)[:6000]
PYTHON
}

@test "a client that stalls is proven to, with its price, from inside and from outside" {
    local view least=38
    victim
    for view in '' --outside; do
        [[ -z $view ]] || least=10
        # shellcheck disable=SC2086 # none or one option
        run --separate-stderr "$NS" diagnose $view --json "$T/o.json" -- \
            "$EXAMPLES/tcp_nodelay_client" --stats --warmup 10 127.0.0.1 "$port" 40
        expect_status 0
        expect_part output 'stalls 40'
        expect_no_part output diagnose
        [[ ${stderr_lines[0]} == "nagleshim diagnose: it stalls: "* ]]
        expect_part stderr "TCP_NODELAY off; released after"
        # Where others keep the machine busy, a sampler comes late to the first ones, and answers come late.
        says "$T/o.json" 'o["grade"] == "proven" and rows[0]["role"] == "client" and len(rows) == 1
            and '"$least"' <= rows[0]["stalls"] + rows[0]["maybe"] <= 50
            and 36 * rows[0]["stalls"] <= rows[0]["lost_ms"] <= 60 * rows[0]["stalls"] and o["status"] == 0
            and rows[0]["cures"][0]["does"] == "send adaptive" and 38 < rows[0]["cures"][0]["from_ms"] < 60
            and rows[0]["cures"][0]["to_ms"] < 4 and len(o["holds"]) >= rows[0]["stalls"]'
        says "$T/o.json" "rows[0]['source'] == '${view:+outside}' or rows[0]['source'] == 'inside' and not '$view'"
    done
}

@test "the policy that is proposed passes check, and ends every stall" {
    local stall='' policy
    victim
    stall=$("$EXAMPLES/tcp_nodelay_client" --stats --warmup 10 127.0.0.1 "$port" 20)
    [[ $stall == *'stalls 20'* ]]
    run --separate-stderr "$NS" diagnose --policy "$T/cure.json" -- \
        "$EXAMPLES/tcp_nodelay_client" --warmup 10 127.0.0.1 "$port" 20
    expect_status 0
    expect_part stderr "next: $(realpath "$NS") run --policy $T/cure.json -- $EXAMPLES/tcp_nodelay_client --warmup 10 127.0.0.1 $port 20"
    run --separate-stderr "$NS" diagnose --policy "$T/cure.json" -- true
    expect_status 2
    expect_whole stderr "nagleshim diagnose: --policy: '$T/cure.json' is there already, and is not replaced; name a new file"
    run --separate-stderr "$NS" check "$T/cure.json"
    expect_status 0
    expect_whole stderr ""
    grep -q '"process":.*tcp_nodelay_client' "$T/cure.json"
    grep -q "\"$port\"" "$T/cure.json"
    run --separate-stderr "$NS" run --policy "$T/cure.json" -- \
        "$EXAMPLES/tcp_nodelay_client" --stats --warmup 10 127.0.0.1 "$port" 200
    expect_part output 'stalls 0'
    # Printed on one line, it is the same one.
    run --separate-stderr "$NS" diagnose -- "$EXAMPLES/tcp_nodelay_client" --warmup 10 127.0.0.1 "$port" 20
    policy=$(sed -n 's/^policy: //p' <<<"$stderr")
    diff <("$python" -m json.tool <<<"$policy") <("$python" -m json.tool "$T/cure.json")
    run --separate-stderr env NAGLESHIM_POLICY="$policy" "$NS" run -- \
        "$EXAMPLES/tcp_nodelay_client" --stats --warmup 10 127.0.0.1 "$port" 200
    expect_part output 'stalls 0'
}

@test "a static program is seen from outside, and its cure is at the other end" {
    gcc -O2 -static -o "$T/static-client" examples/tcp_nodelay_client.c -lrt -pthread 2>/dev/null
    victim
    run --separate-stderr "$NS" diagnose --json "$T/o.json" --policy "$T/cure.json" -- \
        "$T/static-client" --warmup 10 127.0.0.1 "$port" 30
    expect_status 0
    expect_part stderr "linked statically"
    says "$T/o.json" 'rows[0]["grade"] == "proven" and rows[0]["source"] == "outside" and rows[0]["stalls"] >= 5
        and rows[0]["process"]["reachable"] is False and o["policy"]["rules"][0]["match"]["role"] == "server"'
    # At the other end it does end the stalls.
    ns_stop server
    ns_start cured env LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY="$T/cure.json" "$EXAMPLES/tcp_nodelay_server" \
        --connections 0 "$port" 0
    ns_port cured
    run "$T/static-client" --stats --warmup 10 127.0.0.1 "$port" 100
    expect_part output 'stalls 0'
}

@test "where no preload reaches either end, the source is named, and no policy is proposed" {
    gcc -O2 -static -o "$T/static-client" examples/tcp_nodelay_client.c -lrt -pthread 2>/dev/null
    gcc -O2 -static -o "$T/static-server" examples/tcp_nodelay_server.c -lrt -pthread 2>/dev/null
    # Both are children of what is watched.
    run --separate-stderr "$NS" diagnose --json "$T/o.json" -- bash -c '
        "$0/static-server" --connections 0 0 0 >"$0/port" & until grep -q port "$0/port"; do sleep 0.01; done
        "$0/static-client" --warmup 10 127.0.0.1 "$(sed -nE "1s/.*port ([0-9]+).*/\1/p" "$0/port")" 40; kill $!' "$T"
    expect_part stderr "next: set TCP_NODELAY, or write each request at once, in the source of static-client"
    says "$T/o.json" 'o["grade"] == "proven" and o["policy"] is None'
}

@test "a server that thinks for 44 ms is called slow, and not a stall" {
    local view
    slow_server 44
    cat_client
    for view in '' --outside; do
        # shellcheck disable=SC2086 # none or one option
        run --separate-stderr "$NS" diagnose $view --json "$T/o.json" --fail-on likely -- \
            "$python" "$T/client.py" "$port" 30
        expect_status 0
        [[ ${stderr_lines[0]} == "nagleshim diagnose: no stall: "* ]]
        expect_no_part stderr "policy:"
        says "$T/o.json" 'o["grade"] == "none" and o["policy"] is None and o["lost_ms"] == 0'
    done
}

@test "TCP_NODELAY, TCP_CORK and one write by hand are no stalls" {
    local by
    for by in no_delay cork one_write; do
        victim
        run --separate-stderr "$NS" diagnose --fail-on likely --json "$T/o.json" -- \
            "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 2000 "$by"
        [[ $status -eq 0 || $status -eq 2 ]]
        says "$T/o.json" 'o["grade"] in ("none", "late but nobody waited", "cannot tell") and o["lost_ms"] == 0'
    done
}

@test "exit statuses: the program's own, or what --fail-on and --max-lost-ms ask for" {
    victim
    local stalling=("$EXAMPLES/tcp_nodelay_client" --warmup 10 127.0.0.1 "$port" 20)
    run "$NS" diagnose -- sh -c 'exit 7'
    expect_status 7
    run "$NS" diagnose -- sh -c 'kill -TERM $$'
    expect_status 143
    run "$NS" diagnose --fail-on proven -- "${stalling[@]}"
    expect_status 1
    run "$NS" diagnose --max-lost-ms 100 -- "${stalling[@]}"
    expect_status 1
    run "$NS" diagnose --max-lost-ms 100000 -- "${stalling[@]}"
    expect_status 0
    run --separate-stderr "$NS" diagnose --fail-on likely -- true
    expect_status 2
    expect_part stderr "cannot tell: no TCP connection"
    # Where that is not the program's own, it is told, too.
    run --separate-stderr "$NS" diagnose --fail-on likely --json "$T/o.json" -- sh -c 'exit 7'
    expect_status 2
    expect_part stderr "cannot tell: no TCP connection"
    expect_part stderr "the program itself ended with status 7"
    says "$T/o.json" 'o["status"] == 2 and o["messages"] == ["the program itself ended with status 7"]'
    run --separate-stderr "$NS" diagnose --fail-on likely -- sh -c '"$@"; exit 7' sh "${stalling[@]}"
    expect_status 1
    expect_part stderr "the program itself ended with status 7"
    slow_server 1
    cat_client
    run --separate-stderr "$NS" diagnose --fail-on likely --json "$T/o.json" -- \
        sh -c '"$@"; exit 7' sh "$python" "$T/client.py" "$port" 40
    expect_status 2
    expect_part stderr "no stall: "
    expect_part stderr "the program itself ended with status 7"
    says "$T/o.json" 'o["status"] == 2'
    run -127 --separate-stderr "$NS" diagnose -- no-such-program
    expect_whole stderr "nagleshim diagnose: cannot find 'no-such-program' in PATH"
    run -127 --separate-stderr "$NS" diagnose -- $'./a\n\e[31mname'
    expect_whole stderr "nagleshim diagnose: cannot run './a??[31mname': No such file or directory"
    run -126 --separate-stderr "$NS" diagnose -- /
    expect_whole stderr "nagleshim diagnose: cannot run '/': Permission denied"
}

@test "wrong input gets one line, and nothing is run" {
    local words expected
    while IFS='|' read -r words expected; do
        # shellcheck disable=SC2086 # words
        run --separate-stderr "$NS" diagnose $words
        expect_status 2
        expect_whole stderr "nagleshim diagnose: $expected"
        expect_whole output ""
    done <<'END'
|no program is named, and neither --pid nor --all; see 'nagleshim diagnose --help'
--pid x|--pid must be a process id, not 'x'
--pid 2147483647|there is no process 2147483647
--pid 1 --all|a program, --pid and --all: only one of them can be looked at
--for 0 -- echo no|--for must be seconds from 0.1 to 1000000, not '0'
--for 1e3 -- echo no|--for must be seconds from 0.1 to 1000000, not '1e3'
--interval 0 -- echo no|--interval must be milliseconds from 0.5 to 1000, not '0'
--fail-on maybe -- echo no|--fail-on must be likely or proven, not 'maybe'
--max-lost-ms -1 -- echo no|--max-lost-ms must be milliseconds from 0 to 1000000000, not '-1'
--experiment both -- echo no|--experiment must be push or acknowledge, not 'both'
--experiment push --all|--experiment is made from inside: it needs a program to start, without --outside
--report /nowhere/x.html -- echo no|cannot write '/nowhere/x.html': No such file or directory
--json x --policy x -- echo no|--json, --report and --policy: each needs a file of its own
--josn x -- echo no|unknown option '--josn'; did you mean '--json'? see 'nagleshim diagnose --help'
END
}

@test "with --json - standard output is an object, whatever is wrong" {
    local words expected
    while IFS='|' read -r expected words; do
        # shellcheck disable=SC2086 # words
        run --separate-stderr "$NS" diagnose --json - $words
        printf '%s\n' "$output" >"$T/o.json"
        "$python" - "$T/o.json" "$status" "$expected" <<'PYTHON'
import json, sys
from jsonschema import Draft202012Validator
o = json.load(open(sys.argv[1]))
Draft202012Validator(json.load(open("config/diagnosis.schema.json"))).validate(o)
assert o["command"] == "diagnose" and o["status"] == int(sys.argv[2]) > 0 and sys.argv[3] in o["messages"][0], o
PYTHON
    done <<'END'
there is no process|--pid 2147483647
must be milliseconds|--interval 0 -- true
cannot run '/'|-- /
unknown option|--such -- true
cannot write '/nowhere/x'|--report /nowhere/x -- true
END
}

@test "each result needs a file of its own, whatever it is called" {
    local name
    ln -s o.json "$T/link"
    for name in "$T/./o.json" "$T/link"; do
        run --separate-stderr "$NS" diagnose --json "$T/o.json" --report "$name" -- echo no
        expect_status 2
        expect_whole stderr "nagleshim diagnose: --json, --report and --policy: each needs a file of its own"
        expect_whole output ""
        [[ ! -e $T/o.json ]]
    done
    # What was there stays.
    echo old >"$T/o.json"
    run "$NS" diagnose --json "$T/o.json" --report "$T/link" -- echo no
    expect_status 2
    [[ $(cat "$T/o.json") == old ]]
}

# ignoring_children WORD...: as a supervisor that leaves its children to the kernel starts a program
ignoring_children() {
    timeout -s KILL 30 "$python" -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}

@test "it ends where SIGCHLD was ignored before, and the program finds it ignored" {
    local ignored
    ignored=$(ignoring_children grep SigIgn /proc/self/status)
    run --separate-stderr ignoring_children "$NS" diagnose -- grep SigIgn /proc/self/status
    expect_status 0
    expect_whole output "$ignored"
    run ignoring_children "$NS" diagnose -- sh -c 'exit 7'
    expect_status 7
    run ignoring_children "$NS" run -- grep SigIgn /proc/self/status
    expect_status 0
    expect_whole output "$ignored"
    run ignoring_children "$NS" compare --runs 2 -- true
    expect_status 0
}

@test "a process that runs is looked at for a while, and goes on" {
    victim
    ns_start client "$EXAMPLES/tcp_nodelay_client" --stats --warmup 10 127.0.0.1 "$port" 60
    run --separate-stderr "$NS" diagnose --pid "${NS_PID[client]}" --for 1 --json -
    expect_status 0
    printf '%s\n' "$output" >"$T/o.json"
    says "$T/o.json" 'o["grade"] == "proven" and 900 < o["watched_ms"] < 3000 and rows[0]["stalls"] >= 5
        and rows[0]["process"]["pid"] == '"${NS_PID[client]}"
    expect_part stderr "next: $(realpath "$NS") run -- $(realpath "$EXAMPLES")/tcp_nodelay_client ITS ARGUMENTS"
    ns_join client
    grep -q 'rounds 60' "$T/client.out"
}

@test "a process that ends as soon as it was seen keeps its name" {
    local one='exec 3<>"/dev/tcp/127.0.0.1/$0"; read -rt 0.006 <&3; echo >&3; read -rN6 <&3'
    slow_server 1
    run --separate-stderr "$NS" diagnose --outside --json "$T/o.json" -- \
        bash -c 'for ((i = 0; i < 100; i++)); do bash -c "$0" "$1"; done; true' "$one" "$port"
    says "$T/o.json" 'len(rows) > 20 and {row["process"]["name"] for row in rows} == {"bash"}'
}

@test "another user's process is not to be looked into" {
    [[ $EUID -eq 0 ]] || cannot_here "not root"
    victim
    let_others_in "$T"
    cp "$NS" "$T/nagleshim"
    run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups "$T/nagleshim" diagnose \
        --pid "${NS_PID[server]}" --for 1
    expect_status 3
    expect_part stderr "permission denied: process ${NS_PID[server]}"
    # That a child of it is one's own does not help.
    ns_start parent bash -c 'setpriv --reuid=65534 --regid=65534 --clear-groups sleep 5; true'
    sleep 0.3
    run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups "$T/nagleshim" diagnose \
        --pid "${NS_PID[parent]}" --for 1
    expect_status 3
    # A program that becomes another user is named as what could not be looked into.
    cp "$(command -v sleep)" "$T/other"
    chown 65533 "$T/other"
    chmod 4755 "$T/other"
    run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups "$T/nagleshim" diagnose \
        --fail-on likely --for 0.3 -- "$T/other" 0.5
    expect_status 3
    expect_part stderr "note: 1 process could not be looked into: it is another user's, or protected; ask as root"
}

@test "with --for the report comes while the program goes on, and its status is still passed on" {
    victim
    ns_start diagnosis "$NS" diagnose --for 1 --json "$T/o.json" -- sh -c \
        '"$0" --warmup 10 127.0.0.1 "$1" 60; exit 5' "$EXAMPLES/tcp_nodelay_client" "$port"
    ns_wait_for "$T/diagnosis.err" '^next: '
    kill -0 "${NS_PID[diagnosis]}"
    [[ ! -s $T/diagnosis.out ]]
    says "$T/o.json" 'o["status"] is None and o["grade"] == "proven" and o["watched_ms"] < 2500'
    ns_join diagnosis || status=$?
    [[ $status -eq 5 ]]
    grep -q '^60 packets' "$T/diagnosis.out"
}

@test "^C ends the program as it would, and the report comes all the same" {
    victim
    on_a_terminal $'\x03' "$NS" diagnose -- "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 1000
    grep -q 'it stalls: [0-9]* of [0-9]* requests of tcp_nodelay_client' "$T/seen"
    grep -qx 'status 130' "$T/seen"
}

@test "on a terminal a line counts while a process is watched, and ^C ends that and not the process" {
    victim
    ns_start client "$EXAMPLES/tcp_nodelay_client" --stats --warmup 10 127.0.0.1 "$port" 60
    on_a_terminal $'\x03' "$NS" diagnose --pid "${NS_PID[client]}"
    grep -qE 'watching for 1 s: 1 connection, [0-9]+ stalls' "$T/seen"
    grep -q 'it stalls: ' "$T/seen"
    grep -qx 'status 0' "$T/seen"
    ns_join client
    # Elsewhere there is no such line.
    run --separate-stderr "$NS" diagnose --pid "${NS_PID[server]}" --for 1.2
    expect_no_part stderr watching
}

@test "on a narrow terminal no word of a sentence is torn" {
    victim
    on_a_terminal "" /bin/sh -c 'stty cols 70; exec "$@"' sh "$NS" diagnose -- "$EXAMPLES/tcp_nodelay_client" --warmup 5 127.0.0.1 "$port" 20
    cat "$T/seen"
    [[ $(tr -d '\r' <"$T/seen" | sed '/^next: \|^policy: /d' | awk '{ if (length > n) n = length } END { print n }') -le 70 ]]
    [[ $(tr -s '\r\n ' ' ' <"$T/seen") == *"requests of tcp_nodelay_client were held by Nagle's algorithm until the peer's delayed ACK came;"* ]]
}

@test "what a program leaves in the background is named when it has ended" {
    run --separate-stderr "$NS" diagnose -- bash -c 'sleep 3 >/dev/null 2>&1 3>&- & sleep 0.3; echo $!; exit 4'
    expect_status 4
    expect_part stderr "note: the program has ended, and 1 process that it started goes on; 'nagleshim diagnose --pid $output' looks at it"
    kill "$output"
}

@test "a signal to the command alone reaches a program that is stopped, too" {
    local status=0
    ns_start diagnosis "$NS" diagnose -- bash -c 'echo $$; kill -STOP $$; sleep 9'
    ns_wait_for "$T/diagnosis.out" .
    timeout 5 bash -c 'until [[ $(cut -d" " -f3 "/proc/$0/stat") == T ]]; do sleep 0.01; done' "$(cat "$T/diagnosis.out")"
    kill -TERM "${NS_PID[diagnosis]}"
    timeout 5 tail --pid="${NS_PID[diagnosis]}" -f /dev/null
    wait "${NS_PID[diagnosis]}" || status=$?
    [[ $status -eq 143 ]]
}

@test "a signal to the command alone is handed on to the program" {
    ns_start diagnosis "$NS" diagnose -- sh -c 'trap "echo got it; exit 9" TERM; echo ready; while :; do sleep 0.05; done'
    ns_wait_for "$T/diagnosis.out" ready
    ns_stop diagnosis TERM || status=$?
    grep -qx 'got it' "$T/diagnosis.out"
}

@test "SIGUSR1 to the command reaches the program, and the watching goes on" {
    ns_start diagnosis "$NS" diagnose -- sh -c 'trap "echo got it" USR1; trap "exit 9" TERM; echo ready; while :; do sleep 0.05; done'
    ns_wait_for "$T/diagnosis.out" ready
    kill -USR1 "${NS_PID[diagnosis]}"
    ns_wait_for "$T/diagnosis.out" 'got it'
    kill -TERM "${NS_PID[diagnosis]}"
    status=0
    wait "${NS_PID[diagnosis]}" || status=$?
    [[ $status -eq 9 ]]
}

@test "the status is the program's own where nobody reads the report" {
    run bash -c '"$1" diagnose -- sh -c "sleep 0.5; exit 7" 2> >(true); echo "status $?"' - "$NS"
    [[ $output == 'status 7' ]]
    # What the program finds is as it was.
    run "$NS" diagnose -- sh -c 'yes | head -n 1; kill -PIPE $$' 2>/dev/null
    [[ $status -eq 141 ]]
}

# What diagnose has made for its records and not removed; $1: what was there before.
leftover() {
    find "$TMPDIR" /dev/shm -maxdepth 1 -name 'nagleshim.*' -newer "$1" 2>/dev/null
}

@test "records are kept in memory where there is some" {
    [[ $(stat -f -c %T /dev/shm 2>/dev/null) == tmpfs && -w /dev/shm ]] || ns_skip "/dev/shm is no tmpfs"
    TMPDIR=/proc run "$NS" diagnose -- sh -c 'echo "$NAGLESHIM_RECORD"'
    [[ ${lines[0]} == /dev/shm/nagleshim.* ]]
}

@test "nothing is left behind: no record, no directory, whatever ends it" {
    export TMPDIR=$T/tmp
    mkdir "$TMPDIR"
    touch "$T/before"
    victim
    "$NS" diagnose -- "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 10 >/dev/null 2>&1
    "$NS" diagnose --for 0.2 -- sleep 0.5 2>/dev/null
    "$NS" diagnose -- sh -c 'kill -KILL $$' 2>/dev/null || true
    "$NS" diagnose -- no-such-program 2>/dev/null || true
    # Others may be at work on this machine.
    local i
    for ((i = 0; i < 200; i++)); do
        [[ -n $(leftover "$T/before") ]] || break
        sleep 0.1
    done
    [[ $i -lt 200 ]]
}

@test "what is not a record stays, whatever is in the place of the records' directory" {
    export TMPDIR=$T/tmp
    # Only memory is preferred to it.
    "$NS" diagnose -- sh -c 'echo "$NAGLESHIM_RECORD" >"$0"; echo >"$NAGLESHIM_RECORD/mine"' "$T/name" 2>/dev/null
    [[ -e $(cat "$T/name")/mine ]]
    rm -r "$(cat "$T/name")"
    # Somebody who may write beside it moves it away, and has another one removed.
    "$NS" diagnose -- sh -c 'echo "$NAGLESHIM_RECORD" >"$0"; mv "$NAGLESHIM_RECORD" "$NAGLESHIM_RECORD.away"
        mkdir "$NAGLESHIM_RECORD"; echo >"$NAGLESHIM_RECORD/1-1.record"; echo >"$NAGLESHIM_RECORD.away/2-2.record"' \
        "$T/name" 2>/dev/null
    [[ -e $(cat "$T/name")/1-1.record && ! -e $(cat "$T/name").away/2-2.record ]]
    rm -r "$(cat "$T/name")" "$(cat "$T/name").away"
}

@test "what a killed one has left is removed by the next, and what one that runs needs is not" {
    local left kept
    ns_start killed "$NS" diagnose -- sh -c 'echo "$NAGLESHIM_RECORD"; exec sleep 20'
    ns_start running "$NS" diagnose -- sh -c 'echo "$NAGLESHIM_RECORD"; exec sleep 20'
    ns_wait_for "$T/killed.out" /
    ns_wait_for "$T/running.out" /
    left=$(cat "$T/killed.out")
    kept=$(cat "$T/running.out")
    echo >"$left/1-1.record"
    kill -KILL "${NS_PID[killed]}"
    timeout 5 tail --pid="${NS_PID[killed]}" -f /dev/null
    touch -d '2 minutes ago' "$left" "$kept"
    "$NS" diagnose -- true 2>/dev/null
    [[ ! -e $left && -e $kept ]]
    kill -TERM "${NS_PID[running]}"
    timeout 5 tail --pid="${NS_PID[running]}" -f /dev/null
    [[ ! -e $kept ]]
}

@test "a process that can leave no record is named" {
    local client=("$T/client" --warmup 10 127.0.0.1)
    [[ $EUID -eq 0 ]] || cannot_here "not root"
    victim
    let_others_in "$T"
    cp "$EXAMPLES/tcp_nodelay_client" "$T/client"
    run --separate-stderr "$NS" diagnose --json "$T/o.json" -- \
        setpriv --reuid=65534 --regid=65534 --clear-groups "${client[@]}" "$port" 20
    expect_status 0
    expect_part stderr " (client) runs as another user, or in another root or mount namespace, and can leave no record: it was seen from outside alone"
    says "$T/o.json" 'rows[0]["source"] == "outside" and len(o["notes"]) == 1'
    # Its own user's, and from inside: nothing is to be said.
    run --separate-stderr "$NS" diagnose --json "$T/o.json" -- "${client[@]}" "$port" 20
    says "$T/o.json" 'rows[0]["source"] == "inside" and o["notes"] == []'
    # A file system that is nearly full.
    unshare -m true 2>/dev/null || cannot_here "no mount namespace can be made"
    mkdir "$T/small"
    run --separate-stderr unshare -m sh -c 'mount -t tmpfs -o size=1m none "$0" && head -c 800k /dev/zero >"$0/full" &&
        TMPDIR=$0 exec "$@"' "$T/small" "$NS" diagnose --json "$T/o.json" -- "${client[@]}" "$port" 20
    expect_status 0
    expect_part stderr "1 process could not be recorded, and was seen from outside alone: there were more than 1024, or $T/small/nagleshim."
    says "$T/o.json" 'rows[0]["source"] == "outside"'
}

@test "^Z stops the command with its program, and fg goes on with both" {
    "$python" - "$NS" >"$T/seen" <<'PYTHON'
import os, pty, select, sys
pid, terminal = pty.fork()
if pid == 0:
    os.environ["PS1"] = "> "
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
def say(words, wait):
    global text
    os.write(terminal, words)
    while wait not in text and select.select([terminal], [], [], 5)[0]:
        text += os.read(terminal, 65536)
    print(text.decode(errors="replace"), wait in text)
    text = b""
text = b""
one = sys.argv[1].encode()
# One that stops itself, and one that the terminal stops.
say(one + b" diagnose -- sh -c 'kill -STOP $$; echo went o''n'; echo status $?\n", b"Stopped")
say(b"fg; echo status'='$?\n", b"status=0")
say(one + b" diagnose -- sh -c 'echo runn''ing; sleep 1; echo went o''n; exit 7'\n", b"running")
say(b"\x1a", b"Stopped")
say(b"fg; echo status'='$?\n", b"status=7")
os.close(terminal)
PYTHON
    cat "$T/seen"
    [[ $(grep -c 'True$' "$T/seen") -eq 5 && $(grep -c 'went on' "$T/seen") -eq 2 ]]
}

@test "a file for what is not there is not made, and one that cannot be written fails" {
    run --separate-stderr "$NS" diagnose --policy "$T/none.json" -- true
    expect_status 0
    expect_part stderr "policy: there is nothing to write to '$T/none.json'"
    run -127 --separate-stderr "$NS" diagnose --json "$T/o.json" --report "$T/o.html" -- no-such-program
    [[ ! -e $T/none.json && ! -e $T/o.json && ! -e $T/o.html ]]
    run --separate-stderr "$NS" diagnose --report /dev/full -- true
    expect_status 2
    expect_part stderr "cannot write '/dev/full': No space left on device"
    expect_no_part stderr 'page:'
    victim
    run --separate-stderr "$NS" diagnose --policy /dev/full -- "$EXAMPLES/tcp_nodelay_client" --warmup 10 127.0.0.1 "$port" 20
    expect_status 2
    expect_part stderr "cannot write '/dev/full': No space left on device"
}

@test "whoever reads the report may go: the status is the program's, and nothing is left behind" {
    local statuses
    export TMPDIR=$T/tmp
    mkdir "$TMPDIR"
    { "$NS" diagnose -- sh -c 'sleep 0.2; exit 4' 2>&1 || echo $? >"$T/status"; } | true
    [[ $(cat "$T/status") -eq 4 && -z $(ls -A "$TMPDIR") ]]
    { "$NS" diagnose --json - -- sh -c 'sleep 0.2; exit 4' 2>"$T/err" || echo $? >"$T/status"; } | true
    [[ $(cat "$T/status") -eq 2 && -z $(ls -A "$TMPDIR") ]]
    grep -qx "nagleshim diagnose: cannot write '-': Broken pipe" "$T/err"
    # Without standard descriptors, no file of ours gets what is meant for them.
    statuses=0
    "$NS" diagnose --json "$T/o.json" -- sh -c 'echo no >&2 || exit 5' <&- >&- 2>&- || statuses=$?
    says "$T/o.json" "o['status'] == $statuses in (2, 5)"
    # The program finds the signal as it was.
    run -141 "$NS" diagnose -- sh -c 'kill -PIPE $$; echo no'
}

@test "the page needs nothing from elsewhere, and what a process has chosen is escaped in it" {
    local name=$T/'<b>&x"'
    cp "$EXAMPLES/tcp_nodelay_client" "$name"
    victim
    run --separate-stderr "$NS" diagnose --report "$T/page.html" -- "$name" --warmup 10 127.0.0.1 "$port" 20
    expect_status 0
    grep -q '^<!DOCTYPE html>' "$T/page.html"
    grep -q '&lt;b&gt;&amp;x&quot;' "$T/page.html"
    [[ $(grep -c '<svg ' "$T/page.html") -eq 2 ]]
    grep -q 'prefers-color-scheme: dark' "$T/page.html"
    run grep -niE '<b>|<script|https?://|src=|href=|url\(|@import|javascript:| on[a-z]+=' "$T/page.html"
    expect_whole output ""
    "$python" - "$T/page.html" <<'PYTHON'
import sys
from html.parser import HTMLParser
class Balanced(HTMLParser):
    open = []
    def handle_starttag(self, tag, attributes):
        if tag not in ("meta",): self.open.append(tag)
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.getpos())
page = Balanced(convert_charrefs=True)
page.feed(open(sys.argv[1], encoding="utf-8").read())
assert page.open == [], page.open
PYTHON
}

@test "a process's name cannot drive the terminal, and its policy still takes it" {
    local name=$T/$'\e[31mred'
    cp "$EXAMPLES/tcp_nodelay_client" "$name"
    victim
    "$NS" diagnose --policy "$T/cure.json" --report "$T/page.html" --json "$T/o.json" -- \
        "$name" --warmup 10 127.0.0.1 "$port" 20 >/dev/null 2>"$T/err"
    grep -q '?\[31mred' "$T/err"
    run grep -lF $'\e' "$T/err" "$T/page.html" "$T/o.json" "$T/cure.json"
    expect_whole output ""
    says "$T/o.json" 'o["grade"] == "proven"'
    run --separate-stderr "$NS" run --policy "$T/cure.json" -- "$name" --stats --warmup 10 127.0.0.1 "$port" 100
    expect_part output 'stalls 0'
}

@test "an experiment tells a cure from what gains nothing" {
    victim
    run --separate-stderr "$NS" diagnose --experiment push --json "$T/o.json" -- \
        "$EXAMPLES/tcp_nodelay_client" --warmup 10 127.0.0.1 "$port" 60
    expect_status 0
    expect_part stderr "it is a cure (p "
    says "$T/o.json" 'o["experiments"][0]["p"] < 0.001 and o["experiments"][0]["done_ms"] < 5
        and o["experiments"][0]["left_ms"] > 35'
    # A server that thinks for 45 ms on the first of two writes: they are held, and the push gains nothing.
    ns_start thinker "$python" tests/probes/turns.py server 0 60 1 : r100 s45 r300 w50
    ns_port thinker
    run --separate-stderr "$NS" diagnose --experiment push --json "$T/o.json" -- \
        "$python" tests/probes/turns.py client 127.0.0.1 "$port" 60 1 : w100 w300 r50
    expect_status 0
    expect_no_part stderr "it is a cure"
    says "$T/o.json" 'o["grade"] not in ("proven", "likely") and o["experiments"][0]["done_ms"] > 40
        and o["policy"] is None and not rows[0]["cures"]'
    slow_server 20
    cat_client
    run --separate-stderr "$NS" diagnose --experiment push -- "$python" "$T/client.py" "$port" 20
    expect_no_part stderr "it is a cure"
}

@test "bystanders without TCP connections are not told of" {
    victim
    run --separate-stderr "$NS" diagnose --json "$T/o.json" -- bash -c \
        'for i in {1..20}; do cat /dev/null; done; "$0" --warmup 10 127.0.0.1 "$1" 20; true' \
        "$EXAMPLES/tcp_nodelay_client" "$port"
    expect_status 0
    says "$T/o.json" '[r["process"]["name"] for r in rows] == ["tcp_nodelay_client"]'
}

@test "a program that runs under the shim already is watched as it is, and that is said" {
    victim
    run --separate-stderr env LD_PRELOAD="$LIBRARY" "$NS" diagnose --json "$T/o.json" -- \
        "$EXAMPLES/tcp_nodelay_client" --stats --warmup 10 127.0.0.1 "$port" 200
    expect_status 0
    expect_part output 'stalls 0'
    expect_part stderr "LD_PRELOAD names the shim already"
    says "$T/o.json" 'o["grade"] in ("none", "cannot tell", "late but nobody waited")'
}

@test "both ends on one machine are one stall, whose other end is named" {
    run --separate-stderr "$NS" diagnose --json "$T/o.json" -- bash -c '
        "$0/tcp_nodelay_server" 0 30 >"$1/port" & 
        until [[ -s $1/port ]]; do sleep 0.01; done
        "$0/tcp_nodelay_client" 127.0.0.1 "$(grep -oE "[0-9]+$" "$1/port")" 30; wait' "$EXAMPLES" "$T"
    expect_status 0
    says "$T/o.json" 'rows[0]["process"]["name"] == "tcp_nodelay_client" and rows[0]["grade"] == "proven"
        and rows[rows[0]["other_end"]]["process"]["name"] == "tcp_nodelay_server"
        and o["lost_ms"] <= 50 * 30'
    expect_part stderr "other end (tcp_nodelay_server): ack before-wait"
}

@test "a connection that was handed on over exec is told of once" {
    cat >"$T/handed.py" <<'PYTHON'
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print("listening on port", listener.getsockname()[1], flush=True)
one, _ = listener.accept()
os.set_inheritable(one.fileno(), True)
os.execv(sys.executable, [sys.executable, "-c", """
import socket, sys
one = socket.socket(fileno=int(sys.argv[1]))
for _ in range(20):
    one.send(b'head'); one.send(b'body')
    assert one.recv(100)
""", str(one.fileno())])
PYTHON
    cat >"$T/answers.py" <<'PYTHON'
import socket, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
got = b""
while piece := one.recv(100):
    got += piece
    if len(got) == 8:
        got = b""
        one.send(b"answer")
PYTHON
    ns_start server "$NS" diagnose --json "$T/o.json" -- "$python" "$T/handed.py"
    ns_port server
    "$python" "$T/answers.py" "$port" 3>&-
    ns_join server
    "$python" - "$T/o.json" <<'PYTHON'
import json, sys
o = json.load(open(sys.argv[1]))
rows = [r for r in o["rows"] if r["stalls"] or r["maybe"]]
assert len(rows) == 1 and rows[0]["stalls"] + rows[0]["maybe"] >= 15, rows
PYTHON
}
