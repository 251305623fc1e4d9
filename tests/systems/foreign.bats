#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: A peer with another TCP stack, which acknowledges after 250 ms, no longer slows down a Linux program.
# shellcheck disable=SC2154 # $port: helpers/common.bash
# Debian's lwIP behind a TUN device. It delays each ACK until its timer ticks, every 250 ms. Linux would retransmit a
# request after 200 ms, so the route gets the minimum retransmission time of Windows: 300 ms.

load ../helpers/common

setup() {
    ns_setup
    ROUNDS=8
}

start_lwip() {
    ns_start server build/lwip/quote_server
    ns_wait_for_tun server ' acknowledges after 250 ms$'
    ip route replace 10.98.0.2/32 dev lwip rto_min 300ms
    ns_port server
}

# quotes ROUNDS [COMMAND]...: requests quotes on one connection; they arrive on another.
quotes() {
    timeout 60 env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/client.log" "${@:2}" \
        "$EXAMPLES/quote_client" --warmup 4 10.98.0.2 "$port" "$1" >"$T/client.out" 2>"$T/client.err" 3>&- || {
        cat "$T/client.err" "$T/server.err"
        return 1
    }
    cat "$T/client.out"
    stalls=$(field stalls "$T/client.out")
    median=$(field median_us "$T/client.out")
    segments=$(field segments "$T/client.out")
}

# Each request waits for the ACK of the previous one, and is sent once.
stalled_by_lwip() {
    [[ $stalls -eq $ROUNDS && $segments -eq $ROUNDS ]]
    holds "$median > 200000 && $median < 300000"
}

# quotes_flow [POLICY]: no quote stalls with the library on the client.
quotes_flow() {
    local attempt
    for attempt in 1 2 3 4 5; do
        quotes 100 LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY="${1-}"
        grep -qE '\bsockets 2\b' "$T/client.log"
        [[ $stalls -ne 0 ]] || holds "$median >= 5000" || return 0
        echo "attempt $attempt: $stalls stalls, median $median us"
    done
    return 1
}

@test "without the library, or if it leaves the sending side alone, lwIP's delayed ACKs allow four quotes a second" {
    start_lwip
    quotes "$ROUNDS"
    stalled_by_lwip
    [[ ! -e $T/client.log ]]
    quotes "$ROUNDS" LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY='{"version": 1, "rules": [{"send": "app"}]}'
    grep -qE '\bsockets 2\b' "$T/client.log"
    stalled_by_lwip
}

@test "with the library on the Linux client only, quotes over two connections no longer stall, in every mode" {
    local mode policy
    start_lwip
    quotes_flow
    tests/modes >"$T/modes"
    [[ -s $T/modes ]]
    while IFS='|' read -r mode policy; do
        echo "$mode"
        rm -f "$T/client.log"
        quotes_flow "$policy"
    done <"$T/modes"
}
