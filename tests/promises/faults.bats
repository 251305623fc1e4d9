#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Whatever call the system refuses the shim, from start-up to exit, the program works as if nothing were the matter.
# What the shim calls fails, one call after the other, from start-up to exit: the n-th one, or all from the n-th
# on. The program works as if nothing were the matter: its bytes, its output, its exit status. A library behind
# the shim does it (probes/calls/faults.so.c). n goes on until that many calls are not made any more; FAULTS_ALL=1
# leaves none out.

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

# faulty CALL N [ON]: the program, while the N-th such call fails.
faulty() {
    rm -f "$T/failed"
    timeout 30 env LD_PRELOAD="$LIBRARY $PROBES/faults.so" NAGLESHIM_POLICY="$T/policy.json" NAGLESHIM_LOG=info \
        NAGLESHIM_LOG_FILE="$T/log" FAULT_CALL="$1" FAULT_AT="$2" FAULT_FILE="$T/failed" \
        ${3:+FAULT_ON=1} "$PROBES/faults" >"$T/out" 2>"$T/err" 3>&-
}

# goes_on MOST CALL...: whichever of these calls fails; each is made, but MOST times at most. ways: once, or on.
ways=('' on)
goes_on() {
    local most=$1 call n on status
    shift
    for call in "$@"; do
        for on in "${ways[@]}"; do
            n=1
            while status=0; faulty "$call" "$n" "$on" || status=$?; [[ -e $T/failed ]]; do
                if [[ $status -ne 7 || $(<"$T/out") != 'done' ]]; then
                    echo "$call, the $n-th ${on:+and all after}: exit status $status"
                    cat "$T/out" "$T/err"
                    return 1
                fi
                if [[ -n ${FAULTS_ALL-} ]]; then n=$((n + 1)); else n=$((n + 1 + n / 2)); fi
                [[ $n -le $most ]] || {
                    echo "$call is called more than $most times"
                    return 1
                }
            done
            [[ $n -gt 1 ]] || {
                echo "$call is not called at all"
                return 1
            }
        done
    done
}

@test "the program of these tests has its rule, and bytes are held" {
    faulty nothing 1 || [[ $? -eq 7 ]]
    cat "$T/log"
    [[ $(<"$T/out") == 'done' ]]
    grep -qE ' sockets 2[0-9], .*bursts held [1-9][0-9]' "$T/log"
}

@test "the program works if the library gets no memory, no file, no thread keys or no answers about sockets" {
    goes_on 400 calloc mmap
    goes_on 20 open read lseek readlink
    goes_on 40 pthread_key_create pthread_setspecific
    goes_on 80 getsockopt getsockname getrlimit
}

@test "the program works without a stall if the kernel refuses socket options" {
    ways=('') # where it fails for good the program is one without the shim, which takes its 40 ms each time
    goes_on 400 setsockopt
    # Nothing is held that could not be pushed: no more than the one that found that out.
    rm -f "$T/log"
    faulty setsockopt 1 on || [[ $? -eq 7 ]]
    cat "$T/log"
    grep -qE 'bursts held 0,' "$T/log"
    # The same where it fails from later on, after some twenty have worked.
    rm -f "$T/log"
    faulty setsockopt 40 on || [[ $? -eq 7 ]]
    cat "$T/log"
    holds "$(sed -nE 's/.*bursts held ([0-9]+).*/\1/p' "$T/log") < 30"
    # What is held could be pushed when it began: no more than that are held.
    echo '{"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": 300}]}' >"$T/policy.json"
    rm -f "$T/log"
    faulty setsockopt 20 on || [[ $? -eq 7 ]]
    cat "$T/log"
    holds "$(sed -nE 's/.*bursts held ([0-9]+).*/\1/p' "$T/log") < 25"
}
