# SPDX-License-Identifier: MIT
# Runs scenarios of probes/life without the library and with it, at the same time, because they mostly wait.

CORK='{"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": 100000}]}'

# start_life RUN LIMIT_MS VARIABLE=VALUE...: starts the scenario; bytes that take longer than LIMIT_MS are late.
start_life() {
    # shellcheck disable=SC2206 # NS_UNDER: the words of a command that runs them, as valgrind does
    local under=(${NS_UNDER-})
    ns_start "$1" env LIFE_LIMIT_MS="$2" "${@:3}" "${under[@]}" "$PROBES/life" "$scenario"
}

# all_runs LIMIT_MS: nothing may be wrong without the library, or with it under each of the policies. Sets late to the number
# of bytes that were late with it.
all_runs() {
    local run with status
    start_life plain 1000
    for run in "${!policies[@]}"; do
        with=(LD_PRELOAD="$LIBRARY")
        [[ -z ${policies[run]} ]] || with+=(NAGLESHIM_POLICY="${policies[run]}" LIFE_HOLDS=kernel)
        start_life "$run" "$1" "${with[@]}"
    done
    late=0
    for run in plain "${!policies[@]}"; do
        status=0
        ns_join "$run" "${LIFE_SECONDS:-25}" || status=$?
        # A child's results count, too.
        ((status == 0)) && grep -q '^held .* wrong 0$' "$T/$run.out" ||
            wrong "$scenario, $run ${policies[run]-}: exit status $status" "$T/$run.out" "$T/$run.err" || return
        [[ $run == plain ]] || late=$((late + $(field late "$T/$run.out")))
    done
}

# keeps SCENARIO [POLICY]...: nothing is wrong, and nothing is late with the library ('' is the built-in policy). A late run is
# repeated with a limit of 30 ms. Bytes that wait for a delayed ACK are 40 ms late, and bytes that the kernel had to send 200 ms.
keeps() {
    local scenario=$1 limit late policies=("${@:2}")
    [[ $# -gt 1 ]] || policies=('' "$CORK")
    for limit in ${LIFE_LIMITS:-20 30 30 30 30 30}; do
        all_runs "$limit" || return 1
        ((late > 0)) || return 0
    done
    wrong "bytes were late:" "$T"/*.out
}
