#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Random sequences of socket calls are run without the shim and with it, under each policy, against a peer that
# does as the script says: return values, errno, revents, signals and bytes are the same (tests/differential).
# First what has been found before (its corpus), then scripts made from seeds that nobody has tried, for
# DIFFERENTIAL_SECONDS (20; make fuzz-programs: 3600) in all. What differs is printed, cut down to a few lines,
# and left in build/differential/findings.

bats_require_minimum_version 1.5.0
load helpers/common

setup() {
    ns_setup
    DIFFERENTIAL=$PWD/build/differential
    CORPUS=$PWD/tests/differential/corpus
    SECONDS_IN_ALL=${DIFFERENTIAL_SECONDS:-20}
}

# differential OPTION...: its last line, which counts, is in $output's last line.
differential() {
    timeout "$((SECONDS_IN_ALL + 300))" "$DIFFERENTIAL/differential" "$@" 3>&-
}

# enough PROGRAMS: so many were run, and hardly one whose runs without a library were not alike.
enough() {
    awk -v least="$1" '$1 == "programs" { found = $2 >= least && $8 * 100 <= $2 } END { exit !found }' <<<"$output"
}

# random SECONDS POLICY...: from a seed that the failure names.
random() {
    local seconds=$1 seed=${DIFFERENTIAL_SEED:-$((EPOCHSECONDS * 1000))} policies=() policy
    shift
    for policy; do
        policies+=(-p "$policy")
    done
    echo "seeds from $seed on (DIFFERENTIAL_SEED)"
    run differential -l "$LIBRARY" "${policies[@]}" -s "$seed" -t "$seconds" -j 2 -m 5 \
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
    random "$((SECONDS_IN_ALL / 2))" default
}

@test "programs of random socket calls see no difference where a rule says how to send" {
    random "$((SECONDS_IN_ALL / 4))" nodelay flush-before-read app
}

@test "programs of random socket calls see no difference under auto-cork" {
    random "$((SECONDS_IN_ALL / 4))" auto-cork auto-cork-late
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
