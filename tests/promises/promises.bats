# SPDX-License-Identifier: MIT
# Promise: Nothing that a program may rely on changes: errors, signals, masks, exits, options, and the cost of calls.
# Parts: 3
# Each program here once behaved differently with the library: because of sockets that are passed on, options, or
# descriptors that others close. The control is the same program without the library.

load ../helpers/common
load ../helpers/life

# --- sockets that survive an exec or are passed on

@test "a listener that survives exec has the bursts of its connections joined, and reports the program's own options" {
    keeps listener-stays ''
}

@test "a listener passed to a program without the library gets its original options, unless the parent still uses it" {
    keeps listener-leaves
    keeps listener-is-sent
    keeps listener-is-shared
}

@test "a connection that is passed on has no option of the library from the first moment, also if a forked child passes it" {
    keeps connection-is-sent
    keeps connection-is-sent-by-child
}

@test "a socket that could not be passed on is treated as before, and so is a parent's connection that a child passes on" {
    keeps pass-fails
    keeps parent-goes-on
}

# --- options, streams and cancellation

@test "TCP_NODELAY that a program sets with syscall() stays on" {
    keeps own-option
}

@test "a stdio stream that is opened before its socket connects does not stall" {
    keeps fdopen-first
}

@test "sendfile is not a cancellation point, also while an ACK is pending" {
    keeps sendfile-cancelled
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
    keeps undone '{"version": 1, "rules": [
        {"match": {"remote": "127.0.0.2"}, "send": "nodelay",
            "sockopt": {"TCP_KEEPIDLE": {"set": 77}, "SO_KEEPALIVE": {"set": 1}}},
        {"match": {"remote": "127.0.0.3"}, "send": "app", "ack": "app"}]}'
    keeps of-a-closed-socket '{"version": 1, "rules": [
        {"match": {"remote": "127.0.0.2"},
            "sockopt": {"TCP_KEEPIDLE": {"set": 77}, "SO_KEEPALIVE": {"set": 1}}}]}'
    keeps of-a-listener '{"version": 1, "rules": [
        {"match": {"local": "127.0.0.4", "role": "server"},
            "sockopt": {"TCP_KEEPIDLE": {"set": 77}, "SO_KEEPALIVE": {"set": 1}}}]}'
}

# --- descriptors and syscall()

@test "after close_range by syscall() in a thread's own descriptor table the connections of the others are treated" {
    keeps close-range-by-number
}

@test "sockets that a program makes with syscall() are treated, and getsockopt reports that TCP_NODELAY is not set" {
    keeps made-by-number "$CORK" ''
}
