# SPDX-License-Identifier: MIT
# Promise: Sockets that are passed on, inherited or made by syscall() have the right options, and the log file is as asked.
# The control is the same program without the library.

load ../helpers/common
load ../helpers/life

@test "a listener that survives exec has the bursts of its connections joined, and reports the program's own options" {
    keeps listener-stays ''
}

@test "a listener passed to a program without the library gets its original options" {
    keeps listener-leaves
}

@test "a connection that is passed on has no option of the library from the first moment, also if a forked child passes it" {
    keeps connection-is-sent
    keeps connection-is-sent-by-child
}

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

@test "sockets that a program makes with syscall() are treated, and getsockopt reports that TCP_NODELAY is not set" {
    keeps made-by-number "$CORK" ''
}
