# SPDX-License-Identifier: MIT
# Promise: Whichever call of the library fails, from start-up to exit, the program works as usual.
# A second preloaded library (probes/calls/faults.so.c) makes calls of the library fail: the n-th call, or all calls from
# the n-th on. n is increased until the library makes fewer calls; FAULTS_ALL=1 tries every n.

load ../helpers/common

setup() {
    ns_setup
    cat >"$T/policy.json" <<'END'
{"version": 1, "rules": [
    {"match": {"process": "other"}, "send": "app"},
    {"name": "accepted", "match": {"process": ["fault*"], "local": "127.0.0.0/8", "role": "server"},
     "send": "auto-cork", "max_delay_us": 300,
     "sockopt": {"TCP_KEEPIDLE": {"set": 30}, "SO_KEEPALIVE": {"set": 1}}},
    {"name": "connected", "match": {"remote": "127.0.0.0/8"},
     "send": "auto-cork", "max_delay_us": 300, "sockopt": {"TCP_KEEPIDLE": {"max": 30}}}]}
END
}

# faulty CALL N [ON]: runs the program while the N-th such call fails, with ON also all later ones.
faulty() {
    rm -f "$T/failed"
    timeout 30 env LD_PRELOAD="$LIBRARY $PROBES/faults.so" NAGLESHIM_POLICY="$T/policy.json" NAGLESHIM_LOG=info \
        NAGLESHIM_LOG_FILE="$T/log" FAULT_CALL="$1" FAULT_AT="$2" FAULT_FILE="$T/failed" \
        ${3:+FAULT_ON=1} "$PROBES/faults" >"$T/out" 2>"$T/err" 3>&-
}

# goes_on MOST CALL...: the program works, whichever of these calls fails. Each call is made at least once and at most
# MOST times. The array ways: fail once, or from then on.
ways=('' on)
goes_on() {
    local most=$1 call n on status
    shift
    for call in "$@"; do
        for on in "${ways[@]}"; do
            n=1
            while status=0; faulty "$call" "$n" "$on" || status=$?; [[ -e $T/failed ]]; do
                [[ $status -eq 7 && $(<"$T/out") == 'done' ]] ||
                    wrong "$call, the $n-th ${on:+and all after}: exit status $status" "$T/out" "$T/err" || return
                if [[ -n ${FAULTS_ALL-} ]]; then n=$((n + 1)); else n=$((n + 1 + n / 2)); fi
                [[ $n -le $most ]] || wrong "$call is called more than $most times" || return
            done
            [[ $n -gt 1 ]] || wrong "$call is not called at all" || return
        done
    done
}

@test "the program of these tests gets its rule, and its bytes are held" {
    faulty nothing 1 || [[ $? -eq 7 ]]
    cat "$T/log"
    [[ $(<"$T/out") == 'done' ]]
    grep -qE ' sockets 2[0-9], .*bursts held [1-9][0-9]' "$T/log"
}

@test "the program works if the library cannot get memory, files or information about sockets" {
    goes_on 400 allocation mmap
    goes_on 20 openat read lseek readlinkat
    goes_on 80 getsockopt
}

# reports N [ON]: the program ends as usual, although its N-th call of setsockopt fails, and leaves its report in $T/log.
reports() {
    rm -f "$T/log"
    faulty setsockopt "$@" || [[ $? -eq 7 ]]
    cat "$T/log"
}

@test "the program works without a stall if the kernel refuses socket options" {
    ways=('') # if every later call fails, the program stalls for 40 ms each time, as without the library
    goes_on 400 setsockopt
    # A single failure does not stop the library for good.
    for n in 2 5 9; do
        reports "$n"
        grep -qE 'bursts held [1-9]' "$T/log"
    done
    # If the first call fails, no burst is held, because it could not be pushed.
    reports 1 on
    grep -qE 'bursts held 0,' "$T/log"
    # The same if the calls begin to fail later, after about twenty successful ones.
    reports 40 on
    holds "$(sed -nE 's/.*bursts held ([0-9]+).*/\1/p' "$T/log") < 30"
    # Only bursts that began while pushes still worked are held.
    echo '{"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": 300}]}' >"$T/policy.json"
    reports 20 on
    holds "$(sed -nE 's/.*bursts held ([0-9]+).*/\1/p' "$T/log") < 25"
}
