# SPDX-License-Identifier: MIT
# Promise: Programs that stream keep the full segments of Nagle's algorithm, which is made for writers that do not wait.
# The tests count segments; `make bench` measures run times. Loopback has its usual MTU, and autocorking is on, as by default.

load ../helpers/common

setup_file() {
    [[ $NS_ISOLATED == 0 ]] || ip link set lo mtu 65536
    [[ $NS_ISOLATED == 0 ]] || echo 1 >/proc/sys/net/ipv4/tcp_autocorking
}

teardown_file() {
    [[ $NS_ISOLATED == 0 ]] || ip link set lo mtu 1500
    [[ $NS_ISOLATED == 0 ]] || echo 0 >/proc/sys/net/ipv4/tcp_autocorking
}

# stream SIZE [HOW]: prints the segments of 20000 writes. The array "with" is put in front of the writer's command.
stream() {
    rm -f "$T/writer.log"
    timeout 60 "${timed[@]}" env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/writer.log" "${with[@]}" taskset -c "${cpus[1]}" \
        "$PROBES/bench_stream" writer 127.0.0.1 "$port" 20000 "$@" >"$T/writer.out" 2>"$T/writer.err" 3>&- || {
        cat "$T/writer.err" >&2
        return 1
    }
    field segments "$T/writer.out"
}

middle_of_five() {
    printf '%s\n' "$@" | sort -n | sed -n 3p
}

# compare SIZE: as few segments as without the library. Of one loop and the next they differ by half as much again, since what a
# writer in a loop sends depends on what its reader has read meanwhile. With TCP_NODELAY set by hand there are many times as many.
compare() {
    local with without=() by_hand=() ours=()
    ns_serve reader taskset -c "${cpus[0]}" "$PROBES/bench_stream" reader 0 65536
    for _ in {1..5}; do
        with=()
        without+=("$(stream "$1")")
        by_hand+=("$(stream "$1" nodelay)")
        [[ ! -e $T/writer.log ]]
        with=(LD_PRELOAD="$LIBRARY")
        ours+=("$(stream "$1")")
        grep -qE '\bsockets [1-9]' "$T/writer.log"
    done
    ns_stop reader
    holds "$(middle_of_five "${ours[@]}") <= 1.5 * $(middle_of_five "${without[@]}") &&
        $(middle_of_five "${by_hand[@]}") >= 1.5 * $(middle_of_five "${ours[@]}")" ||
        is_late 20 "${ours[*]} segments, ${without[*]} without the library, ${by_hand[*]} with TCP_NODELAY by hand"
}

# as_few_segments SIZE
as_few_segments() {
    local cpus
    ns_python
    # On a single CPU the reader does not read while the writer writes, so the queued bytes leave in large segments.
    read -ra cpus < <("$python" -c 'import os
print(*sorted(os.sched_getaffinity(0)))')
    [[ ${#cpus[@]} -ge 2 ]] || ns_skip 'there is only one CPU'
    in_time compare "$1"
}

@test "a loop of writes of 300, 600 or 4000 bytes leaves in as few segments as without the library" {
    local size
    for size in 300 600 4000; do
        as_few_segments "$size"
    done
}
