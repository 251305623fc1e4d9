# SPDX-License-Identifier: MIT
# Runs scenarios of probes/life without the library and with it, at the same time, because they mostly wait.

CORK='{"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": 100000}]}'

# start_life RUN LIMIT_MS VARIABLE=VALUE...: starts the scenario, which runs before others if in_time permits it; bytes that take
# longer than LIMIT_MS are late. The ACKs of the run without the library are not counted.
start_life() {
    # shellcheck disable=SC2206 # NS_UNDER: the words of a command that runs them, as valgrind does
    local under=(${NS_UNDER-}) apart=()
    [[ $1 != plain || $NS_ISOLATED == 0 ]] || apart=(unshare --net sh -c 'ip link set lo mtu 1500 up && cd /proc/sys/net/ipv4 &&
        echo 0 >tcp_autocorking && echo "$0" >tcp_fastopen && cd "$OLDPWD" && exec "$@"' "$(</proc/sys/net/ipv4/tcp_fastopen)")
    ns_start "$1" "${timed[@]:0:1}" "${apart[@]}" env LIFE_LIMIT_MS="$2" "${@:3}" "${under[@]}" "$PROBES/life" "$scenario"
}

# all_runs LIMIT_MS: nothing may be wrong without the library, or with it under each of the policies, and nothing late with it.
all_runs() {
    local run with status number=0 before
    before=$(ns_delayed_acks)
    start_life plain 1000
    for run in "${!policies[@]}"; do
        with=(LD_PRELOAD="$LIBRARY")
        [[ -z ${policies[run]} ]] || with+=(NAGLESHIM_POLICY="${policies[run]}" LIFE_HOLDS=kernel)
        start_life "$run" "$1" "${with[@]}"
    done
    for run in plain "${!policies[@]}"; do
        status=0
        ns_join "$run" "${LIFE_SECONDS:-25}" || status=$?
        # A child's results count, too.
        ((status == 0)) && grep -q '^held .* wrong 0$' "$T/$run.out" ||
            wrong "$scenario, $run ${policies[run]-}: exit status $status" "$T/$run.out" "$T/$run.err" || return
        [[ $run == plain ]] || number=$((number + $(field late "$T/$run.out")))
    done
    [[ $number -eq 0 ]] || is_late "$1 * $number" "$scenario: $number bytes were later than $1 ms" "$(($(ns_delayed_acks) - before))" 0
}

# keeps SCENARIO [POLICY]...: nothing is wrong, and nothing is late with the library ('' is the built-in policy). Bytes that wait
# for a delayed ACK are 40 ms late, and bytes that the kernel had to send 200 ms.
keeps() {
    local scenario=$1 policies=("${@:2}")
    [[ $# -gt 1 ]] || policies=('' "$CORK")
    in_time all_runs "${LIFE_LIMIT:-20}"
}
