#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Programs that talk through stdio, from fprintf to a server of inetd's, flow.
# Programs that write to and read from sockets with stdio, which does both inside libc. Each with its control, and by
# the time of a round: 44 ms where it stalls, far below 5 ms where nobody waits.

load ../helpers/common
load ../helpers/matrix
load ../helpers/rounds

# between CLIENT SERVER: who talks from now on, their first words.
between() {
    read -ra client <<<"$1"
    read -ra server <<<"$2"
}

# cured_on END CLIENT SERVER: the two stall without the library, and flow if END has it, under two policies.
cured_on() {
    between "$2" "$3"
    shim_on none stalls
    shim_on "$1" flows
    shim_on "$1" flows "$(auto_cork 200)"
}

@test "a client that writes with fprintf stalls without the shim, and flows with it" {
    cured_on client 'fprintf fgets 2' 'server write read 1'
    cured_on client 'fprintf read 2' 'server write read 1'
}

@test "a client that writes with dprintf stalls without the shim, and flows with it" {
    cured_on client 'dprintf fgets 2' 'server write read 1'
}

@test "clients that write with fprintf or dprintf flow with the shim on their server alone" {
    between 'fprintf fgets 2' 'server write read 1'
    shim_on server flows
    between 'dprintf fgets 2' 'server write read 1'
    shim_on server flows
}

@test "a client that reads with fgets, getline, fread or getc stalls without the shim, and flows with it" {
    local reads
    for reads in fgets getline fread getc; do
        between "write $reads 1" 'server write read 2'
        shim_on none stalls
        shim_on client flows
    done
    between 'fprintf fgets 2' 'server write read 2'
    shim_on client flows
}

@test "a server that reads with fgets from a stream of its connection stalls without the shim, and flows with it" {
    cured_on server 'write read 2' 'server fprintf fgets 2'
}

@test "what a connection given to fdopen writes is not held: nobody sees its fgets wait" {
    between 'write fgets 2' 'server write read 1'
    shim_on none stalls
    shim_on client flows "$(auto_cork 100000)"
    holds "$(field segments_per_round "$T/client.out") > 1.9"
    # Without fdopen the two are held, and are one segment.
    between 'write read 2' 'server write read 1'
    shim_on client flows "$(auto_cork 100000)"
    holds "$(field segments_per_round "$T/client.out") < 1.1"
}

@test "nothing is held on 1, since nobody sees an fgets on 0 wait" {
    between 'write read 1' 'inetd write fgets 2'
    shim_on none stalls
    shim_on server flows "$(auto_cork 100000)"
}

@test "a server of inetd's that answers with printf on 1 stalls without the shim, and flows with it" {
    cured_on server 'write read 1' 'inetd fprintf fgets 2'
    cured_on server 'write read 1' 'inetd fprintf read 2'
}

@test "a server that its parent gave a connection, and that uses it by stdio alone, flows with the shim" {
    cured_on server 'write read 1' 'parent fprintf fgets 2'
}

@test "a server of inetd's that reads 0 with fgets flows with the shim" {
    cured_on server 'write read 2' 'inetd fprintf fgets 1'
}
