#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: A program with nothing to mend makes no other system call, and a TCP program only those that set up a socket.
# What the shim costs a program in system calls, as strace counts them. A program with nothing to mend makes
# after its start the calls that it makes without the shim, one by one; a TCP client under the built-in policy
# makes besides them only those that set up a new socket.

load ../helpers/common

setup() {
    ns_setup
    ns_needs_strace
}

# trace FILE FROM PRELOAD COMMAND...: the calls of COMMAND from the first that has FROM in it, without what
# differs between any two runs: addresses in memory, process ids and ports.
trace() {
    local file=$1 from=$2 preload=$3
    shift 3
    timeout 30 strace -f -qq -o "$file.raw" -E LD_PRELOAD="$preload" "$@" >"$file.out" 2>&1 </dev/null
    awk -v from="$from" 'index($0, from) { found = 1 } found { $1 = ""; print }' "$file.raw" |
        sed -E 's/0x[0-9a-f]+/ADDRESS/g; s/htons\([0-9]+\)/PORT/g; s/tid?=\[?[0-9]+\]?/TID/g
            s/(child_tid|parent_tid)=[^,}]*/\1/g; s/(getppid\(\)) = [0-9]+/\1/; s/= [0-9]{3,}$/= NUMBER/; s/futex\(.*/futex/' >"$file"
    [[ -s $file ]]
}

# The shim was not only loaded into what was traced as $T/shimmed: it has made its table of descriptors.
started() {
    grep -q RLIMIT_NOFILE "$T/shimmed.raw"
    run ! grep -q RLIMIT_NOFILE "$T/plain.raw"
}

# quiet FROM COMMAND...: the same calls, in the same order, with the shim and without.
quiet() {
    local from=$1
    shift
    trace "$T/plain" "$from" '' "$@"
    trace "$T/shimmed" "$from" "$LIBRARY" "$@"
    diff "$T/plain" "$T/shimmed" || {
        echo "< without the shim, > with it: $*"
        return 1
    }
    started
}

# How often each call was made.
counted() {
    grep -v resumed "$1" | sed -E 's/^ *([a-z0-9_]+).*/\1/' | grep -vxE 'brk|getrandom|futex' | sort | uniq -c
}

@test "cat and programs with pipes, UDP or UNIX sockets make the same system calls as without the library, under each policy" {
    local scene policy
    quiet "AT_FDCWD, \"$PWD/shim/base/calls.def\"" cat "$PWD/shim/base/calls.def"
    for policy in '' '{"version": 1, "rules": [{"send": "auto-cork"}]}'; do
        for scene in pipes datagrams unix; do
            NAGLESHIM_POLICY=$policy quiet getppid "$PROBES/quiet" "$scene"
        done
    done
}

@test "after a child that shared its memory a program makes no getpid, once the child has ended or become another program" {
    for way in after-end after-exec beside-child; do
        trace "$T/$way" getpgid "$LIBRARY" "$PROBES/quiet" "$way"
    done
    run ! grep -w getpid "$T/after-end" "$T/after-exec"
    grep -qw getpid "$T/beside-child" # a close of the child would be about its own descriptors
}

# faults LIBRARY: page faults of a forked child, summed over five processes, which the loader puts at other addresses.
faults() {
    for _ in 1 2 3 4 5; do
        LD_PRELOAD=$1 "$PROBES/bench_start" 100
    done | awk '{ sum += $4 } END { print sum }'
}

@test "a process starts with at most four page faults more than with an empty library, and a forked child has at most one" {
    "$PROBES/bench_start" 100 /bin/true LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY_DIR=/nonexistent -- LD_PRELOAD="$PROBES/empty.so" \
        >"$T/starts"
    cat "$T/starts"
    holds "$(field faults "$T/starts") <= 4"
    holds "$(faults "$LIBRARY") <= $(faults "$PROBES/empty.so") + 5"
}

@test "a program with threads makes the same system calls as without the library" {
    trace "$T/plain" getppid '' "$PROBES/quiet" threads
    trace "$T/shimmed" getppid "$LIBRARY" "$PROBES/quiet" threads
    # Two threads' calls come in any order, so they are counted; the first malloc may have been at start-up,
    # and whether a join has to wait is chance.
    diff <(counted "$T/plain") <(counted "$T/shimmed")
    started
}

@test "a TCP client makes extra calls only to set up each new socket" {
    trace "$T/plain" getppid '' "$PROBES/quiet" requests
    trace "$T/shimmed" getppid "$LIBRARY" "$PROBES/quiet" requests
    # Nothing that it makes without the shim is missing or in another order.
    diff "$T/plain" "$T/shimmed" >"$T/difference" || true
    [[ -s $T/difference ]]
    run grep '^<' "$T/difference"
    [[ $status -ne 0 ]]
    sed -nE 's/^> *([a-z]+\([0-9]+, [A-Z_]+, [A-Za-z0-9_]+).*/\1/p' "$T/difference" >"$T/extra"
    [[ $(wc -l <"$T/extra") -eq $(grep -c '^>' "$T/difference") ]]
    # TCP_NODELAY once a socket; TCP_DELACK_MAX_US (46) is asked for once, and set once a socket where the
    # kernel has it.
    cat "$T/extra"
    [[ $(grep -c 'setsockopt(.*TCP_NODELAY' "$T/extra") -eq 2 ]]
    [[ $(grep -cE 'getsockopt\(.*(0x2e|46|TCP_DELACK_MAX_US|ADDRESS)' "$T/extra") -eq 1 ]]
    run grep -cE 'setsockopt\(.*(0x2e|46|TCP_DELACK_MAX_US|ADDRESS)' "$T/extra"
    [[ $output == 2 || $output == 0 ]]
    [[ $(wc -l <"$T/extra") -eq $((3 + output)) ]]
}

@test "a client that makes a connection for each request makes no other system call than without the library" {
    local scene
    for scene in one-shots one-shots-to-eof; do
        trace "$T/plain" getppid '' "$PROBES/quiet" "$scene"
        trace "$T/shimmed" getppid "$LIBRARY" "$PROBES/quiet" "$scene"
        # The last read finds the end, whichever call it is.
        sed -i -E 's/(read|recvfrom)\(([0-9]+),.*= 0$/read(\2) = 0/' "$T/plain" "$T/shimmed"
        diff "$T/plain" "$T/shimmed"
        started
    done
}

@test "a server makes extra calls only to set up its listener, none for each connection" {
    trace "$T/plain" getppid '' "$PROBES/quiet" serves
    trace "$T/shimmed" getppid "$LIBRARY" "$PROBES/quiet" serves
    diff "$T/plain" "$T/shimmed" >"$T/difference" || true
    cat "$T/difference"
    run grep '^<' "$T/difference"
    [[ $status -ne 0 ]]
    # TCP_NODELAY, and TCP_DELACK_MAX_US, which is asked for and, where the kernel has it, set.
    [[ $(grep -c '^>' "$T/difference") -ge 2 && $(grep -c '^>' "$T/difference") -le 3 ]]
    [[ $(grep -c '^> .*TCP_NODELAY' "$T/difference") -eq 1 ]]
}

@test "these tests detect a library that makes one extra call" {
    cat >"$T/bad.c" <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t write(int fd, const void *data, size_t size)
{
    syscall(SYS_fcntl, fd, F_GETFL);
    return syscall(SYS_write, fd, data, size);
}
END
    gcc -shared -fPIC -o "$T/libnagleshim.so" "$T/bad.c"
    LIBRARY=$T/libnagleshim.so
    run quiet getppid "$PROBES/quiet" pipes
    [[ $status -ne 0 && $output == *F_GETFL* ]]
}
