#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Under the built-in policy no program gets a thread of the shim's.
# shellcheck disable=SC2034,SC2154 # what helpers/matrix.bash and helpers/common.bash read and set
# The examples under the built-in policy: no thread of the shim's runs in them. Each pair of victims.bats has
# a test like these.

bats_require_minimum_version 1.5.0
load ../helpers/common
load ../helpers/matrix
load ../helpers/threads

setup_file() {
    matrix_setup_file
}

setup() {
    ns_setup
    # What the programs run under, as matrix.bash has it.
    policy='{"version": 1, "rules": [{}]}'
}

teardown() {
    ns_teardown
}

# look SCENARIO ROUNDS: runs it with the shim on both ends and the policy in $policy, and looks at its threads.
# So many rounds that it takes longer than the time between two looks.
look() {
    local name=$1 end server client shimmed=() bare=() with rest writing stalls_by segments_by
    rm -f "$T"/{server,client}.log
    scenario "$name" "$2" 5
    shim_for server both
    ns_start server "${with[@]}" "${server[@]}"
    ns_port server
    shim_for client both
    ns_start client timeout 20 "${with[@]}" "${client[@]/#PORT/$port}"
    look_until_ended client "${NS_PID[server]}"
    ns_join server
    check_where
}

none_in() {
    local -A threads=()
    look "$@"
    no_thread_of_ours
}

@test "15 writes and a read: no thread of the shim runs in the examples" {
    none_in redhat 5000
}

@test "bursts of uneven length: no thread of the shim runs in the examples" {
    none_in uneven 5000
}

@test "a file by sendfile: no thread of the shim runs in the examples" {
    none_in sendfile 3000
}

@test "the record sender: no thread of the shim runs in the examples" {
    none_in record 8000
}

@test "the record sender that takes its time: no thread of the shim runs in the examples" {
    none_in record-paced 100
}

@test "quotes on two connections: no thread of the shim runs in the examples" {
    none_in quote 3000
}

@test "write-write-read in Java: no thread of the shim runs in the examples" {
    command -v javac >/dev/null || ns_skip "no javac"
    none_in java 3000
}

@test "the storage queue: no thread of the shim runs in the examples" {
    none_in queue 3000
}

@test "under a rule for auto-cork a thread of the shim's is found, and its name is nagleshim" {
    local -A threads=()
    policy='{"version": 1, "rules": [{"send": "auto-cork"}]}'
    look uneven 5000
    [[ -n ${threads[nagleshim]-} ]]
}
