# SPDX-License-Identifier: MIT
# Promise: What the library keeps beside the kernel costs a busy program no system call for each of its own calls.
# strace counts the calls that the library adds. unit/test_pending.c has what a poll without a wait drops.

load ../helpers/common

setup() {
    ns_setup
    ns_needs_strace
    ns_python
}

# calls PRELOAD REGEX PROGRAM ARGUMENT...: runs the Python program under strace, and prints how many such calls it and its
# children make after it has called getpgid. The library must have treated its connection.
calls() {
    local preload=$1 calls=$2
    shift 2
    timeout 60 "${timed[@]}" strace --seccomp-bpf -f -qq -e trace=getpgid,getsockopt,setsockopt,lseek,ppoll -o "$T/trace" -E LD_PRELOAD="$preload" "$python" "$@" >"$T/out" 2>&1 ||
        wrong "it failed:" "$T/out" || return
    [[ $preload != "$LIBRARY" ]] || grep -q 'setsockopt(.*TCP_NODELAY' "$T/trace"
    awk -v calls="$calls" '/ getpgid\(/ { begun = 1 } begun && $0 ~ calls { n++ } END { print n + 0 }' "$T/trace"
}

# asks_at_most COUNT WAY: the reader of $T/reader.py asks so often about its ACKs. A pause between two reads may be as long as a wait.
asks_at_most() {
    local count
    count=$(calls "$LIBRARY" 'getsockopt.*TCP_QUICKACK' "$T/reader.py" "$2")
    [[ $count -le $1 ]] || is_late 8 "$2: $count questions"
}

@test "a connection that a program which has loaded liburing only reads costs no question, and in a forked child one" {
    cat >"$T/reader.py" <<'END'
import ctypes, os, socket, sys, threading
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far = listener.accept()[0]
data = bytes(200)
far.sendall(data * 400)
if sys.argv[1] == "uring":
    ctypes.CDLL("liburing.so.2")
elif sys.argv[1] == "child" and os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
os.getpgid(0)
assert sum(len(near.recv(200)) for _ in range(400)) == 80000
END
    local way
    for way in child uring self; do
        [[ $way != uring || -e $(echo /usr/lib/*/liburing.so.2) ]] || ns_skip "no liburing"
        in_time asks_at_most "$([[ $way == child ]] && echo 1 || echo 0)" "$way"
        # The library has found the sockets.
        [[ $(NAGLESHIM_LOG=info LD_PRELOAD=$LIBRARY python3 "$T/reader.py" "$way" 2>&1) == *' sockets '[1-9]* ]]
    done
}

@test "reads with MSG_WAITALL that find their answer at once cost no question about ACKs" {
    cat >"$T/reader.py" <<'END'
import os, socket
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far = listener.accept()[0]
os.getpgid(0)
for _ in range(2000):
    near.send(b"question")
    far.send(far.recv(8))
    near.recv(8, socket.MSG_WAITALL)
END
    in_time asks_at_most 5 waitall
}

@test "twelve lines of a log between a request and its answer cost two system calls on average, and lines to a file none" {
    cat >"$T/logs.py" <<'END'
import os, socket, subprocess, sys
way, file = sys.argv[1:]
listener = socket.create_server(("127.0.0.1", 0))
os.environ["LD_PRELOAD"] = ""
ends = os.pipe()
other = subprocess.Popen([sys.executable, *"tests/probes/turns.py client 127.0.0.1".split(), str(listener.getsockname()[1]), *"100 1 : w7 r".split()])
near = listener.accept()[0]
log = os.open({"null": "/dev/null", "file": file, "pipe": "/dev/null"}[way], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
if way == "pipe":
    log = ends[1]
    subprocess.Popen(["cat"], stdin=ends[0], stdout=subprocess.DEVNULL, pass_fds=[], close_fds=True)
os.write(log, b"begin\n")
os.getpgid(0)
for _ in range(100):
    near.recv(100)
    for _ in range(12):
        os.write(log, b"127.0.0.1 GET /x HTTP/1.1 200 17\n")
    near.send(b"answer")
END
    local way most count
    for way in null pipe file; do
        count=$(calls "$LIBRARY" ' (lseek|ppoll)[(]' "$T/logs.py" "$way" "$T/log")
        echo "$way: $count"
        [[ $way == file ]] && most=2 || most=200
        [[ $count -ge 1 && $count -le $most ]]
        [[ $(calls '' ' (lseek|ppoll)[(]' "$T/logs.py" "$way" "$T/log") -eq 0 ]]
    done
}
