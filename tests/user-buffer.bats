#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# "buffer": "user" keeps its contract (README): each test runs a program with the bytes gathered in its own
# memory, with a deadline far below and one far above what counts as at once, and as its control with the
# kernel's buffer, where nothing may lie in the program's memory and everything else must be the same.

bats_require_minimum_version 1.5.0
load helpers/common

setup() {
    ns_setup
}

teardown() {
    ns_teardown
}

rule() {
    printf '{"version": 1, "rules": [{"send": "%s", "buffer": "%s", "max_delay_us": %d}]}' "$1" "$2" "$3"
}

# What behind.so.c does: with it behind the shim.
behind() {
    BEHIND=$1 PRELOADED="$LIBRARY $PROBES/behind.so" "${@:2}"
}

# runs NAME BUFFER DELAY_US PROGRAM SCENARIO: in the background.
runs() {
    ns_start "$1" env LD_PRELOAD="${PRELOADED-$LIBRARY}" NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/$1.log" \
        NAGLESHIM_POLICY="$(rule auto-cork "$2" "$3")" LIFE_HOLDS="$2" LIFE_DELAY_MS=$(($3 / 1000)) \
        timeout -s KILL 25 "$PROBES/gather_$4" "$5"
}

# gathers PROGRAM SCENARIO [may be late|nothing is looked at]
gathers() {
    local limit run status late
    for limit in ${LIFE_LIMITS:-20 80 80}; do
        export LIFE_LIMIT_MS=$limit
        runs short user 200 "$1" "$2"
        runs long user 100000 "$1" "$2"
        runs control kernel 200 "$1" "$2"
        late=0
        for run in short long control; do
            status=0
            ns_join "$run" 30 || status=$?
            if ((status != 0)) || ! grep -q '^held .* wrong 0$' "$T/$run.out"; then
                echo "$2, $run: exit status $status"
                cat "$T/$run.out" "$T/$run.err"
                return 1
            fi
            late=$((late + $(field late "$T/$run.out")))
        done
        ((late > 0)) || break
    done
    if ((late > 0)); then
        cat "$T"/{short,long,control}.out
        return 1
    fi
    [[ $(field in_memory "$T/control.out") -eq 0 ]]
    grep -qE 'sockets [1-9].*bursts held [1-9]' "$T/short.log"
    # What the deadline of 200 us has sent meanwhile is not in memory any more.
    [[ -n ${3-} ]] || [[ $(field in_memory "$T/long.out") -gt 0 ]] || {
        echo "nothing was gathered"
        cat "$T/long.out"
        return 1
    }
}

# A program that writes each packet in 15 pieces, under a rule: its system calls in $T/calls.
pieces_under() {
    ns_start server "$EXAMPLES/tcp_nodelay_server" 0 0
    ns_port server
    LD_PRELOAD=$LIBRARY NAGLESHIM_POLICY=$1 strace -f -c -o "$T/calls" \
        "$EXAMPLES/tcp_nodelay_client" --stats --warmup 10 127.0.0.1 "$port" 200 >"$T/client.out"
}

calls_of() {
    awk -v name="$1" '$NF == name { print $4 }' "$T/calls"
}

@test "15 writes are one system call and one segment, and the peer gets every byte in order" {
    command -v strace >/dev/null || ns_skip "no strace"
    local send
    for send in auto-cork adaptive; do
        pieces_under "$(rule $send user 200)"
        # The line at exit, and for adaptive the bursts before it has learnt, are all the rest.
        holds "$(calls_of sendto) >= 205 && $(calls_of sendto) <= 220"
        holds "$(calls_of write) + 0 <= 40"
        [[ $(field segments_per_round "$T/client.out") == 1.00 ]]
    done
    pieces_under "$(rule auto-cork kernel 200)"
    holds "$(calls_of sendto) + $(calls_of write) >= 15 * 210"
}

@test "also on a socket that connects without blocking, and whose bursts are alike" {
    command -v strace >/dev/null || ns_skip "no strace"
    local send
    cat >"$T/server.py" <<'END'
import socket
listener = socket.create_server(("127.0.0.1", 0))
print("listening on port", listener.getsockname()[1], flush=True)
near = listener.accept()[0]
while packet := near.recv(30, socket.MSG_WAITALL):
    near.sendall(packet)
END
    cat >"$T/client.py" <<'END'
import select, socket, sys
s = socket.socket()
s.setblocking(False)
s.connect_ex(("127.0.0.1", int(sys.argv[1])))
select.select([], [s], [])
for number in range(100):
    packet, answer = b"%030d" % number, b""
    for i in range(0, 30, 6):
        s.send(packet[i:i + 6])
    while len(answer) < 30:
        select.select([s], [], [])
        answer += s.recv(30) or exit("the stream has ended")
    assert answer == packet
END
    for send in auto-cork adaptive; do
        ns_start server python3 "$T/server.py"
        ns_port server
        LD_PRELOAD=$LIBRARY NAGLESHIM_POLICY=$(rule $send user 100000) timeout 20 strace -f -c -o "$T/calls" \
            python3 "$T/client.py" "$port"
        cat "$T/calls"
        holds "$(calls_of sendto) >= 100 && $(calls_of sendto) <= 200"
    done
}

@test "a large write, sendfile, sendmsg with control data, sendmmsg, splice, MSG_MORE and syscall() send first" {
    gathers calls sends
}

@test "SIOCOUTQ, TCP_INFO and setting an option send first" {
    gathers calls asks
}

@test "any wait, a read that has to wait, and the deadline send" {
    gathers calls waits
}

@test "a full buffer leaves, writes that do not fit included, and vectors are gathered whole" {
    gathers calls fills
}

@test "shutdown, close, and close with SO_LINGER send first" {
    gathers calls shuts
}

@test "dup and its kin send first, and a duplicate by which nobody writes leaves the gathering as it is" {
    gathers duplicates reads
}

@test "a write by a duplicate, however made, sends first and ends the gathering: two writers keep their order" {
    gathers duplicates ends
}

@test "what stdio writes by a duplicate that it has, as on 0 to 2, comes in its place" {
    gathers duplicates is-printed
}

@test "what was gathered leaves before its descriptor is closed or replaced, and the duplicate goes on" {
    gathers duplicates outlives
}

@test "where both buffers are full and a descriptor is closed, what its duplicate writes comes after that" {
    gathers duplicates outlives-full 'nothing is looked at'
}

@test "where both buffers are full a write and a shutdown by a duplicate come after that, and wait for nothing" {
    gathers duplicates writes-to-full 'nothing is looked at'
    gathers duplicates shuts-full 'nothing is looked at'
}

@test "what a duplicate that reads owes is paid where its socket is written to" {
    gathers duplicates converses
    run -1 grep -E 'ACKs [1-9][0-9]' "$T/long.log"
}

@test "a shutdown by a duplicate, and a reset told by one, are as on the descriptor that gathers" {
    gathers duplicates shuts
    gathers duplicates resets
}

@test "SCM_RIGHTS sends first, and ends the gathering" {
    gathers calls shares
}

@test "fork, vfork, posix_spawn, system and popen send first, and end the gathering: the child writes after that" {
    gathers calls starts
}

@test "a socket that connects without blocking gathers, and after an exec that failed none does any more" {
    gathers calls connects
    gathers calls fails-to-exec
}

@test "dprintf, fdopen and io_uring send first, and end the gathering" {
    gathers calls stdio
}

@test "exit, _exit, quick_exit, abort, exec, pthread_exit and handled fatal signals send first" {
    gathers ends ends
}

@test "no child sends what its parent has gathered, not even one of a bare clone" {
    gathers ends children
}

@test "a full non-blocking socket says EAGAIN, and poll and epoll tell the truth" {
    gathers full eagain 'nothing is looked at'
}

@test "no write that must not wait does where both buffers are full: it is EAGAIN, whichever call it is" {
    gathers full must-not-wait 'nothing is looked at'
}

@test "a writev that fits in part takes the beginning of its bytes" {
    gathers full cuts-vectors 'nothing is looked at'
}

@test "what the kernel did not take leaves by itself, also while the program only polls for input" {
    gathers full leaves 'nothing is looked at'
}

@test "what the kernel did not take is not forgotten where two threads look for it at the same time" {
    behind nothing gathers looks looks 'nothing is looked at'
}

@test "what the kernel does not take keeps the deadline thread awake for a moment, and not as long as it stays" {
    command -v strace >/dev/null || ns_skip "no strace"
    NAGLESHIM_POLICY=$(rule auto-cork user 200) timeout -s KILL 25 strace -f -qq -e trace=futex -o "$T/trace" \
        -E LD_PRELOAD="$LIBRARY" "$PROBES/gather_looks" rests
    holds "$(grep -c FUTEX_WAIT "$T/trace") >= 10 && $(grep -c FUTEX_WAIT "$T/trace") <= 400"
}

@test "it also leaves where unshare, setns or a change of one thread's privileges has ended the deadline thread" {
    gathers full outlives-threads 'nothing is looked at'
}

@test "a blocking write blocks where it has to, SO_SNDTIMEO and EINTR included" {
    gathers full blocks 'nothing is looked at'
}

@test "close and shutdown of a full non-blocking socket lose nothing, and do not wait" {
    gathers leaves closes 'nothing is looked at'
}

@test "close of a full socket with SO_LINGER waits as long as that says, and loses nothing but what it is to" {
    gathers leaves lingers 'nothing is looked at'
}

@test "a process that ends with a full socket loses nothing: exit, exec, abort, and fatal signals that it sends itself" {
    gathers leaves exits 'nothing is looked at'
}

@test "what a process has closed and not yet sent is not kept open by its children" {
    gathers leaves forks 'nothing is looked at'
}

@test "a reset is told once: ECONNRESET or EPIPE, by write, read, poll or SO_ERROR, with SIGPIPE where due" {
    gathers full fails
}

@test "threads that write to one socket keep their writes whole and in order" {
    gathers threads threads
}

@test "a signal handler that writes to the socket that it interrupts neither waits for ever nor mixes writes" {
    gathers threads timer-writes
}

@test "the same in a storm of signals, with both buffers full" {
    gathers threads storm-writes
}

@test "a signal handler that jumps out of a write leaves it whole or not at all" {
    gathers threads timer-jumps
}

@test "the same in a storm of signals that jump, with both buffers full" {
    gathers threads storm-jumps
}

# How often signals are blocked, as the shim does it, in a scenario of gather_handlers.
masks_in() {
    NAGLESHIM_POLICY=$(rule auto-cork user 100000) LIFE_HOLDS=user LIFE_DELAY_MS=100 timeout -s KILL 25 \
        strace -f -qq -e trace=rt_sigprocmask -o "$T/trace" -E LD_PRELOAD="${PRELOADED-$LIBRARY}" \
        "$PROBES/gather_handlers" "$1" >"$T/out"
    holds "$(field gathered "$T/out") + $(field in_memory "$T/out") > 0"
    grep -c 'SIG_SETMASK, ~\[\]' "$T/trace" || true
}

@test "signals are blocked where gathered bytes are sent, in a process that has or had a handler, and in no other" {
    command -v strace >/dev/null || ns_skip "no strace"
    local way
    [[ $(masks_in by-nothing) -eq 0 ]]
    [[ $(behind nothing masks_in by-nothing) -eq 0 ]]
    for way in sigaction cancel_type meanwhile; do
        [[ $(behind $way masks_in by-nothing) -ge 3 ]] || {
            echo "$way, before the shim has started: signals are not blocked"
            return 1
        }
    done
    for way in sigaction libc_sigaction signal bsd_signal sysv_signal weak_sysv_signal ssignal sigset number cancel_type; do
        [[ $(masks_in "by-$way") -ge 3 ]] || {
            echo "a handler by $way: signals are not blocked"
            return 1
        }
    done
}

@test "the first signal handler of a process may come while another thread sends, and write there" {
    gathers handlers first-handler
}

@test "the first two signal handlers of a process may come at the same time while a third thread sends" {
    behind nothing gathers handlers two-handlers
}

@test "a write that is stopped halfway holds up nobody: not its own thread, another, or the deadline's" {
    gathers threads stops
}

@test "both storms also where no memory is to be had" {
    gathers threads storm-writes-without-memory
    gathers threads storm-jumps-without-memory
}

@test "every call, in every state, from threads that signals interrupt all the time: no byte and no errno differs" {
    gathers hostile hostile 'may be late'
}
