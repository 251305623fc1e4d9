#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: tests/run always ends, counts every test, and leaves no process behind.
# Each test runs tests/run in its own tree with a few small test files.

load ../helpers/common

setup() {
    ns_setup
    TREE=$T/tree
    mkdir -p "$TREE/tests/one" "$TREE/tests/two"
    cp -R tests/run tests/helpers "$TREE/tests/"
    unset FILTER
}

# tests FILE: writes a test file from standard input, whose first line is the promise.
tests() {
    # bats would run lines that begin with @test as tests of this file.
    sed -e '1s/^/# Promise: /' -e 's/^test /@test /' >"$TREE/tests/$1"
}

# run_tests ARGUMENT...: sets $output, $status and $took. Every process of the run has MARK in its environment.
run_tests() {
    local begun=$EPOCHREALTIME
    # The run has no descriptor 3 and writes to a file, so that a hanging process cannot block this test.
    MARK=$T/mark BATS_TEST_TIMEOUT=2 NS_GRACE=1 timeout 100 "$TREE/tests/run" "$@" >"$T/output" 2>&1 3>&- </dev/null && status=0 || status=$?
    output=$(<"$T/output")
    echo "$output"
    took=$(awk "BEGIN { print $EPOCHREALTIME - $begun }")
}

# Is any process of the run left?
none_left() {
    local left
    left=$(grep -lzs "^MARK=$T/mark$" /proc/[0-9]*/environ) || true
    [[ -z $left ]] || {
        echo "left: $left"
        return 1
    }
}

@test "a hanging test is ended at its limit and named, and the other tests of its file run" {
    tests one/hang.bats <<'END'
It hangs.
test "hangs beside a child of its own" {
    sleep 300 &
    sleep 300
}
test "hangs in a pipe of shells that ignore TERM" {
    run bash -c 'trap "" TERM; (trap "" TERM; sleep 300; true) | cat; true'
    true
}
test "hangs while a daemon holds the output" {
    setsid bash -c 'trap "" TERM; while :; do sleep 300; done' &
    disown
    sleep 300
}
test "passes, and leaves a daemon that does not delay the end of the run" {
    setsid bash -c 'trap "" TERM; while :; do sleep 301; done' &
    disown
}
END
    run_tests
    [[ $status -eq 1 && ${output##*$'\n'} == '1 passed, 3 failed, 0 skipped' ]]
    [[ $output == *'not ok 1 hangs beside a child of its own '*'timeout after 2'* ]]
    [[ $output == *'not ok 2 hangs in a pipe of shells that ignore TERM '*'timeout after 2'* ]]
    [[ $output == *'not ok 3 hangs while a daemon holds the output '*'timeout after 2'* ]]
    [[ $output == *$'failed:\nhang.bats: '* ]]
    holds "$took < 30"
    none_left
}

@test "a test that fails or hangs beside others is run again alone, and this result counts" {
    tests one/once.bats <<'END'
Some tests pass the second time.
test "fails once" {
    [[ -e $NS_WORK/failed ]] || ! touch "$NS_WORK/failed"
}
test "hangs once" {
    [[ -e $NS_WORK/hung ]] || sleep "$(touch "$NS_WORK/hung" && echo 20)"
}
test "passes" { true; }
END
    tests two/other.bats <<'END'
It always fails.
test "fails" { false; }
END
    run_tests
    [[ $status -eq 1 && ${output##*$'\n'} == '3 passed, 1 failed, 0 skipped' ]]
    [[ $output == *$'failed:\nother.bats: '* ]]
}

@test "every file of make check has a promise" {
    run tests/run --list
    echo "$output"
    [[ $status -eq 0 ]]
}
