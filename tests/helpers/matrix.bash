# SPDX-License-Identifier: MIT
# Runs a cell of the matrix: two programs, with the library and a policy in none, one or both of them. The limits are 20 ms and
# a quarter of that. A wrong byte, a failed program or a missing library is an error at once.

# Can this kernel limit a socket's delayed ACKs? TCP_DELACK_MAX_US is 46.
kernel_bounds_delayed_acks() {
    ns_python
    "$python" -c 'import socket
socket.socket().setsockopt(socket.IPPROTO_TCP, 46, 8000)' 2>/dev/null
}

# scenario NAME ROUNDS WARMUP: sets the commands server and client (PORT is replaced later), the writing end, the ends
# whose results have the stalls and the segments, and the rest of the rule.
scenario() {
    local name=$1 rounds=$2 warmup=$3
    # Half of the scenarios use IPv6 if there is any. A minimal system may have no localhost in /etc/hosts.
    local localhost=127.0.0.1
    ! grep -q '^0\{31\}1 ' /proc/net/if_inet6 2>/dev/null || localhost=::1
    writing=client
    stalls_by=client
    segments_by=client
    # With this limit no burst is late on a busy machine.
    rest='"max_delay_us": 100000'
    case $name in
    redhat)
        server=("$EXAMPLES/tcp_nodelay_server" 0 0)
        client=("$EXAMPLES/tcp_nodelay_client" --stats --warmup "$warmup" "$localhost" PORT "$rounds")
        ;;
    sendfile)
        server=("$EXAMPLES/sendfile_server" --warmup "$warmup" 0)
        client=("$EXAMPLES/sendfile_client" --warmup "$warmup" 127.0.0.1 PORT "$rounds")
        writing=server
        segments_by=server
        ;;
    record)
        server=("$EXAMPLES/record_receiver" --winsock-ack --warmup "$warmup" 0)
        client=("$EXAMPLES/record_sender" --sndbuf 0 --winsock-send --warmup "$warmup"
            127.0.0.1 PORT $((warmup + rounds)))
        rest+=', "sockopt": {"SO_SNDBUF": "ignore"}'
        ;;
    record-paced)
        server=("$EXAMPLES/record_receiver" --winsock-ack --warmup "$warmup" 0)
        client=("$EXAMPLES/record_sender" --pace 2000 --warmup "$warmup" 127.0.0.1 PORT
            $((warmup + rounds)))
        stalls_by=server
        ;;
    quote)
        server=("$EXAMPLES/quote_server" --winsock-ack 0)
        client=("$EXAMPLES/quote_client" --winsock-ack --warmup "$warmup" "$localhost" PORT "$rounds")
        ;;
    queue)
        server=("$EXAMPLES/queue_server" 0)
        client=("$EXAMPLES/queue_put" --warmup "$warmup" 127.0.0.1 PORT "$rounds")
        ;;
    *)
        echo "no such scenario: $name"
        return 1
        ;;
    esac
}

# put_shim WHERE: sets the environments on_server and on_client. The policy is set in any case, to show that the library makes
# the difference.
put_shim() {
    local end
    for end in server client; do
        local -n on=on_$end
        on=(NAGLESHIM_POLICY="$policy")
        if [[ $1 == both || ($1 == writing && $end == "$writing") || ($1 == other && $end != "$writing") ]]; then
            on+=(LD_PRELOAD="$LIBRARY")
        fi
    done
}

# run_both: runs the programs of the arrays server and client, which check every byte, with the environments on_server and
# on_client. In the client's words PORT is the server's port. Sets delayed to the number of delayed ACKs. An end that preloads
# the library must have treated sockets, and the other end must not have the library.
run_both() {
    local before end
    rm -f "$T"/{server,client}.{log,out,err}
    before=$(ns_delayed_acks)
    ns_serve server env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/server.log" "${on_server[@]}" "${server[@]}"
    timeout 60 "${timed[@]}" env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/client.log" "${on_client[@]}" "${client[@]/#PORT/$port}" \
        >"$T/client.out" 2>"$T/client.err" 3>&- || wrong "the client failed:" "$T"/*.err || return
    ns_join server || wrong "the server failed:" "$T/server.err" || return
    delayed=$(($(ns_delayed_acks) - before))
    for end in server client; do
        local -n on=on_$end
        if [[ ${on[*]-} == *PRELOAD=* ]]; then
            has_line "$T/$end.log" '\b(sockets|TCP_NODELAY set) [1-9]'
        else
            [[ ! -e $T/$end.log ]]
        fi ||
            wrong "the $end: the library is not where it should be, or treated no socket" "$T/$end.log" "$T/$end.err" || return
    done
}

# timing_is VERDICT ROUNDS: do the stalls, the median and the delayed ACKs agree with the verdict?
timing_is() {
    local rounds=$2 most least share=0.4
    stalls=$(field stalls "$T/$stalls_by.out")
    median=$(field median_us "$T/$stalls_by.out")
    if [[ $1 == flows ]]; then
        most=$(((rounds + warmup) / 4))
        # On a busy machine a round may take 20 ms without a delayed ACK.
        holds "$stalls <= 0.02 * $rounds && $median < 5000" && [[ $NS_ISOLATED == 0 || $delayed -le $most ]]
    else
        # In some scenarios only every second round stalls; of the paced records, many wait for one ACK.
        least=$stalls
        [[ $name != record-paced ]] || least=1
        [[ $name != record* ]] || share=0.2
        # On a busy machine a round may be late without a delayed ACK.
        holds "$stalls >= $share * $rounds" &&
            { [[ $NS_ISOLATED == 0 ]] || holds "$delayed >= 0.8 * $least"; }
    fi
}

segments_are() {
    local seen
    segments=$(field segments_per_round "$T/$segments_by.out")
    [[ $1 == - ]] && return 0
    seen=${segments:-none}
    [[ $seen != none ]] && holds "$seen > 0.95 * $1 && $seen < 1.05 * $1"
}

# run_cell: runs it once.
run_cell() {
    scenario "$name" "$rounds" "$warmup"
    server=("${pin[@]}" "${server[@]}") client=("${pin[@]}" "${client[@]}")
    [[ -z ${send-} ]] ||
        policy="{\"version\": 1, \"rules\": [
            {\"send\": \"$send\", \"ack\": \"$ack\", $rest}]}"
    put_shim "$where"
    run_both
    echo "policy: $policy"
    if ! timing_is "$verdict" "$rounds"; then
        if [[ $name == record-paced && $verdict == flows ]]; then
            # A record comes every 2 ms: an interruption makes as many late as come while it is longer than 20 ms, or 5 for the median.
            is_late "20 + 2 * $stalls + ($median >= 5000) * $rounds" "expected: flows; $stalls of $rounds records are late, median $median us" \
                "$delayed" "$(((rounds + warmup) / 4))"
        else
            not_as_expected "$verdict" "$rounds"
        fi
    elif ! segments_are "$expected"; then
        # A segment more or less is a write that was interrupted. Where rounds should stall, delayed ACKs are no proof.
        [[ $verdict == flows ]] || delayed=0
        is_late "0.5 * $rounds * (${segments:-0} > $expected ? ${segments:-0} - $expected : $expected - ${segments:-0})" \
            "expected: $expected segments a round; ${segments:-unknown}" "$delayed" "$((rounds / 4))"
    fi
}

# outcome SCENARIO WHERE VERDICT SEGMENTS: runs it with the policy in $policy or, if $send is set, with $send and $ack.
outcome() {
    local name=$1 where=$2 verdict=$3 expected=$4
    local rounds=200 warmup=20 stalls median segments delayed writing stalls_by segments_by rest
    local server client on_server on_client

    # A new connection acknowledges at once for some rounds. If each round takes 44 ms, a short warm-up must do.
    if [[ $verdict != flows ]]; then
        rounds=12
        warmup=4
    fi
    # Of the records, a third stalls, as chance has it.
    [[ $name != record || $verdict == flows ]] || rounds=40
    [[ $name != record-paced ]] || rounds=100
    # After an interruption of 8 ms, adaptive holds less of the next 32 long bursts. On one CPU neither end interrupts the other.
    [[ $name,${send-},$3/$4 != redhat,adaptive,flows/2 ]] || local pin=(taskset -c 0)
    in_time run_cell
}

# cell SCENARIO SEND ACK WHERE VERDICT SEGMENTS
cell() {
    local policy='{"version": 1, "rules": [{}]}' send=${2#-} ack=$3
    outcome "$1" "$4" "$5" "$6"
}

# flow SCENARIO WHERE SEGMENTS: does not stall with the policy in $policy, or in files.
flow() {
    outcome "$1" "$2" flows "$3"
}

# stalled SCENARIO WHERE: the opposite.
stalled() {
    outcome "$1" "$2" stalls -
}
