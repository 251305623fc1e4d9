#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: An ACK is sent if the peer waits for it, and only then, however the program reads, writes and waits.
# shellcheck disable=SC2154 # $PROBES: helpers/common.bash
# Each test runs a program without and with the library, and compares stalls (rounds over 20 ms; a bounded delayed ACK takes
# 8 to 16 ms) and the segments of both ends for each round.

load ../helpers/common

setup() {
    ns_setup
    ns_prompt
}

# run_pattern NAME ROUNDS [VARIABLE=VALUE]...: sets stalls, median (us) and both (segments of both ends for each round).
# Both ends are on one CPU if the array pin says so, since segments depend on which end runs first.
run_pattern() {
    timeout 60 "${pin[@]}" env "${@:3}" "$PROBES/ack_patterns" "$1" "$2" >"$T/$1.out"
    stalls=$(field stalls "$T/$1.out") median=$(field median_us "$T/$1.out") both=$(field both "$T/$1.out")
}

# cured NAME [MOST]: almost every round stalls without the library, and at most two with it, from which the library learns.
# The median round then takes less than MOST us.
cured() {
    local pin=() stalls median both attempt
    run_pattern "$1" 30
    [[ $stalls -ge 28 ]]
    for attempt in 1 2 3; do
        run_pattern "$1" 60 LD_PRELOAD="$LIBRARY"
        ! holds "$stalls <= 2 && $median < ${2:-5000}" || return 0
        echo "attempt $attempt: stalls $stalls, median $median us"
    done
    return 1
}

# as_few_segments NAME ROUNDS [FACTOR]: the program sends as few segments as without the library.
as_few_segments() {
    local pin=(taskset -c 0) stalls median both attempt without
    for attempt in 1 2 3 4 5; do
        run_pattern "$1" "$2"
        without=$both
        run_pattern "$1" "$2" LD_PRELOAD="$LIBRARY"
        ! holds "$both <= ${3:-1.05} * $without" || return 0
        echo "attempt $attempt: $both segments a round, $without without the library"
    done
    return 1
}

@test "reads with MSG_WAITALL that do not stall cost no more segments" {
    as_few_segments whole 2000
}

@test "a reader that waits for a whole answer with MSG_WAITALL does not stall" {
    cured whole-of-nagle
    cured whole-message
}

@test "a reader that leaves data unread until it is complete waits at most for the shortest delayed ACK of the kernel" {
    local way
    python3 -c 'import socket; socket.socket().getsockopt(socket.IPPROTO_TCP, 46)' 2>/dev/null ||
        ns_skip "this kernel has no TCP_DELACK_MAX_US"
    for way in lowat-select lowat-poll peek fionread fionread-sleep; do
        cured "$way" 20000
    done
}

@test "a peer of an event loop that never blocks does not stall" {
    cured never-idle
}

@test "a forked child that reads the answer to its parent's request does not stall" {
    cured child-reads
}

@test "a reader that uses splice with SPLICE_F_NONBLOCK does not stall" {
    cured splice
}

@test "a reader whose waits the library cannot see does not stall, if it tries to read before it waits" {
    cured unseen-wait
}

@test "a reader whose waits the library cannot see does not stall, if it reads only when data is there" {
    cured unseen-poll
}

@test "a server that reads in two parts, or tries another read before it answers, sends no more segments" {
    as_few_segments looks-again 1000 1.1
    as_few_segments parts 1000 1.1
}

# The ACKs of the first 31 rounds are needless, too, but the library cannot know that yet.
@test "answers that take 20 ms cost no more segments once ACKs have proven needless" {
    as_few_segments slow-answers 200 1.2
    as_few_segments slow-server 200 1.2
}

@test "a peer with TCP_NODELAY gets no ACK for each of its writes, once a test has shown that it does not wait" {
    as_few_segments pieces 1000 1.06
}

@test "a stream keeps its full segments if it checks for input, flushes or polls for writability between its writes" {
    local pattern
    for pattern in looks-for-input flushes polls-for-room selects-for-room; do
        as_few_segments "$pattern" 1000 1.1
    done
}
