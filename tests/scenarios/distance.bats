#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Over a wire of 10 ms each way, a request takes its round trips and does not wait for a delayed ACK.
# shellcheck disable=SC2154 # $port: helpers/common.bash
# Two network namespaces are connected by a wire that takes 10 ms each way, with segments of an ordinary size.

load ../helpers/common

setup() {
    ns_setup
    ns_start line "$PROBES/delay_line" 10000
    ns_wait_for_tun line '^near '
    FAR=(nsenter --net="/proc/${NS_PID[line]}/ns/net")
}

# exchange: sends 15 POSTs in two writes to a server at the far end. The arrays on_server and on_client are the words in
# front of each command.
exchange() {
    rm -f "$T"/{server,client}.log
    ns_start server "${FAR[@]}" env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/server.log" \
        "${on_server[@]}" "$EXAMPLES/queue_server" 0
    ns_port server
    timeout 60 env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/client.log" "${on_client[@]}" \
        "$EXAMPLES/queue_put" --warmup 20 10.99.0.2 "$port" 15 >"$T/client.out" 2>"$T/client.err" 3>&- || {
        cat "$T"/{client,server}.err
        return 1
    }
    ns_join server
    # The library is exactly in the processes that were given it.
    [[ ${#on_server[@]} -eq 0 && ! -e $T/server.log ]] || grep -qE '\bsockets [1-9]' "$T/server.log"
    [[ ${#on_client[@]} -eq 0 && ! -e $T/client.log ]] || grep -qE '\bsockets [1-9]' "$T/client.log"
}

# post LEAST MOST: the median time of a POST is between LEAST and MOST milliseconds.
post() {
    local attempt median
    for attempt in 1 2 3 4 5; do
        exchange
        median=$(field median_us "$T/client.out")
        ! holds "$median > $1 * 1000 && $median < $2 * 1000" || return 0
        echo "attempt $attempt: $median us"
    done
    return 1
}

@test "10 ms away: without the shim, a POST in two writes takes a delayed ACK in addition to the round trips" {
    local on_server=() on_client=()
    post 55 90
}

@test "10 ms away: with the shim on the client only, a POST in two writes takes one round trip" {
    local on_server=() on_client=(LD_PRELOAD="$LIBRARY")
    post 20 28
}

@test "10 ms away: with the shim on the server only, a POST in two writes takes two round trips" {
    local on_server=(LD_PRELOAD="$LIBRARY") on_client=()
    post 40 48
}
