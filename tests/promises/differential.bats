#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Random programs see the same results, errno, events, signals and bytes with the shim as without it.
# Random sequences of socket calls are run without the shim and with it, under each policy, against a peer that
# does as the script says: return values, errno, revents, signals and bytes are the same (tests/differential).
# First what has been found before (its corpus), then scripts made from the first seeds; with DIFFERENTIAL_SECONDS
# (make fuzz-programs: 3600 in all) from seeds that nobody has tried. What differs is printed, cut down to a few
# lines, and left in build/differential/findings.

bats_require_minimum_version 1.5.0
BATS_TEST_TIMEOUT=$((${DIFFERENTIAL_SECONDS:-0} + 320))
load ../helpers/common

setup() {
    ns_setup
    DIFFERENTIAL=$PWD/build/differential
    CORPUS=$PWD/tests/differential/corpus
    export NAGLESHIM_RECORD=$T/record # of the library that observes
    mkdir "$NAGLESHIM_RECORD"
}

# differential OPTION...: its last line, which counts, is in $output's last line.
differential() {
    timeout "$((${DIFFERENTIAL_SECONDS:-0} + 300))" "$DIFFERENTIAL/differential" "$@" 3>&-
}

# enough PROGRAMS: so many were run, and hardly one whose runs without a library were not alike.
enough() {
    awk -v least="$1" '$1 == "programs" { found = $2 >= least && $8 * 100 <= $2 } END { exit !found }' <<<"$output"
}

# random PART PROGRAMS POLICY...: so many, or for that part of the time; from a seed that the failure names.
random() {
    local seed=${DIFFERENTIAL_SEED:-1} most=(-n "$2") policies=() policy
    if [[ -n ${DIFFERENTIAL_SECONDS-} ]]; then
        seed=${DIFFERENTIAL_SEED:-$((EPOCHSECONDS * 1000))}
        most=(-t "$((DIFFERENTIAL_SECONDS / $1))")
    fi
    shift 2
    for policy; do
        policies+=(-p "$policy")
    done
    echo "seeds from $seed on (DIFFERENTIAL_SEED)"
    run differential -l "$LIBRARY" "${policies[@]}" -s "$seed" "${most[@]}" -j 2 -m 5 \
        -o "$DIFFERENTIAL/findings"
    echo "$output"
    [[ $status -eq 0 ]]
    enough 10
}

@test "nothing that the differential fuzzer has found before is there again" {
    run differential -l "$LIBRARY" -p all "$CORPUS"/*.txt
    echo "$output"
    [[ $status -eq 0 ]]
    enough "$(find "$CORPUS" -name '*.txt' | wc -l)"
}

@test "programs of random socket calls see no difference under the policy that is built in" {
    random 2 600 default
}

@test "programs of random socket calls see no difference where a rule says how to send" {
    random 4 150 nodelay flush-before-read app
}

@test "programs of random socket calls see no difference with the library that observes" {
    LIBRARY=${LIBRARY%.so}-observe.so random 4 300 default
    [[ $(find "$NAGLESHIM_RECORD" -name '*.record' | wc -l) -gt 100 ]]
}

@test "programs of random socket calls see no difference under auto-cork" {
    random 4 150 auto-cork auto-cork-late
}

# found_out FAULT TEXT: a library that does this is found, in the few lines that show it.
found_out() {
    run differential -l "$DIFFERENTIAL/faults.so" -e "DIFFERENTIAL_FAULT=$1" -s 1 -n 2000 -m 1
    if [[ $status -ne 1 ]] || ! grep -qE "$2" <<<"$output"; then
        echo "$1: exit status $status"
        echo "$output"
        return 1
    fi
}

@test "the differential fuzzer finds out a library that does what the shim must never do" {
    found_out short '^# with: .*flood .* = [0-9]+$'
    found_out errno '^# with: .* EAGAIN'
    found_out byte '^# with: .* WRONG'
    found_out mask '^ppoll'
    found_out leak '^# with: '
    found_out interrupted '^interrupted full'
    found_out split '^# with: .* ids '
}

@test "the differential fuzzer finds nothing in a library that does nothing" {
    run differential -l "$DIFFERENTIAL/faults.so" -s 1 -n 200
    echo "$output"
    [[ $status -eq 0 ]]
    enough 200
}
