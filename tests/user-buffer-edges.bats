#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# "buffer": "user" where bytes cannot leave at once, because both buffers are full and the peer takes nothing, and
# where a descriptor begins a new life. As its control each runs with the kernel's buffer, too, where nothing may
# lie in the program's memory and everything else must be the same.

bats_require_minimum_version 1.5.0
load helpers/common
load helpers/life

setup() {
    ns_setup
}

teardown() {
    ns_teardown
}

# gathers SCENARIO [full]: full: the deadline is nobody's concern, and nobody looks whether anything was gathered.
gathers() {
    local rule='"send": "auto-cork", "buffer"' delay_us=100000
    [[ -z ${2-} ]] || delay_us=20000
    settles "$rule: \"kernel\"" 200 gather_edges "$1"
    [[ $(field in_memory "$T/out") -eq 0 ]]
    settles "$rule: \"user\"" "$delay_us" gather_edges "$1"
    [[ -n ${2-} || $(field in_memory "$T/out") -gt 0 ]]
    holds "$(counted 'bursts held' | head -n 1) > 0"
}

@test "after io_uring_setup no later connection gathers either, nor after io_setup" {
    gathers stops
    gathers stops-for-aio
}

@test "a descriptor by whose duplicate was written never gathers again" {
    gathers duplicated
}

@test "a reset that nobody asked about is not told on the next connection of that number" {
    gathers new-life
}

@test "what leaves with a splice does not wait for the pipe" {
    gathers splice-waits
}

@test "a write that blocks on a full socket sends what other connections hold" {
    gathers blocks
}

@test "close of a full socket: no wait but for SO_LINGER, nothing lost but by SO_LINGER 0, nobody kept waiting" {
    gathers closes full
}

@test "after shutdown of a full socket a write has EPIPE and SIGPIPE" {
    gathers shuts full
}

@test "a process that ends before the peer of its full socket takes anything loses nothing" {
    gathers exits full
}
