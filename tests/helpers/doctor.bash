# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # bats sets $output and $lines
# shellcheck disable=SC2034 # the tests use what is set here
# What the tests of `nagleshim doctor` share: programs and processes to look at, and what is to be said of them.

load "${BASH_SOURCE[0]%/*}/command"

doctor_setup() {
    command_setup
    LIBRARY=${NS_LIBRARY:-$LIBRARY}
    PROBES=$PWD/build/probes
    EXAMPLES=$PWD/build/examples
    NS_STARTED=()
    declare -gA NS_PID=()
}

setup() {
    doctor_setup
}

doctor() {
    run --separate-stderr "$NS" doctor "$@"
}

# doctor of a process that ns_start started by this name
doctor_of() {
    doctor --pid "${NS_PID[$1]}"
}

# Root in a container may lack CAP_SYS_PTRACE (bit 19), and is then denied other users' processes.
has_ptrace() {
    (((0x$(sed -n 's/^CapEff:\t//p' /proc/self/status) >> 19) & 1))
}

# Under Yama only an ancestor may read another process's memory, or who has that right.
may_look() {
    [[ $(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0) == 0 ]] || has_ptrace ||
        cannot_here "kernel.yama.ptrace_scope is not 0, and CAP_SYS_PTRACE is not there"
}

expect_denied() {
    expect 3 stderr has "nagleshim doctor: permission denied: process ${NS_PID[$1]} runs as user "
}

# also NAME PID: a process that another one started; ends with the test.
also() {
    NS_PID[$1]=$2
    NS_STARTED+=("$2")
}

# The last line of stdout.
expect_verdict() {
    [[ ${lines[-1]} == "verdict: $1" ]] || {
        echo "expected verdict: $1"
        seen
        return 1
    }
}

expect_works() {
    expect_status 0
    expect_verdict "the shim works in process ${NS_PID[$1]}"
    expect_no_part output "reason: "
}

# expect_fails NAME REASON: with this one reason.
expect_fails() {
    expect_status 1
    expect_verdict "the shim does not work in process ${NS_PID[$1]}"
    expect_part output "reason: $2"
    [[ $(grep -c '^reason: ' <<<"$output") -eq 1 ]]
}

# patient NAME WHAT [COMMAND...]: the probe, started by that command; it is ready when this returns.
patient() {
    local name=$1 what=$2
    shift 2
    ns_start "$name" "$@" "${patient:-$PROBES/doctor_patient}" "$what"
    ns_wait_for "$T/$name.out" '^ready ' || {
        cat "$T/$name.err"
        return 1
    }
    number=$(sed 's/^ready //' "$T/$name.out")
}

# examine NAME WHAT [COMMAND...]: the same, and what doctor says of it.
examine() {
    patient "$@" && doctor_of "$1"
}

# A server with the shim: sets port.
server() {
    ns_start "$1" env LD_PRELOAD="$LIBRARY" "$EXAMPLES/queue_server" --connections 0 0
    ns_port "$1"
}

# A server for clients that write in pieces. Sets port, and stalling, a client that stalls 30 times.
victim() {
    ns_start server "$EXAMPLES/tcp_nodelay_server" --connections 0 0 0
    ns_port server
    stalling=("$EXAMPLES/tcp_nodelay_client" --warmup 10 127.0.0.1 "$port" 20)
}

# says FILE EXPRESSION: the expression is true for the object o in that file, and what diagnose prints fits its schema.
says() {
    "$python" - "$1" "$2" <<'PYTHON'
import json, sys
o = json.load(open(sys.argv[1], encoding="utf-8"))
if o["command"] == "diagnose":
    from jsonschema import Draft202012Validator
    schema = json.load(open("config/diagnosis.schema.json"))
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(o)
    rows, peers = ([row for row in o.get("rows", ()) if row["peer"] is peer] for peer in (False, True))
assert eval("(" + sys.argv[2] + ")"), json.dumps(o, indent=1)[:6000]
PYTHON
}

# A root of its own with the probe as /patient, what it and the shim need, and empty /etc/nagleshim and /opt: sets
# root, and enter, which starts a command there.
make_root() {
    local file
    root=$T/root
    enter=(chroot)
    [[ $EUID -eq 0 ]] || enter=(unshare --map-root-user chroot)
    mkdir -p "$root/etc/nagleshim" "$root/opt"
    cp "$PROBES/doctor_patient" "$root/patient"
    while read -r file; do
        mkdir -p "$root${file%/*}"
        cp -L "$file" "$root$file"
    done < <(ldd "$PROBES/doctor_patient" "$LIBRARY" | grep -oE '/[^ :]+(\s|$)' | sort -u)
    "${enter[@]}" "$root" /patient none 2>"$T/none.err" || true
    grep -q 'cannot none' "$T/none.err" || cannot_here "no chroot"
}

# A program for a musl that is there, linked with what is: the loader is all that counts here.
musl_loader() {
    musl=$(echo /lib/ld-musl-*.so.1)
    [[ -e $musl ]] || cannot_here "musl is not installed"
}
