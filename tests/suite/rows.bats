#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: A row of seen.table fails if a program fails, if its control does not stall, or if a stall is missed.
# The control is seen.table itself, in which the same programs pass.

load ../helpers/common
load ../helpers/victims
load ../helpers/seen

setup_file() {
    seen_setup_file
}

teardown_file() {
    seen_teardown_file
}

# row RUN: writes a table with the row "case", which says that this client stalls.
row() {
    export SEEN_TABLE=$T/table
    printf '%s\n' 'case | a client' '    says client proven proven held' "    run $1" >"$SEEN_TABLE"
}

@test "a row whose client ends with a usage error fails at once" {
    row 'redhat <> redhat-typo'
    run seen case
    echo "$output"
    [[ $status -eq 1 && $output == *'control: the client ended with 2, the server with '* && $output != *attempt* ]]
}

@test "a row whose programs do not stall fails at once" {
    row ': r400 w50 <> nodelay : w100 w300 r50'
    run seen case
    echo "$output"
    [[ $status -eq 1 && $output == *'the control does not stall: '* && $output != *attempt* ]]
}

@test "a row whose stall is missed three times fails" {
    seen_once() { return 3; }
    run seen redhat
    echo "$output"
    [[ $status -ne 0 && $output == *'attempt 3'* ]]
}
