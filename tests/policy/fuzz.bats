#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: No policy file, however broken, harms the program that reads it, and none is taken for what it does not say.
# Fuzzes the policy, the matcher and the judge of a diagnosis with AddressSanitizer and UBSan, for FUZZ_SECONDS each (14; make fuzz:
# 600), from the corpus of tests/fuzz/corpus; a policy also from every row of
# policies.table. What breaks one is left in build/fuzz/crashes.

bats_require_minimum_version 1.5.0
BATS_TEST_TIMEOUT=$((${FUZZ_SECONDS:-14} + 140))
load ../helpers/common
load ../helpers/policies

setup() {
    ns_setup
    FUZZERS=$PWD/build/fuzz
    CORPUS=$PWD/tests/fuzz/corpus
}

# fuzz NAME SECONDS OPTION...: from a copy of the corpus, since what is new is written to it.
fuzz() {
    local name=$1 seconds=$2
    shift 2
    mkdir -p "$T/$name" "$FUZZERS/crashes"
    [[ -n $(ls "$CORPUS/$name") ]]
    timeout "$((seconds + 120))" "$FUZZERS/$name" -max_total_time="$seconds" -timeout=20 -print_final_stats=1 \
        -artifact_prefix="$FUZZERS/crashes/$name-" "$T/$name" "$CORPUS/$name" "$@" >"$T/$name.log" 2>&1 3>&- || {
        tail -n 60 "$T/$name.log"
        return 1
    }
    awk '/number_of_executed_units/ { print; if ($2 > 1000) found = 1 } END { exit !found }' "$T/$name.log"
}

@test "no text of a policy breaks the parser, and what it takes it takes as it was meant" {
    unpack_policies "$T"
    fuzz policy "${FUZZ_SECONDS:-14}" -max_len=4096 -dict=tests/fuzz/policy.dict \
        "$T/valid" "$T/bad" config/policies
}

@test "no rules and no facts make the matcher differ from a slow and obvious one" {
    fuzz match "${FUZZ_SECONDS:-14}" -max_len=512
}

@test "no looks at a connection, however odd, make the judge claim a stall without its proof" {
    fuzz judge "${FUZZ_SECONDS:-14}" -max_len=512
}

@test "the fuzzers find out a difference" {
    local name
    for name in policy match judge; do
        mkdir "$T/new-$name" # what is found goes there, not into the corpus
        run env NS_FUZZ_BROKEN=1 timeout 100 "$FUZZERS/$name" -runs=500000 -artifact_prefix="$T/" \
            "$T/new-$name" "$CORPUS/$name"
        [[ $status -ne 0 && $output == *'not true: '* ]]
    done
}
