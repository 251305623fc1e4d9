# SPDX-License-Identifier: MIT
# Shared by the tests of `nagleshim doctor`: programs and processes to examine, and the expected results.

load "${BASH_SOURCE[0]%/*}/command"

doctor() {
    run --separate-stderr "$NS" doctor "$@"
}

# doctor_of NAME: runs doctor for a process that ns_start has started under this name.
doctor_of() {
    doctor --pid "${NS_PID[$1]}"
}

# Under Yama only an ancestor, or a process with CAP_SYS_PTRACE, may read a process's memory.
may_look() {
    [[ $(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0) == 0 ]] || has_ptrace ||
        cannot_here "kernel.yama.ptrace_scope is not 0, and CAP_SYS_PTRACE is missing"
}

expect_denied() {
    expect 3 stderr has "nagleshim doctor: process ${NS_PID[$1]}: permission denied: this command lacks CAP_SYS_PTRACE"
}

# also NAME PID: registers a process that another one has started, so that it ends with the test.
also() {
    NS_PID[$1]=$2
    NS_STARTED+=("$2")
}

# The last line of stdout is this verdict.
expect_verdict() {
    [[ ${lines[-1]} == "verdict: $1" ]] || unexpected "expected verdict: $1"
}

expect_works() {
    expect_status 0
    expect_verdict "the library works in process ${NS_PID[$1]}"
    expect_no_part output "reason: "
}

# expect_fails NAME REASON: the library does not work in the process, for this one reason.
expect_fails() {
    expect_status 1
    expect_verdict "the library does not work in process ${NS_PID[$1]}"
    expect_part output "reason: $2"
    [[ $(grep -c '^reason: ' <<<"$output") -eq 1 ]]
}

# patient NAME WHAT [COMMAND...]: starts the probe with that command, and waits until it is ready.
patient() {
    local name=$1 what=$2
    shift 2
    ns_start "$name" "$@" "${patient:-$PROBES/doctor_patient}" "$what"
    ns_wait_for "$T/$name.out" '^ready ' || wrong "it failed:" "$T/$name.err" || return
    number=$(sed 's/^ready //' "$T/$name.out")
}

# examine NAME WHAT [COMMAND...]: the same, and runs doctor for it.
examine() {
    patient "$@" && doctor_of "$1"
}

# Starts a server with the library, and sets port.
server() {
    ns_serve "$1" env LD_PRELOAD="$LIBRARY" "$EXAMPLES/queue_server" --connections 0 0
}

# Starts a server for clients that write in pieces. Sets port, and stalling to a client that stalls 30 times.
victim() {
    ns_serve server "$EXAMPLES/tcp_nodelay_server" --connections 0 0 0
    stalling=("$EXAMPLES/tcp_nodelay_client" --warmup 10 127.0.0.1 "$port" 20)
}

# idle_client: starts a client that connects to $port, and does nothing else.
idle_client() {
    ns_start client "$python" -c 'import signal, socket, sys
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
signal.pause()' "$port"
    ns_wait_for "$T/client.out" ready
}

# says FILE EXPRESSION: the expression is true for the object o in that file.
says() {
    keep "$(cat "$1")"
    "$python" -S - "$1" "$2" <<'PYTHON'
import json, sys
o = json.load(open(sys.argv[1], encoding="utf-8"))
if o["command"] == "diagnose":
    rows, peers = ([row for row in o.get("rows", ()) if row["is_peer"] is peer] for peer in (False, True))
assert eval("(" + sys.argv[2] + ")"), json.dumps(o, indent=1)[:6000]
PYTHON
}

# Makes a root directory with the probe as /patient, the libraries that the probe and nagleshim need, and empty
# /etc/nagleshim and /opt. Sets root, and enter, which starts a command there.
make_root() {
    root=$T/root
    enter=(chroot)
    [[ $EUID -eq 0 ]] || enter=(unshare --map-root-user chroot)
    mkdir -p "$root/etc/nagleshim" "$root/opt"
    cp "$PROBES/doctor_patient" "$root/patient"
    add_libraries "$root" "$PROBES/doctor_patient" "$LIBRARY"
    "${enter[@]}" "$root" /patient none 2>"$T/none.err" || true
    grep -q 'cannot none' "$T/none.err" || cannot_here "no chroot"
}

# Sets musl to the installed loader of musl.
musl_loader() {
    musl=$(echo /lib/ld-musl-*.so.1)
    [[ -e $musl ]] || cannot_here "musl is not installed"
}
