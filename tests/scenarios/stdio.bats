# SPDX-License-Identifier: MIT
# Promise: Programs that use their sockets through stdio, including servers of inetd, do not stall.
# stdio writes and reads inside libc. Each program is first run without the library. A round takes 44 ms if it stalls, and
# far less than 5 ms if not.

load ../helpers/common
load ../helpers/matrix
load ../helpers/rounds

# between CLIENT SERVER: sets the arguments of both programs.
between() {
    read -ra client <<<"$1"
    read -ra server <<<"$2"
}

# cured_on END CLIENT SERVER: the two stall without the library, and do not if END has it, under two policies.
cured_on() {
    between "$2" "$3"
    shim_on none stalls
    shim_on "$1" flows
    shim_on "$1" flows "$(auto_cork 200)"
}

@test "a client that writes with fprintf stalls without the library, and not with it" {
    cured_on client 'fprintf fgets 2' 'server write read 1'
    cured_on client 'fprintf read 2' 'server write read 1'
    cured_on client 'fprintf readall 1' 'server write read 2'
}

@test "a client that writes with dprintf stalls without the library, and not with it" {
    cured_on client 'dprintf fgets 2' 'server write read 1'
}

@test "a client built for large files that writes with pwritev2 or reads with preadv2 stalls without the library, and not with it" {
    nm -D "$PROBES/stdio_rounds" | grep -q pwritev64v2
    cured_on client 'pwritev2 read 2' 'server write read 1'
    cured_on client 'write preadv2 1' 'server write read 2'
}

@test "clients that write with fprintf or dprintf do not stall with the library on their server only" {
    between 'fprintf fgets 2' 'server write read 1'
    shim_on server flows
    between 'dprintf fgets 2' 'server write read 1'
    shim_on server flows
}

@test "a client that reads with stdio stalls without the library, and not with it; with getc alone it waits for a limited delayed ACK" {
    local reads
    for reads in fgets getline fread getc_unlocked; do
        between "write $reads 1" 'server write read 2'
        shim_on none stalls
        shim_on client flows
    done
    between 'write dup2-fgets 1' 'server write read 2'
    shim_on client flows
    between 'write getc 1' 'server write read 2'
    shim_on none stalls
    shim_on client late
    between 'fprintf fgets 2' 'server write read 2'
    shim_on client flows
}

@test "a client that reads answers in one piece with stdio gets no ACK for each" {
    local without
    between 'write fgets 1' 'server write read 1'
    shim_on none flows
    without=$(field segments_per_round "$T/client.out")
    shim_on client flows
    holds "$(field segments_per_round "$T/client.out") <= $without + 0.1"
}

@test "a server that reads with fgets from a stream of its connection stalls without the library, and not with it" {
    cured_on server 'write read 2' 'server fprintf fgets 2'
}

@test "writes to a connection that was given to fdopen are not held, because the waits of fgets are not seen" {
    between 'write fgets 2' 'server write read 1'
    shim_on none stalls
    shim_on client flows "$(auto_cork 100000)"
    holds "$(field segments_per_round "$T/client.out") > 1.9"
    # Without fdopen both writes are held and leave as one segment.
    between 'write read 2' 'server write read 1'
    shim_on client flows "$(auto_cork 100000)"
    holds "$(field segments_per_round "$T/client.out") < 1.1"
}

@test "writes to descriptor 1 are not held, because the waits of fgets on descriptor 0 are not seen" {
    between 'write read 1' 'inetd write fgets 2'
    shim_on none stalls
    shim_on server flows "$(auto_cork 100000)"
}

@test "a server of inetd that answers with printf on descriptor 1 stalls without the library, and not with it" {
    cured_on server 'write read 1' 'inetd fprintf fgets 2'
    cured_on server 'write read 1' 'inetd fprintf read 2'
}

@test "a server that inherits a connection and uses it only through stdio does not stall with the library" {
    cured_on server 'write read 1' 'parent fprintf fgets 2'
}

@test "a server that inherits a connection on descriptor 5 and calls only write and read does not stall with the library" {
    cured_on server 'write read 1' 'parent write read 2'
}

@test "a server of inetd that reads descriptor 0 with fgets does not stall with the library" {
    cured_on server 'write read 2' 'inetd fprintf fgets 1'
}
