#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Held bytes and owed ACKs leave before any wait, by whichever call, and what nobody needs is not sent.
# What is owed at a wait, by calls that other tests pass by, and what the shim leaves undone because a
# connection's past says that nobody needs it: pushes, ACKs, holding at all. Counted, or asked of the kernel.

load ../helpers/common
load ../helpers/life

setup() {
    ns_setup
    ns_prompt
}

@test "a write that takes nothing leaves held bytes and owed ACKs to the wait" {
    settles '"send": "nodelay"' 200 life_debts refused
    settles '"send": "auto-cork"' 100000 life_debts refused
    misses life_debts refused
}

@test "splice from a socket owes an ACK, one that waits settles, and one with SPLICE_F_MORE is the program's own" {
    settles '"send": "nodelay"' 200 life_debts splices
    settles '"send": "auto-cork"' 100000 life_debts splices
    misses life_debts splices
}

@test "ACKs that an answer always carries are left out, until one is missed" {
    settles '"send": "nodelay"' 200 life_debts leaves-acks-out
    settles '"send": "auto-cork"' 100000 life_debts leaves-acks-out
    misses life_debts leaves-acks-out
}

@test "what a large write or sendfile takes along needs no push" {
    settles '"send": "auto-cork"' 100000 life_debts takes-along
    holds "$(counted 'bursts held') >= 19 && $(counted pushes) <= 5"
}

@test "a connection whose held bursts are late stops holding, and after three of them new connections do" {
    settles '"send": "auto-cork"' 200 life_debts late
    holds "$(counted 'stopped holding') == 3 && $(counted 'late pushes') >= 3"
}

# With moments in between that tests cannot wait for.
behind() {
    local LIBRARY="$LIBRARY $PROBES/behind.so"
    settles "$@"
}

@test "what a signal handler has held, and its thread after it, goes before the thread's next wait" {
    behind '"send": "auto-cork"' 100000 life_handlers push
    [[ $(field held "$T/out") -eq 3 ]]
    behind '"send": "auto-cork"' 100000 life_handlers burst
    [[ $(field held "$T/out") -eq 4 ]]
}

@test "what a push has left behind that a signal handler jumped out of goes before the next wait" {
    behind '"send": "auto-cork"' 100000 life_handlers abandoned
}

# mixed SINGLE PRELOAD: so many requests in one write, then one in two, ten times.
mixed() {
    ns_python
    ns_start server env LD_PRELOAD="$2" "$python" tests/systems/victims/mixed_traffic.py serve
    ns_port server
    "$python" tests/systems/victims/mixed_traffic.py ask "$port" "$1" 10 >"$T/mixed" 3>&-
    ns_join server
    cat "$T/mixed"
    late=$(field late "$T/mixed")
}

@test "what a connection has learnt of ACKs that nobody needed is wrong once in its life, and not before 32 of them" {
    local single most attempt late
    mixed 3 ''
    [[ $late -ge 8 ]]
    for single in 1 20 40 400; do
        most=$((single > 32))
        for attempt in 1 2 3; do
            mixed "$single" "$LIBRARY"
            [[ $late -gt $most ]] || break
        done
        [[ $late -le $most ]]
    done
}
