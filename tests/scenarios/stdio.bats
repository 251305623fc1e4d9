#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Programs that talk through stdio, from fprintf to a server of inetd's, flow or wait for a bounded ACK at most.
# Programs that write to and read from sockets with stdio, which does both inside libc: what the shim cures
# there, and what it does not. Each with its control, and by the time of a round: 44 ms where it stalls, 8 ms
# where the kernel's own delayed ACK is bounded (TCP_DELACK_MAX_US), far below 5 ms where nobody waits.

load ../helpers/common
load ../helpers/matrix

# One run: each end has the library or not; the counts are of the client.
run_once() {
    local rounds=$1 before port
    rm -f "$T"/*.{out,err,log}
    before=$(ns_delayed_acks)
    ns_start server env "${on_server[@]}" NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/server.log" \
        "$PROBES/stdio_rounds" "${server[@]}" 0
    ns_port server
    timeout 20 env "${on_client[@]}" NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/client.log" \
        "$PROBES/stdio_rounds" client "${client[@]}" --warmup "$warmup" 127.0.0.1 "$port" "$rounds" \
        >"$T/client.out" 2>"$T/client.err" 3>&- || {
        cat "$T/client.err"
        return 1
    }
    ns_join server
    delayed=$(($(ns_delayed_acks) - before))
    stalls=$(field stalls "$T/client.out")
    median=$(field median_us "$T/client.out")
}

# The library treated the sockets of the end that has it, and is not in the other.
check_library() {
    local end wanted
    for end in server client; do
        wanted="on_${end}[@]"
        if [[ "${!wanted-}" == *PRELOAD* ]]; then
            grep -qE '\bsockets [1-9]' "$T/$end.log"
        else
            [[ ! -e $T/$end.log ]]
        fi || {
            echo "the $end: the library is not where it should be, or treated no socket"
            return 1
        }
    done
}

# rounds_are VERDICT: of what the arrays server, client, on_server and on_client say.
rounds_are() {
    local verdict=$1 attempt rounds=100 warmup=20 stalls median delayed
    if [[ $verdict != flows ]]; then
        rounds=20
        warmup=4
    fi
    if [[ $verdict == late ]] && ! kernel_bounds_delayed_acks; then
        verdict=stalls
    fi
    for attempt in 1 2 3 4 5; do
        run_once "$rounds"
        check_library
        case $verdict in
        flows) [[ $stalls -ne 0 ]] || holds "$median >= 5000" || return 0 ;;
        late) [[ $stalls -gt 1 ]] || holds "$median < 5000 || $median > 20000" || return 0 ;;
        stalls)
            if holds "$stalls >= 0.8 * $rounds" &&
                [[ $NS_ISOLATED == 0 || $delayed -ge $rounds ]]; then
                return 0
            fi
            ;;
        esac
        echo "attempt $attempt: $stalls of $rounds stall, median $median us, $delayed delayed ACKs"
    done
    echo "expected: $verdict"
    return 1
}

auto_cork() {
    printf 'NAGLESHIM_POLICY={"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": %d}]}' "$1"
}

# shim_on END VERDICT [POLICY]: of the two ends only this one has the library; END is none, too.
shim_on() {
    local preload=LD_PRELOAD
    # The server itself, not what makes its connection.
    [[ $1 == client || ${server[0]} == server ]] || preload=INETD_PRELOAD
    on_server=() on_client=()
    case $1 in
    server) on_server=("$preload=$LIBRARY" "${@:3}") ;;
    client) on_client=("$preload=$LIBRARY" "${@:3}") ;;
    esac
    rounds_are "$2"
}

# cured_on END: the two stall without the library, and flow if END has it, under two policies.
cured_on() {
    shim_on none stalls
    shim_on "$1" flows
    shim_on "$1" flows "$(auto_cork 200)"
}

@test "a client that writes with fprintf stalls without the shim, and flows with it" {
    server=(server write read 1)
    client=(fprintf fgets 2)
    cured_on client
}

@test "a client that writes with dprintf stalls without the shim, and flows with it" {
    server=(server write read 1)
    client=(dprintf fgets 2)
    cured_on client
}

@test "clients that write with fprintf or dprintf flow with the shim on their server alone" {
    server=(server write read 1)
    client=(fprintf fgets 2)
    shim_on server flows
    client=(dprintf fgets 2)
    shim_on server flows
}

@test "a client that reads with fgets: a peer that stalls on it is late by the bounded delayed ACK" {
    server=(server write read 2)
    client=(write fgets 1)
    shim_on none stalls
    shim_on client late
    # The control of the control: with read the same client does not leave it waiting.
    client=(write read 1)
    shim_on client flows
}

@test "what a connection given to fdopen writes is not held: nobody sees its fgets wait" {
    server=(server write read 1)
    client=(write fgets 2)
    shim_on none stalls
    shim_on client flows "$(auto_cork 100000)"
    holds "$(field segments_per_round "$T/client.out") > 1.9"
    # Without fdopen the two are held, and are one segment.
    client=(write read 2)
    shim_on client flows "$(auto_cork 100000)"
    holds "$(field segments_per_round "$T/client.out") < 1.1"
}

@test "nothing is held on 1, since nobody sees an fgets on 0 wait" {
    server=(inetd write fgets 2)
    client=(write read 1)
    shim_on none stalls
    shim_on server flows "$(auto_cork 100000)"
}

@test "a server of inetd's that answers with printf on 1 stalls without the shim, and flows with it" {
    server=(inetd fprintf fgets 2)
    client=(write read 1)
    cured_on server
}

@test "a server that its parent gave a connection, and that uses it by stdio alone, flows with the shim" {
    server=(parent fprintf fgets 2)
    client=(write read 1)
    cured_on server
}

@test "a server of inetd's that reads 0 with fgets: a client that stalls on it is late by the bounded ACK" {
    server=(inetd fprintf fgets 1)
    client=(write read 2)
    shim_on none stalls
    shim_on server late
    shim_on server late "$(auto_cork 200)"
    server=(inetd write read 1)
    shim_on server flows "$(auto_cork 200)"
}
