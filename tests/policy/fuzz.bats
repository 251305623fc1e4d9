# SPDX-License-Identifier: MIT
# Promise: No broken policy file harms the program that reads it, and the judge reports no stall without its proof.
# Computes: it fuzzes.
# Runs the fuzzers of the policy and of the judge with AddressSanitizer and UBSan: with inputs from a fixed seed, and with
# FUZZ_SECONDS (make fuzz: 600) for that long with new inputs. A failing input is written to build/fuzz/crashes.

BATS_TEST_TIMEOUT=$((${FUZZ_SECONDS:-0} + 640))
load ../helpers/common
load ../helpers/policies

setup() {
    ns_setup
    FUZZERS=$PWD/build/fuzz
    CRASHES=$FUZZERS/crashes
}

# fuzz NAME [DIRECTORY]...: starts from the inputs in these.
fuzz() {
    local name=$1 seconds=${FUZZ_SECONDS:-0} most=(-seed=1 -runs=20000)
    shift
    [[ $seconds -eq 0 ]] || most=(-max_total_time="$seconds")
    mkdir -p "$T/new" "$CRASHES"
    timeout "$((seconds + 600))" "$FUZZERS/$name" "${most[@]}" -max_len=4096 -len_control=0 -timeout=20 \
        -artifact_prefix="$CRASHES/$name-" "$T/new" "$@" >"$T/log" 2>&1 3>&- ||
        wrong "$(tail -n 60 "$T/log")"
}

@test "no policy text crashes the parser, and the parser accepts only policies that it can represent" {
    unpack_policies "$T"
    fuzz policy "$T/valid" "$T/bad" config/policies
}

@test "whatever the samples of a connection, the judge never reports a stall without its proof" {
    fuzz judge
}

@test "each fuzzer detects a deliberate difference" {
    local name CRASHES=$T/crashes
    unpack_policies "$T"
    for name in policy judge; do
        NS_FUZZ_BROKEN=1 FUZZ_SECONDS='' run fuzz "$name" "$T/valid" "$T/bad"
        [[ $status -ne 0 && $output == *'not true: '* ]]
    done
}
