# SPDX-License-Identifier: MIT
# Promise: Nothing that a program may rely on changes: errors, signals, masks, exits, options, and the cost of calls.
# Parts: 3
# Each program here once behaved differently with the library: because of sockets that are passed on, options, or
# descriptors that others close. The control is the same program without the library.

load ../helpers/common

CORK='{"version": 1, "rules": [{"send": "auto-cork"}]}'

# run_with LIMIT_MS VARIABLE=VALUE... PROGRAM SCENARIO: nothing may be wrong. Sets late to the number of bytes that took longer.
run_with() {
    LIFE_LIMIT_MS=$1 timeout -s KILL 30 env "${@:2}" >"$T/out" 2>&1 && grep -q '^held .* wrong 0$' "$T/out" ||
        wrong "${*:2}: exit status $?" "$T/out" || return
    late=$(field late "$T/out")
}

# keeps PROGRAM SCENARIO [POLICY]...: nothing is wrong without the library, or with it under each policy, and nothing is late
# with it; '' is the built-in policy. The programs check that the library treats their connections. A late run is repeated
# with a limit of 30 ms; bytes that wait for a delayed ACK are 40 ms late.
keeps() {
    local policy limit late with scenario=("$PROBES/promise_$1" "$2")
    shift 2
    [[ $# -gt 0 ]] || set -- '' "$CORK"
    export LIFE_SECONDS=${LIFE_SECONDS:-15}
    run_with 1000 "${scenario[@]}"
    for policy; do
        with=(LD_PRELOAD="$LIBRARY")
        [[ -z $policy ]] || with+=(NAGLESHIM_POLICY="$policy" LIFE_HOLDS=kernel)
        for limit in 20 30 30; do
            run_with "$limit" "${with[@]}" "${scenario[@]}"
            [[ $late -gt 0 ]] || break
        done
        [[ $late -eq 0 ]] || wrong "it failed:" "$T/out" || return
    done
}

# --- sockets that survive an exec or are passed on

@test "a listener that survives exec has the bursts of its connections joined, and reports the program's own options" {
    keeps handed listener-stays ''
}

@test "a listener passed to a program without the library gets its original options, unless the parent still uses it" {
    keeps handed listener-leaves
    keeps handed listener-is-sent
    keeps handed listener-is-shared
}

@test "a connection that is passed on has no option of the library from the first moment, also if a forked child passes it" {
    keeps handed connection-is-sent
    keeps handed connection-is-sent-by-child
}

@test "a socket that could not be passed on is treated as before, and so is a parent's connection that a child passes on" {
    keeps handed pass-fails
    keeps handed parent-goes-on
}

# --- options, streams and cancellation

@test "TCP_NODELAY that a program sets with syscall() stays on" {
    keeps streams own-option
}

@test "a stdio stream that is opened before its socket connects does not stall" {
    keeps streams fdopen-first
}

@test "sendfile is not a cancellation point, also while an ACK is pending" {
    keeps streams sendfile-cancelled
}

# --- other processes

@test "an inherited listener gets its original options back when the program has ended" {
    local how late
    for how in announced inherited; do
        run_with 1000 "$PROBES/promise_processes" "listener-$how"
        run_with 1000 LISTENER_PRELOAD="$LIBRARY" "$PROBES/promise_processes" "listener-$how"
    done
}

# --- the log, and descriptors of other processes

@test "the log is appended to its file, which is created with the mode that the umask allows" {
    local log=$T/log mask
    echo 'what was there' >"$log"
    NAGLESHIM_LOG=debug NAGLESHIM_LOG_FILE=$log LD_PRELOAD=$LIBRARY env true
    [[ $(head -n 1 "$log") == 'what was there' && $(wc -l <"$log") -ge 2 ]]
    # Several processes can write at the same time, because each appends its line.
    strace -f -qq -e trace=openat,open -o "$T/opens" -E NAGLESHIM_LOG=debug -E NAGLESHIM_LOG_FILE="$log" \
        -E LD_PRELOAD="$LIBRARY" /bin/true
    grep -F "\"$log\"" "$T/opens" | grep -q O_APPEND
    for mask in 022 077 000; do
        rm "$log"
        (
            umask "$mask"
            NAGLESHIM_LOG=debug NAGLESHIM_LOG_FILE=$log LD_PRELOAD=$LIBRARY env true
        )
        [[ $(stat -c %a "$log") == $(printf '%o' $((0644 & ~mask))) ]]
    done
}

# touched own|other: prints how often the library sets an option of descriptor 3, a connection, in a program that does not
# use it and whose LISTEN_PID is its own or another pid.
touched() {
    python3 - "$1" "$LIBRARY" "$T/touches" <<'END_OF_PYTHON'
import os, socket, sys
whose, library, trace = sys.argv[1:]
with socket.create_server(("127.0.0.1", 0)) as listener:
    near = socket.create_connection(listener.getsockname())
    far = listener.accept()[0]
os.dup2(far.fileno(), 30, inheritable=True)
os.dup2(near.fileno(), 31)
os.dup2(31, 3, inheritable=True)
program = 'export LISTEN_FDS=1 LISTEN_PID=%s LD_PRELOAD=%s; exec true' % ("$$" if whose == "own" else "1", library)
os.execvp("strace", ["strace", "-f", "-qq", "-o", trace, "sh", "-c", program])
END_OF_PYTHON
    grep -cE ' setsockopt\(3,' "$T/touches" || true
}

@test "descriptors of LISTEN_FDS belong to the program only if LISTEN_PID is its pid" {
    local count
    count=$(touched own)
    [[ $count -gt 0 ]]
    count=$(touched other)
    [[ $count -eq 0 ]]
    grep -q ' lseek(2, 0, SEEK_CUR)' "$T/touches"
}

# --- options of rules

@test "options set by a rule are undone if the socket gets another rule or none" {
    keeps options undone '{"version": 1, "rules": [
        {"match": {"remote": "127.0.0.2"}, "send": "nodelay",
            "sockopt": {"TCP_KEEPIDLE": {"set": 77}, "SO_KEEPALIVE": {"set": 1}}},
        {"match": {"remote": "127.0.0.3"}, "send": "app", "ack": "app"}]}'
    keeps options of-a-closed-socket '{"version": 1, "rules": [
        {"match": {"remote": "127.0.0.2"},
            "sockopt": {"TCP_KEEPIDLE": {"set": 77}, "SO_KEEPALIVE": {"set": 1}}}]}'
    keeps options of-a-listener '{"version": 1, "rules": [
        {"match": {"local": "127.0.0.4", "role": "server"},
            "sockopt": {"TCP_KEEPIDLE": {"set": 77}, "SO_KEEPALIVE": {"set": 1}}}]}'
}

# --- descriptors and syscall()

@test "after close_range by syscall() in a thread's own descriptor table the connections of the others are treated" {
    keeps descriptors close-range-by-number
}

@test "sockets that a program makes with syscall() are treated, and getsockopt reports that TCP_NODELAY is not set" {
    keeps descriptors made-by-number "$CORK" ''
}
