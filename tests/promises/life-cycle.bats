#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Through every close, fork, exec, signal, reset and hand-over bytes arrive whole, in order and in time.
# Parts: 2
# What happens to descriptors, connections, threads and processes, and to bytes that are held meanwhile: they
# arrive whole and in order, in time, and the errors are those of a program without the shim. Each scenario
# runs with the built-in policy and under auto-cork.

bats_require_minimum_version 1.5.0
load ../helpers/common

setup() {
    ns_setup
}

teardown() {
    ns_teardown
}

CORK='{"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": 100000}]}'

# The runs of a scenario, next to each other: they mostly wait. LIMIT is how many milliseconds count as at once.
all_runs() {
    # shellcheck disable=SC2206 # NS_UNDER: the words of a command that runs them, as valgrind does
    local under=(${NS_UNDER-})
    export LIFE_LIMIT_MS=$3
    runs=(default cork)
    ns_start default env LD_PRELOAD="$LIBRARY" "${under[@]}" "$PROBES/life_$1" "$2"
    ns_start cork env LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY="$CORK" LIFE_HOLDS=kernel "${under[@]}" \
        "$PROBES/life_$1" "$2"
    local run status
    late=0
    for run in "${runs[@]}"; do
        status=0
        ns_join "$run" "${LIFE_SECONDS:-25}" || status=$?
        # Also what a child wrote of itself.
        if ((status != 0)) || ! grep -q '^held ' "$T/$run.out"; then
            echo "$2, $run: exit status $status"
            cat "$T/$run.out" "$T/$run.err"
            return 1
        fi
        late=$((late + $(field late "$T/$run.out")))
    done
}

# survives PROGRAM SCENARIO [may hold nothing]: nothing is wrong, and nothing late. A busy machine may be late
# too, so that is tried again with twice the limit; what the kernel had to send is 200 ms late.
survives() {
    local limit run runs
    for limit in ${LIFE_LIMITS:-20 40 80 80}; do
        all_runs "$1" "$2" "$limit" || return 1
        ((late > 0)) || break
    done
    if ((late > 0)); then
        for run in "${runs[@]}"; do
            tail -n 5 "$T/$run.out"
        done
        return 1
    fi
    # The other half of the test: bytes were held.
    [[ -n ${3-} || -n ${NS_UNDER-} ]] || holds "$(field held "$T/cork.out") > 0" || {
        echo 'nothing was held'
        cat "$T/cork.out"
        return 1
    }
}

io_uring_permitted() {
    "$PROBES/life_uring" || ns_skip 'io_uring is not permitted'
}

@test "datagrams stay apart where a UDP socket took a connection's number behind our back" {
    survives fds becomes-udp
}

@test "datagrams stay apart also where syscall() does that in the middle of a burst" {
    survives fds becomes-udp-in-burst
}

@test "a pipe, nothing, or another connection may take a connection's number behind our back" {
    survives fds becomes-others
}

@test "threads that get each other's closed numbers all the time get only their own bytes" {
    survives fds reuse-race
}

@test "a connection passed to another process and back carries all of its bytes in order" {
    survives fds rights
}

@test "a connection that came in a message, and that nobody saw being made, is governed like any other" {
    survives fds rights-of-unseen
}

@test "what was held leaves before fork, and parent and child write on" {
    survives processes fork
}

@test "a child that writes and then waits has its bytes sent in time" {
    survives processes fork-and-wait
}

@test "what is held leaves before exit, _exit, _Exit and quick_exit where another process has the connection" {
    survives processes exit
}

@test "a child of a bare clone is governed, also after a vfork" {
    survives processes clone-after-vfork
}

@test "what a child of vfork does to its descriptors does not reach its parent's" {
    survives processes vfork
}

@test "what is held leaves before posix_spawn and system" {
    survives processes spawn
}

@test "what is held leaves before exec, and after an exec that failed all goes on" {
    survives processes exec
}

@test "a daemon's bytes leave in time on both sides of daemon()" {
    survives processes daemon
}

@test "what was held at daemon() leaves in time where the daemon only computes" {
    survives processes daemon-waits
}

@test "a connection that a forked child accepted is served in time" {
    survives processes prefork
}

@test "a server that a service manager gave its listener serves in time" {
    survives processes service-manager 'the server is another process'
}

@test "a server that inetd gave its connection on 0 and 1 serves in time" {
    survives processes inetd 'the server is another process'
}

@test "a server that inetd gave its connection has its rule although it never makes a call that is seen" {
    survives processes inetd-silent 'nobody writes'
}

@test "what a thread holds leaves when the thread ends" {
    survives threads thread-ends
}

@test "what one thread holds and another goes on with arrives in time" {
    survives threads between-threads
}

@test "a thread cancelled inside any wait has sent what it held, and leaves nothing behind" {
    survives threads cancellation
}

@test "siglongjmp out of a handler, from inside us or inside the wait, breaks nothing" {
    survives threads jumps
}

@test "a handler that writes on the connection that its thread is writing on loses no byte" {
    survives threads handler-writes 'only the bytes are counted'
}

# Each instruction of the library's, or each third, is where a signal handler comes.
interrupted() {
    [[ $(uname -m) == x86_64 ]] || ns_skip "single steps are taken on x86-64 only"
    LIFE_SECONDS=100 LIFE_STRIDE=3 LD_PRELOAD="$LIBRARY" "$PROBES/life_interrupted" "$1"
}

@test "a handler that gives a number to another socket in the middle of dup mixes up nothing" {
    interrupted dup
}

@test "a handler that reads by one descriptor in the middle of the other one's close stalls nobody" {
    interrupted close
}

@test "a handler that accepts in the middle of a wait, by a number that was closed, stalls nobody" {
    interrupted wait
}

@test "a handler that reads in the middle of a write leaves TCP_NODELAY as it is to be" {
    interrupted join
}

@test "a handler that closes in the middle of a held write leaves what another number writes to the next wait" {
    export NAGLESHIM_POLICY='{"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": 100000}]}'
    interrupted write
}

@test "after a seccomp filter that kills on setsockopt the program lives, and sends what was held" {
    survives threads filter
}

@test "what was sent before close arrives although unread data make the close a reset" {
    survives tcp close-unread
}

@test "what was sent before close arrives with SO_LINGER, also where it makes the close a reset" {
    survives tcp linger
}

@test "TCP_FASTOPEN and TCP_FASTOPEN_CONNECT open with their bytes, and the rest follows in order" {
    # Servers take data with a SYN only if they are told to.
    if [[ $NS_ISOLATED == 1 ]]; then
        echo 3 >/proc/sys/net/ipv4/tcp_fastopen
        before=$(tcp_counter TCPFastOpenPassive)
    fi
    survives tcp fast-open
    [[ $NS_ISOLATED == 0 || $(tcp_counter TCPFastOpenPassive) -gt $before ]]
}

@test "sends with MSG_ZEROCOPY within a burst arrive in order, and each is told once" {
    survives kernel zero-copy
}

@test "kTLS begins after what was held, and of its records nothing is held" {
    survives kernel kernel-tls
}

@test "sends of io_uring within a burst arrive in order and in time" {
    io_uring_permitted
    survives uring sends
}

@test "what is held leaves in time where the wait is io_uring's, and its reset is told as it would have been" {
    io_uring_permitted
    survives uring receives
}

@test "connections that io_uring connects, accepts and closes carry their bytes in order and in time" {
    io_uring_permitted
    survives uring connects
}

@test "datagrams stay apart where io_uring closed a connection and a UDP socket took its number" {
    io_uring_permitted
    survives uring becomes-udp
}

@test "a connection that a process accepts from a listener it was sent is served in time" {
    survives fds rights-listener
}

@test "a server that a service manager gave its connection on 3 serves in time" {
    survives processes service-manager-accepts 'the server is another process'
}

@test "MPTCP connections carry all of their bytes in order and in time" {
    survives tcp mptcp 'without MPTCP nothing is sent'
}

@test "a program that polls busily acknowledges what it has read, and sends what it has written" {
    survives tcp polls-busily
}

@test "what was written to one connection leaves before what is then written to another" {
    survives tcp turns-to-another
}

@test "the scenarios notice bytes that are late" {
    local program
    cat >"$T/bad.c" <<'END'
#include <sys/socket.h>
ssize_t write(int fd, const void *data, size_t size) { return send(fd, data, size, MSG_MORE); }
END
    gcc -shared -fPIC -o "$T/bad.so" "$T/bad.c"
    for program in 'processes fork' 'threads thread-ends'; do
        # shellcheck disable=SC2086 # two words
        set -- $program
        LD_PRELOAD=$T/bad.so timeout 25 "$PROBES/life_$1" "$2" >"$T/bad.out" || true
        holds "$(field late "$T/bad.out") > 0" || {
            echo "$program did not notice"
            cat "$T/bad.out"
            return 1
        }
    done
}
