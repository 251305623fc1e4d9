# SPDX-License-Identifier: MIT
# Promise: Programs that stream keep the full segments of Nagle's algorithm, and a server that is never idle answers in time.
# Nagle's algorithm is made for writers that do not wait. A server whose waits never block must still push. The tests count
# segments and rounds; `make bench` measures run times. Loopback has its usual MTU, and autocorking is on, as by default.

load ../helpers/common

setup_file() {
    [[ $NS_ISOLATED == 0 ]] || ip link set lo mtu 65536
    [[ $NS_ISOLATED == 0 ]] || echo 1 >/proc/sys/net/ipv4/tcp_autocorking
}

teardown_file() {
    [[ $NS_ISOLATED == 0 ]] || ip link set lo mtu 1500
    [[ $NS_ISOLATED == 0 ]] || echo 0 >/proc/sys/net/ipv4/tcp_autocorking
}

# Sets cpus to the CPUs that these tests may use, at least two. On a single CPU the reader does not read while the writer
# writes, so the queued bytes leave in large segments, however they are written.
two_cpus() {
    ns_python
    read -ra cpus < <("$python" -c 'import os
print(*sorted(os.sched_getaffinity(0)))')
    [[ ${#cpus[@]} -ge 2 ]] || ns_skip 'there is only one CPU'
}

# stream SIZE [HOW]: prints the segments of 20000 writes. The array "with" is put in front of the writer's command.
stream() {
    rm -f "$T/writer.log"
    timeout 60 env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/writer.log" "${with[@]}" taskset -c "${cpus[1]}" \
        "$PROBES/bench_stream" writer 127.0.0.1 "$port" 20000 "$@" >"$T/writer.out" 2>"$T/writer.err" 3>&- || {
        cat "$T/writer.err" >&2
        return 1
    }
    field segments "$T/writer.out"
}

middle_of_three() {
    printf '%s\n' "$@" | sort -n | sed -n 2p
}

# as_few_segments SIZE: as few segments as without the library. With TCP_NODELAY set by hand there are many times as many.
as_few_segments() {
    local with cpus attempt without by_hand ours
    two_cpus
    ns_serve reader taskset -c "${cpus[0]}" "$PROBES/bench_stream" reader 0 65536
    for attempt in 1 2 3 4 5; do
        without=()
        by_hand=()
        ours=()
        for _ in 1 2 3; do
            with=()
            without+=("$(stream "$1")")
            by_hand+=("$(stream "$1" nodelay)")
            [[ ! -e $T/writer.log ]]
            with=(LD_PRELOAD="$LIBRARY")
            ours+=("$(stream "$1")")
            grep -qE '\bsockets [1-9]' "$T/writer.log"
        done
        if holds "$(middle_of_three "${ours[@]}") <= 1.3 * $(middle_of_three "${without[@]}") &&
            $(middle_of_three "${by_hand[@]}") >= 1.2 * $(middle_of_three "${ours[@]}")"; then
            return 0
        fi
        echo "attempt $attempt: ${ours[*]} segments, ${without[*]} without the library," \
            "${by_hand[*]} with TCP_NODELAY by hand"
    done
    return 1
}

@test "a loop of writes of 300, 600 or 4000 bytes leaves in as few segments as without the library" {
    local size
    for size in 300 600 4000; do
        as_few_segments "$size"
        ns_stop reader
    done
}

# saturated PIECES CLIENTS ROUNDS: sets stalls, and late to the 90th percentile of the rounds in us. The array "with" is put
# in front of the server's command.
saturated() {
    ns_serve server "${with[@]}" "$PROBES/bench_saturated" server 0 "$1"
    timeout 60 "$PROBES/bench_saturated" client 127.0.0.1 "$port" "$@" >"$T/client.out" 2>"$T/client.err" 3>&- ||
        wrong "it failed:" "$T/client.err" "$T/server.err" || return
    shimmed=0
    mapped server || shimmed=$?
    [[ $shimmed -eq $((${#with[@]} == 0)) ]]
    ns_stop server
    late=$(field p90_us "$T/client.out")
    stalls=$(field stalls "$T/client.out")
}

# no_late_round PIECES: no round is late with two or eight clients. Without the library the answers wait for the client's
# delayed ACK.
no_late_round() {
    local with=() attempt clients late stalls shimmed
    saturated "$1" 2 20
    holds "$stalls >= 10"
    for clients in 2 8; do
        with=(env LD_PRELOAD="$LIBRARY")
        for attempt in 1 2 3; do
            saturated "$1" "$clients" 5000
            ! holds "$late <= 5000" || continue 2
            echo "attempt $attempt, $clients clients: one round of ten took over $late us, and $stalls stalled"
        done
        return 1
    done
}

@test "a server that is never idle sends no late answers, in two, five or twenty writes" {
    local pieces
    for pieces in 2 5 20; do
        no_late_round "$pieces"
    done
}
