#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Over a wire of 10 ms each way a request takes what the distance takes, and waits for no delayed ACK as well.
# shellcheck disable=SC2154 # $port: helpers/common.bash
# Two hosts with a wire between them that takes 10 ms each way, and segments of an ordinary size: what a
# delayed ACK adds to the distance, and that the shim takes away what is not distance.

load ../helpers/common

setup() {
    ns_setup
    DELAY=10000
    ns_start line "$PROBES/delay_line" "$DELAY"
    ns_wait_for_tun line '^near '
    FAR=(nsenter --net="/proc/${NS_PID[line]}/ns/net")
}

# exchange SERVER CLIENT [ARGUMENT]...: SERVER at the far end, both after what is in on_server and on_client.
exchange() {
    rm -f "$T"/{server,client}.log
    ns_start server "${FAR[@]}" env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/server.log" \
        "${on_server[@]}" "$EXAMPLES/$1" "${server_options[@]}" 0
    ns_port server
    timeout 60 env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/client.log" "${on_client[@]}" \
        "$EXAMPLES/$2" "${@:3:$#-3}" 10.99.0.2 "$port" "${@: -1}" >"$T/client.out" 2>"$T/client.err" 3>&- || {
        cat "$T"/{client,server}.err
        return 1
    }
    ns_join server
    cat "$T/client.out"
    # The shim is where it was asked for, and nowhere else.
    [[ ${#on_server[@]} -eq 0 && ! -e $T/server.log ]] || grep -qE '\bsockets [1-9]' "$T/server.log"
    [[ ${#on_client[@]} -eq 0 && ! -e $T/client.log ]] || grep -qE '\bsockets [1-9]' "$T/client.log"
}

# post LEAST MOST: the median of POSTs in two writes, in milliseconds.
post() {
    local attempt server_options=()
    for attempt in 1 2 3 4 5; do
        exchange queue_server queue_put --warmup 20 15
        median=$(field median_us "$T/client.out")
        ! holds "$median > $1 * 1000 && $median < $2 * 1000" || return 0
        echo "attempt $attempt: $median us"
    done
    return 1
}

# Both ends of the wire: it is the same counter, of segments sent again or out of order.
disorder() {
    local name=$1
    {
        cat /proc/net/netstat /proc/net/snmp
        "${FAR[@]}" cat /proc/net/netstat /proc/net/snmp
    } | awk -v name="$name" '{ for (i = 2; i <= NF; i++) if (at[$1, i] == name) { sum += $i; seen++ } }
        { for (i = 2; i <= NF; i++) at[$1, i] = $i } END { if (seen != 2) exit 1; print sum + 0 }'
}

@test "the delay line: a round trip over a wire of 10 ms takes 20 ms" {
    local attempt on_server=() on_client=() server_options=()
    for attempt in 1 2 3 4 5; do
        # One write and one answer: nothing but the distance.
        exchange queue_server queue_put --get --nodelay --warmup 2 15
        median=$(field median_us "$T/client.out")
        # Never less; more where the machine is busy.
        holds "$median >= 2 * $DELAY"
        ! holds "$median < 2 * $DELAY + 1000" || break
        echo "attempt $attempt: $median us"
    done
    holds "$median < 2 * $DELAY + 1000"
}

# What has come out of order, or once more, so far.
disorders() {
    echo "$(disorder TCPOFOQueue) $(disorder TCPLostRetransmit) $(disorder TCPFastRetrans)"
}

@test "the delay line: loses nothing and keeps the order" {
    local attempt before on_server=() on_client=() server_options=()
    # A machine that is too busy to empty the line's queue loses what does not fit.
    for attempt in 1 2 3; do
        before=$(disorders)
        exchange record_receiver record_sender 10000
        [[ $(disorders) != "$before" ]] || break
        echo "attempt $attempt: $(disorders), $before before"
    done
    [[ $(disorders) == "$before" ]]
    ns_stop line
    cat "$T/line.out"
    [[ $(field carried "$T/line.out") -gt 300 ]]
}

@test "10 ms away: a POST in two writes waits for a delayed ACK on top of the distance without the shim" {
    local on_server=() on_client=()
    post 55 90
}

@test "10 ms away: a POST in two writes takes one round trip with the shim on the client alone" {
    local on_server=() on_client=(LD_PRELOAD="$LIBRARY")
    post 20 28
}

@test "10 ms away: a POST in two writes takes two round trips with the shim on the server alone" {
    local on_server=(LD_PRELOAD="$LIBRARY") on_client=()
    post 40 48
}
