# SPDX-License-Identifier: MIT
# Promise: `nagleshim doctor --all` shows for every process whether the library works in it, and why not.
# Each scene has its own PID namespace, so that no other process is listed.

load ../helpers/doctor

setup() {
    ns_setup
    may_look
    export T NS LIBRARY EXAMPLES PROBES
    alone=(unshare --pid --fork --mount-proc)
    [[ $EUID -eq 0 ]] || alone=(unshare --map-root-user --pid --fork --mount-proc)
    "${alone[@]}" true 2>/dev/null || cannot_here "no PID namespace of one's own"
}

# Functions for a scene. start NAME COMMAND...: starts a server, sets pid[NAME], and waits until the server listens.
prelude='declare -A pid=()
start() {
    local name=$1
    shift
    "$@" >"$T/$name.out" 2>"$T/$name.err" </dev/null 3>&- &
    pid[$name]=$!
    until grep -qsE "listening on port|^ready" "$T/$name.out"; do sleep 0.01; done
    echo "${pid[$name]}" >"$T/$name.pid"
}
serve() {
    local name=$1
    shift
    start "$name" env "$@" "$EXAMPLES/queue_server" --connections 0 0
}
with=LD_PRELOAD=$LIBRARY
'

# scene COMMANDS: runs them as the first process of a namespace; sets output, stderr and status of the last command.
scene() {
    # The shell itself is one of the listed processes.
    run --separate-stderr "${alone[@]}" bash -c "$prelude$1"$'\nexit'
}

# row NAME LIBRARY SOCKETS TEXT: the table has exactly one row for this server, and it has these values.
row() {
    local pid line
    pid=$(cat "$T/$1.pid")
    line=$(grep -E "^ *$pid " <<<"$output") || unexpected "no row of $1, $pid" || return
    [[ $(wc -l <<<"$line") -eq 1 && $line =~ ^\ *[0-9]+\ [^\ ]+\ +$3\ $2\ +(.*)$ && ${BASH_REMATCH[1]} == *"$4"* ]] ||
        wrong "expected of $1: $2, $3 sockets, $4; but: $line"
}

@test "every server is listed with its policy, or with the reason why the library does nothing" {
    policy policies/queue_server '{"name": "quotes", "match": {"role": "client"}, "send": "auto-cork"}, {"name": "rest"}'
    broken_policy >/dev/null
    gcc -static -x c -o "$T/static" - <<<'#include <unistd.h>
int main(void) { return pause(); }'
    scene 'serve works $with
        serve built-in $with NAGLESHIM_POLICY_DIR=/nowhere
        serve off $with NAGLESHIM_OFF=1
        serve broken $with NAGLESHIM_POLICY=$T/broken.json
        serve unset
        serve others LD_PRELOAD=libm.so.6
        serve missing LD_PRELOAD=/nowhere/libnagleshim.so
        exec 8<>"/dev/tcp/127.0.0.1/$(sed "s/.* //" "$T/unset.out")"
        "$T/static" 3>&- &
        echo $! >"$T/static.pid"
        until [[ $(readlink /proc/$!/exe) == */static ]]; do :; done
        "$NS" doctor --all'
    expect 1 stderr is ""
    row works works 1 "policy $T/policies/queue_server.json"
    row built-in works 1 "policy built in; NAGLESHIM_POLICY_DIR did not exist when it was started"
    row off off 1 "NAGLESHIM_OFF was set when it was started"
    row broken disabled 1 "$T/broken.json:2:21: "
    row unset no 2 "LD_PRELOAD was not set"
    row others no 1 "it was started with LD_PRELOAD=libm.so.6, which does not name the library"
    row missing no 1 "LD_PRELOAD names /nowhere/libnagleshim.so: No such file or directory"
    row static no 1 "it is linked statically"
    expect_verdict "the library works in 2 of 9 processes that have TCP sockets or the library"
}

@test "the status is 0 if the library works in all, and processes without sockets are only counted" {
    scene 'serve one $with
        serve two $with
        env -u LD_PRELOAD sleep 1000 3>&- &
        echo $! >"$T/sleep.pid"
        until [[ $(readlink /proc/$!/exe) == */sleep ]]; do :; done
        "$NS" doctor --pid ${pid[one]} --pid ${pid[two]} >"$T/chosen"
        "$NS" doctor --all'
    expect_status 0
    row one works 1 "policy built in"
    row two works 1 "policy built in"
    expect_part output "not listed: 2 without TCP sockets and without the library"
    expect_no_part output sleep
    expect_verdict "the library works in 2 of 2 processes that have TCP sockets or the library"
    # Of processes that were chosen none is only counted.
    grep -q " 2 of 2 processes" "$T/chosen"
    run ! grep "not listed" "$T/chosen"
}

@test "a library of another version is reported, and one whose status has an unknown form" {
    scene 'start older env LD_PRELOAD="$PROBES/doctor_status.so" NS_TEST_STATUS=older "$PROBES/doctor_patient" pause
        start rules env LD_PRELOAD="$PROBES/doctor_status.so" NS_TEST_STATUS=rules "$PROBES/doctor_patient" pause
        "$NS" doctor --all'
    expect_status 1
    row older version 0 "use the command of version 9.9?]0;x"
    row rules works 0 "the library in it is version 9.9?]0;x, and this command is $(sed -n 's/^VERSION := //p' Makefile)"
    expect_verdict "the library works in 1 of 2 processes that have TCP sockets or the library"
}

@test "a process that lives in another network and mount namespace has its row" {
    unshare --net --mount true 2>/dev/null || cannot_here "no namespaces within a namespace"
    scene 'start elsewhere unshare --net --mount bash -c "
            mount -t tmpfs none /opt && cp $LIBRARY /opt/libnagleshim.so &&
            LD_PRELOAD=/opt/libnagleshim.so exec $EXAMPLES/queue_server --connections 0 0"
        "$NS" doctor --all --json >"$T/json"
        "$NS" doctor --all'
    expect_status 0
    row elsewhere works 1 "policy built in"
    python3 -c 'import json, sys
p, = json.load(open(sys.argv[1]))["processes"]
assert p["elsewhere"] is True and p["library_file"].endswith("/opt/libnagleshim.so"), p' "$T/json"
}

@test "--json has the same facts of every process, sorted by number" {
    policy policies/queue_server '{"name": "quotes", "send": "auto-cork"}'
    scene 'serve works $with
        serve unset
        "$NS" doctor --all --json'
    expect_status 1
    python3 - "$(cat "$T/works.pid")" "$(cat "$T/unset.pid")" "$T/policies/queue_server.json" "$LIBRARY" 3<<<"$output" <<'PYTHON'
import json, os, sys
o = json.load(os.fdopen(3))
works, unset = o["processes"]
assert (works["pid"], unset["pid"]) == (int(sys.argv[1]), int(sys.argv[2])), o
assert (works["works"], unset["works"], o["works"]) == ("yes", "no", "no"), o
assert works["policy"] == sys.argv[3] and works["library"] == "works" and works["library_file"] == sys.argv[4] and works["version"] == o["nagleshim"], works
assert works["rules"] == [{"number": 1, "name": "quotes", "send": "auto-cork", "ack": "before-wait", "sockets": 1}], works
assert works["counters"]["sockets"] == 1 and works["counters"]["left_alone"] == 0 and unset["counters"] is None, o
assert works["reasons"] == works["warnings"] == [] and works["sockets"] == 1 and works["elsewhere"] is False
assert [r["cause"] for r in unset["reasons"]] == ["unset"] and unset["policy"] is None and unset["rules"] == []
assert o["counts"] == {"working": 1, "not": 1, "unknown": 0, "starting": 0, "others": 1, "denied": 0, "stuck": 0}, o["counts"]
assert o["status"] == 1 and o["messages"] == [] and "tried" not in o
PYTHON
}

@test "a row is one line, and names cannot control the terminal" {
    cp "$EXAMPLES/queue_server" "$T/"$'a\e[31mname\xc3\xa9-that-is-long'
    scene 'start odd "$T/"$'"'"'a\e[31mname\xc3\xa9-that-is-long'"'"' --connections 0 0
        "$NS" doctor --all'
    expect_status 1
    [[ $(wc -l <<<"$output") -eq 4 ]] # a head, a row, the count of the others, and the verdict
    row odd no 1 "LD_PRELOAD was not set when it was started ('nagleshim run' sets it)"
    expect_part output $'a?[31mname\xc3\xa9'
}

@test "processes that start and end meanwhile are no error" {
    scene 'serve one $with
        while :; do env $with true; done 3>&- &
        for i in {1..25}; do
            "$NS" doctor --all >"$T/out" 2>"$T/err" || { echo "status $?"; cat "$T/out" "$T/err"; exit 9; }
            [[ ! -s $T/err ]] || exit 8
            grep -q "verdict: the library works in" "$T/out" || exit 7
        done'
    expect_status 0
}

@test "a program that hangs before main is shown as starting, and does not count" {
    scene 'serve one $with
        env LD_PRELOAD="$PROBES/doctor_status.so" NS_TEST_STATUS=hang "$PROBES/doctor_patient" pause 3>&- &
        echo $! >"$T/hangs.pid"
        until grep -q doctor_status /proc/$!/maps; do :; done
        "$NS" doctor --all'
    expect_status 0
    row hangs starting 0 "it has not finished starting; if this does not change, it hangs in code that runs before main"
    expect_verdict "the library works in 1 of 1 processes that have TCP sockets or the library"
    # Alone, it leaves the question open.
    scene 'env LD_PRELOAD="$PROBES/doctor_status.so" NS_TEST_STATUS=hang "$PROBES/doctor_patient" pause 3>&- &
        until grep -q doctor_status /proc/$!/maps; do :; done
        "$NS" doctor --all'
    expect_status 2
    expect_verdict "the processes with TCP sockets or the library are starting"
}

@test "other users' processes are counted, and if no process can be read the status is 3" {
    "${as_other[@]}" true 2>/dev/null || cannot_here "only root can be another user"
    cp "$NS" "$LIBRARY" "$EXAMPLES/queue_server" "$T"
    let_others_in "$T"
    scene 'serve of-root $with
        setpriv --reuid=65534 --regid=65534 --clear-groups "$T/nagleshim" doctor --all'
    expect 3 output is "not readable: 2: run this command as root
verdict: no process could be read"
    # One process can be read, and has no socket.
    scene 'serve of-root
        setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "sleep 60 & \"\$0\" doctor --all; s=\$?; kill \$!; exit \$s" "$T/nagleshim"'
    expect 3 output has "not readable: 2: run this command as root"
    expect_verdict "no process that could be read has TCP sockets or the library"
    # The control: if all can be read, that is known.
    scene '"$NS" doctor --all'
    expect 0
    expect_verdict "no process has TCP sockets or the library"
    scene 'serve of-root
        start own setpriv --reuid=65534 --regid=65534 --clear-groups env LD_PRELOAD="$T/libnagleshim.so" "$T/queue_server" --connections 0 0
        setpriv --reuid=65534 --regid=65534 --clear-groups "$T/nagleshim" doctor --all'
    [[ $(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0) == 0 ]] || cannot_here "kernel.yama.ptrace_scope is not 0"
    expect_status 0
    row own works 1 "policy built in"
    expect_part output "not readable: 2: run this command as root"
    expect_verdict "the library works in 1 of 1 processes that have TCP sockets or the library"
}

@test "a missing /proc is reported" {
    local mounts
    ns_mount_namespace
    [[ ${#mounts[@]} -gt 0 ]] || cannot_here "no mount namespace"
    run --separate-stderr "${mounts[@]}" bash -c 'mount -t tmpfs none /proc && "$NS" doctor --all'
    expect 2 stderr is "nagleshim doctor: /proc is not mounted or cannot be read"
}

@test "the columns of the table are straight if a name has letters that take several bytes" {
    local lines
    cp "$EXAMPLES/queue_server" "$T/dienst"
    cp "$EXAMPLES/queue_server" "$T/dïènst"
    scene 'start one "$T/dienst" --connections 0 0
        start two "$T/dïènst" --connections 0 0
        "$NS" doctor --all'
    lines=$(grep -E ' d(ie|ïè)nst ' <<<"$output" | sed 's/ïè/ie/; s/^ *[0-9]* //')
    [[ $(wc -l <<<"$lines") -eq 2 && $(uniq <<<"$lines" | wc -l) -eq 1 ]] || unexpected "not straight: $lines"
}
