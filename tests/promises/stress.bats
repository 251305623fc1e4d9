# SPDX-License-Identifier: MIT
# Promise: 64 threads over 2 000 sockets lose no byte, errno or descriptor, and hold nothing across a wait.
# STRESS_SECONDS is the time for each mode (make check-stress: 60). STRESS_SEED repeats a sequence of calls.

BATS_TEST_TIMEOUT=$((120 + $(printf %.0f "${STRESS_SECONDS:-1}")))
load ../helpers/common

setup() {
    ns_setup
    export STRESS_SECONDS=${STRESS_SECONDS:-1.2}
}

# stress PRELOAD: runs the program, which writes its results to $T/stress.out.
stress() {
    timeout "$((${STRESS_SECONDS%.*} + 100))" env LD_PRELOAD="$1" NAGLESHIM_LOG=info \
        NAGLESHIM_LOG_FILE="$T/log" "$PROBES/stress" >"$T/stress.out" 2>&1 3>&-
}

# unharmed SEND MAX_DELAY_US: nothing is wrong or late. The program looks at late bytes twenty times before it says so.
unharmed() {
    local status=0
    [[ $1 == built-in ]] || export NAGLESHIM_POLICY="{\"version\": 1, \"rules\": [
        {\"send\": \"$1\", \"max_delay_us\": $2}]}"
    stress "$LIBRARY" || status=$?
    cat "$T/stress.out"
    tail -n 1 "$T/log"
    [[ $status -eq 0 && $(field writes "$T/stress.out") -gt 100 ]]
    # The library was loaded and treated the sockets.
    grep -qE ' sockets [1-9][0-9]{3}' "$T/log"
    [[ $1 != auto-cork || $2 -lt 100000 ]] || grep -qE 'bursts held [1-9][0-9]{2}' "$T/log"
    [[ ${STRESS_FORKS-} == 0 || $(field forks "$T/stress.out") -gt 0 ]]
    [[ $(field opens "$T/stress.out") -gt 100 ]]
}

@test "many threads and sockets work under the built-in policy" {
    unharmed built-in 200
}

@test "many threads and sockets work under auto-cork" {
    unharmed auto-cork 100000
}

@test "many threads and sockets work under auto-cork with many late bursts" {
    unharmed auto-cork 50
}

@test "many threads and sockets work under flush-before-read" {
    unharmed flush-before-read 200
}

@test "many threads and sockets work under a rule that leaves sending to the program" {
    export STRESS_NAGLE=1
    unharmed app 200
}

@test "many threads and sockets work with the observing library, and are recorded" {
    mkdir "$T/record"
    export STRESS_NAGLE=1 NAGLESHIM_RECORD=$T/record
    stress "$OBSERVER" || wrong "exit status $?" "$T/stress.out"
    build/unit/show_record "$T/record" >"$T/shown"
    grep -q '^records [1-9][0-9]* broken 0 ' "$T/shown"
    [[ $(sed -nE 's/^connection .* calls ([0-9]+) .*/\1/p' "$T/shown" | awk '{ n += $1 } END { print n + 0 }') -gt 100 ]]
}

# found_out MISTAKE STATUS TEXT: with this mistake the stress program exits with STATUS and prints TEXT.
found_out() {
    local status=0
    MISTAKE=$1 STRESS_SECONDS=0.4 STRESS_SOCKETS=200 stress "$PROBES/mistakes.so" || status=$?
    [[ $status -eq $2 ]] && grep -qE "$3" "$T/stress.out" || wrong "$1: exit status $status" "$T/stress.out"
}

@test "the stress program detects a library that changes one call in a thousand or holds bytes" {
    found_out byte-rarely 1 'bytes .* are others'
    found_out lose 1 'are others|ends after|does not end'
    found_out errno-rarely 1 'close left errno 0'
    found_out leak-rarely 1 'descriptors, and'
    found_out hold 4 'held across a wait'
    found_out none 0 'wrong 0'
}
