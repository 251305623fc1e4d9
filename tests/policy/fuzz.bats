#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: No policy file, however broken, harms the program that reads it, and the parser, the matcher and the judge agree with slow models of them.
# Runs the fuzzers of the policy, the matcher and the judge with AddressSanitizer and UBSan: over their corpora, which
# tests/fuzz/NAME.tar.gz keep, and with FUZZ_SECONDS (make fuzz: 600) as long on new inputs. An input that fails goes to
# build/fuzz/crashes. To add what a long run has found: build/fuzz/NAME -merge=1 NEW OLD FOUND, and pack NEW as NAME.

BATS_TEST_TIMEOUT=$((${FUZZ_SECONDS:-0} + 140))
load ../helpers/common
load ../helpers/policies

setup() {
    ns_setup
    FUZZERS=$PWD/build/fuzz
}

# corpus NAME: unpacks it to $T/NAME.
corpus() {
    tar -C "$T" -xzf "tests/fuzz/$1.tar.gz"
    [[ -n $(ls "$T/$1") ]]
}

# fuzz NAME OPTION...: replays the corpus, or fuzzes for FUZZ_SECONDS.
fuzz() {
    local name=$1 seconds=${FUZZ_SECONDS:-0} most=(-runs=0)
    shift
    [[ $seconds -eq 0 ]] || most=(-max_total_time="$seconds")
    corpus "$name"
    mkdir -p "$T/new" "$FUZZERS/crashes"
    timeout "$((seconds + 120))" "$FUZZERS/$name" "${most[@]}" -timeout=20 -print_final_stats=1 \
        -artifact_prefix="$FUZZERS/crashes/$name-" "$T/new" "$T/$name" "$@" >"$T/log" 2>&1 3>&- || {
        tail -n 60 "$T/log"
        return 1
    }
    awk '/number_of_executed_units/ { print; if ($2 > 30) found = 1 } END { exit !found }' "$T/log"
}

@test "no text of a policy breaks the parser, and the parser accepts only what it can represent" {
    unpack_policies "$T"
    fuzz policy -max_len=4096 -dict=tests/fuzz/policy.dict "$T/valid" "$T/bad" config/policies
}

@test "the matcher finds the same rule as a slow and obvious one, whatever the rules and the socket" {
    fuzz match -max_len=512
}

@test "the judge never claims a stall without its proof, whatever the samples of a connection" {
    fuzz judge -max_len=512
}

@test "each fuzzer detects a deliberate difference" {
    local name
    for name in policy match judge; do
        corpus "$name"
        mkdir "$T/new-$name"
        run env NS_FUZZ_BROKEN=1 timeout 100 "$FUZZERS/$name" -runs=500000 -artifact_prefix="$T/" \
            "$T/new-$name" "$T/$name"
        [[ $status -ne 0 && $output == *'not true: '* ]]
    done
}
