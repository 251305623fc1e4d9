# SPDX-License-Identifier: MIT
# Promise: A program that does not use TCP makes at most two extra system calls for a descriptor that it writes to, a TCP program only those that set up a socket.
# strace shows the system calls that the library adds after a program's start.

load ../helpers/common

setup() {
    ns_setup
    ns_needs_strace
    ns_python
    # Its scenes begin after a call of getppid, which shows the end of start-up.
    cat >"$T/scene.py" <<'END'
import os, select, socket, sys, threading

def talk(reads, writes, wait=lambda: None):
    for _ in range(20):
        os.write(writes, b"text")
        wait()
        assert os.read(reads, 8) == b"text"

scene = sys.argv[1]
os.getppid()
if scene == "pipes":
    ends = os.pipe()
    poll = select.poll()
    poll.register(ends[0], select.POLLIN)
    talk(*ends, poll.poll)
    os.close(ends[1])
elif scene == "threads":
    ends = os.pipe()
    os.close(ends[1])
    thread = threading.Thread(target=os.read, args=(ends[0], 8))
    thread.start()
    thread.join()
elif scene == "datagrams":
    to, out = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    to.bind(("127.0.0.1", 0))
    out.connect(to.getsockname())
    out.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    talk(to.fileno(), out.fileno())
    os.close(os.dup(out.fileno()))
elif scene == "unix":
    left, right = socket.socketpair()
    epoll = select.epoll()
    epoll.register(left.fileno(), select.EPOLLIN)
    talk(left.fileno(), right.fileno(), epoll.poll)
END
    scene=(env PYTHONHASHSEED=0 "$python" -S "$T/scene.py")
}

# trace FILE FROM PRELOAD COMMAND...: traces COMMAND from the first call that contains FROM on, without details that differ
# between any two runs: memory addresses, process ids and ports.
trace() {
    local file=$1 from=$2 preload=$3
    shift 3
    timeout 30 strace -f -qq -o "$file.raw" -E LD_PRELOAD="$preload" "$@" >"$file.out" 2>&1 </dev/null
    awk -v from="$from" 'index($0, from) { found = 1 } found { $1 = ""; print }' "$file.raw" |
        sed -E 's/0x[0-9a-f]+/ADDRESS/g; s/htons\([0-9]+\)/PORT/g; s/u64=[0-9]+/u64/; s/tid?=\[?[0-9]+\]?/TID/g
            s/(child_tid|parent_tid)=[^,}]*/\1/g; s/(getppid\(\)) = [0-9]+/\1/; s/= [0-9]{3,}$/= NUMBER/; s/futex\(.*/futex/' >"$file"
    [[ -s $file ]]
}

# In the process traced as $T/shimmed the library was not only loaded, but has asked about descriptors 0 to 2.
started() {
    local asks='lseek\([012], 0, SEEK_CUR'
    [[ $(grep -cE "$asks" "$T/shimmed.raw") -ge $(($(grep -cE "$asks" "$T/plain.raw") + 3)) ]]
}

# Whether a descriptor below 64 is an inherited socket is asked once, at the first write to it. Removes these calls.
asked_once() {
    local asks='lseek\([0-9]+, 0, SEEK_CUR|statx\([0-9]+, ""|ioctl\([0-9]+, SIOCOUTQNSD|getsockopt\([0-9]+, SOL_SOCKET, SO_DOMAIN'
    grep -oE "$asks" "$T/shimmed" | sort >"$T/asked" || true
    diff "$T/asked" <(sort -u "$T/asked")
    # On 32-bit systems cat's own fstat is a statx.
    sed -i -E "/$asks/d" "$T/shimmed" "$T/plain"
}

# quiet FROM COMMAND...: it makes the same calls in the same order with and without the library.
quiet() {
    local from=$1
    shift
    trace "$T/plain" "$from" '' "$@"
    trace "$T/shimmed" "$from" "$LIBRARY" "$@"
    asked_once
    diff "$T/plain" "$T/shimmed" || wrong "< without the library, > with it: $*" || return
    started
}

# Counts each call. A thread's first malloc gives back what is before and behind an aligned part of its new memory, if there is any.
counted() {
    grep -v resumed "$1" | sed -E 's/^ *([a-z0-9_]+).*/\1/' | grep -vxE 'brk|getrandom|futex|munmap' | sort | uniq -c
}

@test "cat and programs with pipes, UDP or UNIX sockets make no extra system call under any policy, except these" {
    local name policy
    quiet "AT_FDCWD, \"$PWD/shim/base/calls.def\"" cat "$PWD/shim/base/calls.def"
    for policy in '' '{"version": 1, "rules": [{"send": "auto-cork"}]}'; do
        for name in pipes datagrams unix; do
            NAGLESHIM_POLICY=$policy quiet getppid "${scene[@]}" "$name"
        done
    done
}

# faults LIBRARY: the page faults of a forked child, summed over five processes, which are loaded at different addresses.
faults() {
    for _ in 1 2 3 4 5; do
        LD_PRELOAD=$1 "$PROBES/bench_start" 100
    done | awk '{ sum += $4 } END { print sum }'
}

@test "compared with an empty library, a process starts with at most four extra page faults, and a forked child with one" {
    local most=4
    [[ $(uname -m) != i?86 ]] || most=8 # libc's functions are spread over more windows of fault-around
    "$PROBES/bench_start" 100 /bin/true LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY_DIR=/nonexistent -- LD_PRELOAD="$PROBES/empty.so" \
        >"$T/starts"
    cat "$T/starts"
    holds "$(field faults "$T/starts") <= $most"
    holds "$(faults "$LIBRARY") <= $(faults "$PROBES/empty.so") + 5"
}

@test "a program with threads makes no extra system call" {
    trace "$T/plain" getppid '' "${scene[@]}" threads
    trace "$T/shimmed" getppid "$LIBRARY" "${scene[@]}" threads
    # Calls of two threads come in any order, so they are counted. The calls of malloc and of joins depend on timing and
    # are left out.
    diff <(counted "$T/plain") <(counted "$T/shimmed")
    started
}

# steps WORDS: traces a program that makes these steps (probes/stress/steps.c) without and with the library.
steps() {
    # shellcheck disable=SC2086 # its words
    trace "$T/plain" '"begin' '' "$PROBES/steps" $1
    # shellcheck disable=SC2086 # its words
    trace "$T/shimmed" '"begin' "$LIBRARY" "$PROBES/steps" $1
}

@test "a TCP client makes extra calls only to set up each new socket" {
    steps "connected $(repeat 10 'write hear')close connected $(repeat 10 'write hear')close exit"
    # No call of the program itself is missing or in another order.
    diff "$T/plain" "$T/shimmed" >"$T/difference" || true
    [[ -s $T/difference ]]
    run ! grep '^<' "$T/difference"
    # Whose peer it is, and the round trip, are asked once, when the first ACK is pending.
    sed -nE 's/^> *(getpeername|[a-z]+\([0-9]+, [A-Z_]+, [A-Za-z0-9_]+).*/\1/p' "$T/difference" >"$T/extra"
    [[ $(wc -l <"$T/extra") -eq $(grep -c '^>' "$T/difference") ]]
    # TCP_NODELAY is set once per socket. TCP_DELACK_MAX_US (46) is read once and, if the kernel has it, set once per socket.
    cat "$T/extra"
    [[ $(grep -c 'setsockopt(.*TCP_NODELAY' "$T/extra") -eq 2 ]]
    [[ $(grep -cE 'getsockopt\(.*(0x2e|46|TCP_DELACK_MAX_US|ADDRESS)' "$T/extra") -eq 1 ]]
    run grep -cE 'setsockopt\(.*(0x2e|46|TCP_DELACK_MAX_US|ADDRESS)' "$T/extra"
    [[ $output == 2 || $output == 0 ]]
    [[ $(grep -c 'getpeername\|TCP_INFO' "$T/extra") -le 4 ]]
    [[ $(grep -vc 'getpeername\|TCP_INFO' "$T/extra") -eq $((3 + output)) ]]
}

@test "a client that makes a connection for each request makes no extra system call" {
    local request
    for request in 'connected write hear' 'connected write hear end'; do
        steps "$(repeat 4 "$request close") exit"
        # The last read, by either call, finds the end of the stream.
        sed -i -E 's/(read|recvfrom)\(([0-9]+),.*= 0$/read(\2) = 0/' "$T/plain" "$T/shimmed"
        diff "$T/plain" "$T/shimmed"
        started
    done
}

@test "8000 connections that are closed one after the other leave no memory" {
    cat >"$T/many.py" <<'END'
import socket
def resident_kib():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])
listener = socket.create_server(("127.0.0.1", 0))
def connections(n):
    for _ in range(n):
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        server.close(), client.close()
connections(500)
resident_kib()  # keeps what Python needs to read a file
before = resident_kib()
connections(8000)
print(resident_kib() - before)
END
    run env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/log" LD_PRELOAD="$LIBRARY" "$python" "$T/many.py"
    grep -E ' sockets [1-9][0-9]{3}' "$T/log"
    ((output < 200)) || wrong "$output KiB more"
}

@test "a server makes one extra call at its first listener, none for each connection" {
    # At the end a pipe gets a connection's number.
    steps 'accepted hear write close accepted-next hear write close accepted-next hear write becomes-a-pipe fed exit'
    asked_once
    diff "$T/plain" "$T/shimmed" >"$T/difference" || true
    cat "$T/difference"
    run ! grep '^<' "$T/difference"
    # Forked children share one page.
    [[ $(grep -c '^>' "$T/difference") -eq 1 ]]
    [[ $(grep -c '^> .*mmap(.*MAP_SHARED' "$T/difference") -eq 1 ]]
}

@test "these tests detect a library that makes one extra call" {
    MISTAKE=call LIBRARY=$PROBES/mistakes.so run quiet getppid "${scene[@]}" pipes
    [[ $status -ne 0 && $output == *F_GETFL* ]]
}
