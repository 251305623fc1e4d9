# SPDX-License-Identifier: MIT
# Promise: At its start a process asks the kernel about descriptors 0 to 2 and those of LISTEN_FDS only, and no file system.
# A program without a TCP socket gets no socket call of the library, so that a filter against these calls does not kill it.

load ../helpers/common

# The system calls that the library adds to the start of a program which inherits a file on descriptor 5. Without the one
# that the clock needs on some machines.
added() {
    local preload
    for preload in "$PROBES/empty.so" "$LIBRARY"; do
        timeout 30 strace -qq -o "$T/trace" -E LD_PRELOAD="$preload" "$@" /bin/true 5</proc/self/mountinfo
        # From the end of the loader's work on.
        sed -n '/munmap/,$p' "$T/trace" | sed 1d | grep -v '^clock_gettime' | sed -E 's/(lseek|ioctl|statx)\(([0-9]).*/\1 \2/; s/(O_PATH).*/\1/' >"$T/${preload##*/}"
    done
    diff "$T/empty.so" "$T/libnagleshim.so" | sed -n 's/^> //p'
}

@test "the library adds these system calls to the start of a process, and none if it is switched off" {
    ns_needs_strace
    [[ -z $(added -E NAGLESHIM_OFF=1) ]]
    output=$(added -E NAGLESHIM_POLICY_DIR=/nonexistent </dev/null 2> >(cat >&2))
    # 0 is a file, 1 and 2 are pipes.
    [[ $output == $'openat(AT_FDCWD, "/nonexistent", O_RDONLY|O_CLOEXEC|O_PATH\nlseek 0\nlseek 1\nstatx 1\nlseek 2\nstatx 2' ]]
}

@test "systemd's SystemCallFilter=~@network-io does not kill a program that has no TCP socket" {
    local preload
    # Without these two, Python and a bash that starts it ask libc for the user, and libc makes a socket for nscd.
    export HOME=$T SHELL=/bin/sh
    for preload in "$LIBRARY" ''; do
        echo text | LD_PRELOAD=$preload "$PROBES/network_io_filter" sh -c 'cat; echo "$(echo more; pwd >/dev/null)"' >"$T/out"
        [[ $(<"$T/out") == $'text\nmore' ]]
        # The library is there, under the filter.
        [[ -z $preload ]] || LD_PRELOAD=$preload "$PROBES/network_io_filter" grep -q libnagleshim.so /proc/self/maps
        LD_PRELOAD=$preload "$PROBES/network_io_filter" python3 -c \
            'import os, subprocess; open(os.devnull, "w").write("x"); subprocess.check_call(["true"])' <"$T/out" 2>&1
    done
    # A program with a socket is killed with and without the library.
    run -159 "$PROBES/network_io_filter" python3 -c 'import socket; socket.socket()'
}

@test "an inherited connection that is used by write and read alone gets its rule at its first write, a file is asked about once" {
    cat >"$T/first.py" <<'END'
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far = listener.accept()
os.dup2(near.fileno(), 45)
os.dup2(os.open("/dev/null", os.O_WRONLY), 46)
program = "import os; [os.write(fd, b'x') for fd in (46, 45, 46, 45)]"
subprocess.check_call(["strace", "-qq", "-e", "trace=getsockopt,setsockopt,lseek", "-o", sys.argv[1], "-E",
                       "LD_PRELOAD=" + sys.argv[2], sys.executable, "-S", "-E", "-c", program], pass_fds=(45, 46))
print(near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
END
    ns_needs_strace
    [[ $(python3 "$T/first.py" "$T/trace" "$PROBES/empty.so") == 0 ]]
    [[ $(python3 "$T/first.py" "$T/trace" "$LIBRARY") == 1 ]]
    [[ $(grep -c 'lseek(46, 0, SEEK_CUR)' "$T/trace") -eq 1 ]]
    run ! grep 'sockopt(46,' "$T/trace"
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
