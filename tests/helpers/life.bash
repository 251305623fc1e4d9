# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # $T, $PROBES, $LIBRARY: helpers/common.bash
# One run of a probe about the life of sockets (probes/life.h) under a rule, and the shim's counts of it.

# settles RULE DELAY_US PROGRAM SCENARIO: nothing is wrong, and nothing late; a busy machine may be late too, so
# that is tried again. RULE: the keys of the rule except max_delay_us.
settles() {
    local limit
    for limit in 20 40 80; do
        rm -f "$T/log"
        LIFE_LIMIT_MS=$limit timeout -s KILL 25 env LD_PRELOAD="$LIBRARY" \
            NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/log" \
            NAGLESHIM_POLICY="{\"version\": 1, \"rules\": [{$1, \"max_delay_us\": $2}]}" \
            "$PROBES/$3" "$4" >"$T/out" || {
            cat "$T/out"
            return 1
        }
        grep -qE 'sockets [1-9]' "$T/log"
        [[ $(field late "$T/out") -ne 0 ]] || return 0
    done
    cat "$T/out"
    return 1
}

# misses PROGRAM SCENARIO: without the shim the program itself says that what it looks for is missing.
misses() {
    run -1 timeout -s KILL 25 "$PROBES/$1" "$2"
    [[ $output == *'not true'* ]]
}

# counted "late pushes": that count of the shim's at its exit.
counted() {
    sed -nE "s/.*, $1 ([0-9]+).*/\1/p" "$T/log"
}
