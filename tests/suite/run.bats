#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: tests/run always ends, counts every test, and leaves no process behind.
# Each test runs tests/run in its own tree with a few small test files.

load ../helpers/common

setup() {
    ns_setup
    TREE=$T/tree
    mkdir -p "$TREE/tests/one" "$TREE/tests/two/deep"
    cp -R tests/run tests/helpers "$TREE/tests/"
    unset FILTER
}

# tests FILE: writes a test file from standard input, whose first line is the promise, or empty.
tests() {
    local promise
    read -r promise
    {
        [[ -z $promise ]] || echo "# Promise: $promise"
        sed 's/^test /@test /' # bats would otherwise run them as tests of this file
    } >"$TREE/tests/$1"
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

@test "tests fail that do not report because their shell ignores signals or the setup of their file hangs" {
    tests one/shell.bats <<'END'
Its shell hangs.
test "ignores signals" {
    trap '' ABRT TERM
    while :; do :; done
}
END
    tests two/setup.bats <<'END'
Its setup hangs.
setup_file() { while :; do sleep 0.1; done; }
test "never starts" { true; }
END
    run_tests
    [[ $status -eq 1 && ${output##*$'\n'} == '0 passed, 2 failed, 0 skipped' ]]
    [[ $output == *'shell.bats: 1 tests did not report; it was ended in: ignores signals'* ]]
    holds "$took < 40"
    none_left
}

@test "a file may set a longer limit, have its tests spread over several jobs, and run alone" {
    tests one/long.bats <<'END'
It takes its time.
BATS_TEST_TIMEOUT=$((2 * 10))
test "takes its time" { sleep 5; }
END
    tests one/parts.bats <<'END'
It has parts.
test "first" { sleep 1.5; }
test "second: (\"quoted\")" { sleep 1.5; }
test "third" { sleep 1.5; }
test "fourth" { sleep 1.5; }
END
    sed -i '1a # Parts: 4' "$TREE/tests/one/parts.bats"
    tests one/alone.bats <<'END'
It is alone.
test "alone" { grep "^ok" "$NS_WORK"/*long.bats*; }
END
    sed -i '1a # Alone: it looks at processes' "$TREE/tests/one/alone.bats"
    JOBS=6 run_tests
    [[ $status -eq 0 && ${output##*$'\n'} == '6 passed, 0 failed, 0 skipped' ]]
    [[ $output == *'ok 6 alone '* ]]
    holds "$took < 11"
}

@test "--list prints what each file promises; a file without a promise is an error" {
    tests one/a.bats <<'END'
It is first.
test "a" { true; }
test "b" { true; }
END
    tests two/deep/b.bats <<'END'
It is deep.
test "c" { true; }
END
    run_tests --list
    [[ $status -eq 0 && $output == $'one\n  a '*'   2  It is first.'$'\n2 tests in 1 files\n'* ]]
    [[ $output == *$'\ntwo/deep\n  b '*'   1  It is deep.'$'\n1 tests in 1 files, '* ]]
    tests two/c.bats <<'END'

test "d" { true; }
END
    run_tests --list
    [[ $status -eq 1 && $output == *"tests/two/c.bats does not say what it promises"* ]]
}

@test "tests are found by folder and by name; an unknown or ambiguous name is an error" {
    tests one/a.bats <<<'It is first.'
    tests two/a.bats <<<'It is second.'
    tests two/b.bats <<<$'It is another.\ntest "b" { true; }'
    run_tests --find two
    [[ $status -eq 0 && $output == $'tests/two/a.bats\ntests/two/b.bats' ]]
    run_tests --find b one/a.bats
    [[ $status -eq 0 && $output == $'tests/two/b.bats\ntests/one/a.bats' ]]
    # A file runs once, even if it is named several times.
    run_tests --find b.bats two one/a.bats "$TREE/tests/one/a.bats" ./tests/two/b.bats
    [[ $status -eq 0 && $output == $'tests/two/b.bats\ntests/two/a.bats\ntests/one/a.bats' ]]
    run_tests --find a.bats
    [[ $status -eq 1 && $output == *'a.bats may be each of: tests/one/a.bats tests/two/a.bats' ]]
    run_tests nothing
    [[ $status -eq 1 && $output == *'no tests called nothing'* ]]
}

@test "every file of make check has a promise" {
    run tests/run --list
    echo "$output"
    [[ $status -eq 0 ]]
}
