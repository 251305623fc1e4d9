#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: A run of the tests tells what it runs, comes to its end whatever a test does, and leaves no process behind.
# tests/run on trees of its own, which have it, its helpers, and a few files of tests.

bats_require_minimum_version 1.5.0
load ../helpers/common

setup() {
    ns_setup
    TREE=$T/tree
    mkdir -p "$TREE/tests/one" "$TREE/tests/two/deep"
    cp -R tests/run tests/helpers "$TREE/tests/"
    export BATS_TEST_TIMEOUT=2 NS_GRACE=1
    unset FILTER
}

# tests FILE < what it promises, unless that is empty, and the code.
tests() {
    local promise
    read -r promise
    {
        [[ -z $promise ]] || echo "# Promise: $promise"
        sed 's/^test /@test /' # bats would take them for its own
    } >"$TREE/tests/$1"
}

# run_tests ARGUMENT...: what it says in $output, how long it took in $took. A process that is left over bears $mark.
run_tests() {
    local begun=$EPOCHREALTIME
    # Without descriptor 3, and to a file: what hangs there must not hold this test.
    MARK=$T/mark NS_OUTSIDE='' timeout 100 "$TREE/tests/run" "$@" >"$T/output" 2>&1 3>&- </dev/null && status=0 || status=$?
    output=$(<"$T/output")
    echo "$output"
    took=$(awk "BEGIN { print $EPOCHREALTIME - $begun }")
}

# No process of the run is there any more.
none_left() {
    local left
    left=$(grep -lzs "^MARK=$T/mark$" /proc/[0-9]*/environ) || true
    [[ -z $left ]] || {
        echo "left: $left"
        return 1
    }
}

@test "a test that hangs is ended at its limit and named, and the others are run" {
    tests one/hang.bats <<'END'
It hangs.
test "hangs beside a child of its own" {
    sleep 300 &
    sleep 300
}
test "hangs in a pipe of shells that take no TERM" {
    run bash -c 'trap "" TERM; (trap "" TERM; sleep 300; true) | cat; true'
    true
}
test "hangs while a daemon holds the output" {
    setsid bash -c 'trap "" TERM; while :; do sleep 300; done' &
    disown
    sleep 300
}
test "passes" { true; }
END
    run_tests
    [[ $status -eq 1 && ${output##*$'\n'} == '1 passed, 3 failed, 0 skipped' ]]
    [[ $output == *'not ok 1 hangs beside a child of its own '*'timeout after 2 s'* ]]
    [[ $output == *'not ok 2 hangs in a pipe of shells that take no TERM '*'timeout after 2 s'* ]]
    [[ $output == *'not ok 3 hangs while a daemon holds the output '*'timeout after 2 s'* ]]
    holds "$took < 30"
    none_left
}

@test "a daemon that a test leaves behind does not hold the run, and is ended and named" {
    tests one/leaves.bats <<'END'
It leaves a daemon.
test "passes and leaves a daemon" {
    setsid bash -c 'trap "" TERM; while :; do sleep 301; done' &
    disown
}
END
    run_tests
    [[ $status -eq 0 && ${output##*$'\n'} == '1 passed, 0 failed, 0 skipped' ]]
    [[ $output == *'# ended: '*'while :; do sleep 301; done'* ]]
    holds "$took < 15"
    none_left
}

@test "a test that its own shell keeps from ending, and a file whose setup hangs, are failures too" {
    tests one/shell.bats <<'END'
Its shell hangs.
test "is deaf" {
    trap '' ABRT TERM
    while :; do :; done
}
END
    tests two/setup.bats <<'END'
Its setup hangs.
setup_file() { while :; do sleep 0.1; done; }
test "is never reached" { true; }
END
    run_tests
    [[ $status -eq 1 && ${output##*$'\n'} == '0 passed, 2 failed, 0 skipped' ]]
    [[ $output == *'did not end by itself: is deaf'* ]]
    holds "$took < 40"
    none_left
}

@test "a file may set a limit of its own" {
    tests one/long.bats <<'END'
It takes its time.
BATS_TEST_TIMEOUT=$((2 * 10))
test "takes its time" { sleep 5; }
END
    run_tests long
    [[ $status -eq 0 && ${output##*$'\n'} == '1 passed, 0 failed, 0 skipped' ]]
}

@test "--list tells what each file promises, and --plan how much that is; a file that promises nothing is an error" {
    tests one/a.bats <<'END'
It is first.
test "a" { true; }
test "b" { true; }
END
    tests two/deep/b.bats <<'END'
It is deep.
test "c" { true; }
END
    printf '%s\n' '# Seconds.' '# With 2 processors, on 2026-11-22.' '  75.0 a.bats' >"$TREE/tests/seconds"
    run_tests --list
    [[ $status -eq 0 && $output == $'one\n  a '*'   2  It is first.'$'\n2 tests in 1 files\n'* ]]
    [[ $output == *$'\ntwo/deep\n  b '*'   1  It is deep.'$'\n1 tests in 1 files, '* ]]
    run_tests --plan
    [[ $output == '2 tests in 1 files; they took 1 min 15 s with 2 processors' ]]
    tests two/c.bats <<'END'

test "d" { true; }
END
    run_tests --list
    [[ $status -eq 1 && $output == *"tests/two/c.bats does not say what it promises"* ]]
}

@test "tests are found by folder and by name, and a name that two files have, or none, is an error" {
    tests one/a.bats <<<'It is first.'
    tests two/a.bats <<<'It is second.'
    tests two/b.bats <<<$'It is another.\ntest "b" { true; }'
    run_tests --find two
    [[ $status -eq 0 && $output == $'tests/two/a.bats\ntests/two/b.bats' ]]
    run_tests --find b one/a.bats
    [[ $status -eq 0 && $output == $'tests/two/b.bats\ntests/one/a.bats' ]]
    # However a file is named, and in whatever folder, it is run once.
    run_tests --find b.bats two one/a.bats "$TREE/tests/one/a.bats" ./tests/two/b.bats
    [[ $status -eq 0 && $output == $'tests/two/b.bats\ntests/two/a.bats\ntests/one/a.bats' ]]
    run_tests b.bats b.bats
    [[ $output == 1..1$'\n'* ]]
    run_tests --find a.bats
    [[ $status -eq 1 && $output == *'a.bats may be each of: tests/one/a.bats tests/two/a.bats' ]]
    run_tests nothing
    [[ $status -eq 1 && $output == *'no tests called nothing'* ]]
}

@test "what a table makes is never older than its table" {
    printf '#!/bin/bash\nprintf "# Promise: It is made.\\n@test \\"%%s\\" { true; }\\n" "$(<tests/one/made.table)"\n' \
        >"$TREE/tests/one/made.gen"
    chmod +x "$TREE/tests/one/made.gen"
    echo first >"$TREE/tests/one/made.table"
    run_tests one
    [[ $output == *'ok 1 first '* ]]
    echo second >"$TREE/tests/one/made.table"
    run_tests made.bats
    [[ $output == *'ok 1 second '* && $output != *first* ]]
    echo 'exit 1' >"$TREE/tests/one/made.gen"
    run_tests made.bats
    [[ $status -eq 1 && $output == *'tests/one/made.gen has failed'* ]]
}

@test "--record keeps what each file took, and leaves the others' times as they are" {
    tests one/a.bats <<'END'
It takes a second.
test "a" { sleep 1; }
END
    printf '%6.1f %s\n' 9 a.bats 7 b.bats >"$TREE/tests/seconds"
    run_tests --record one
    cat "$TREE/tests/seconds"
    holds "$(awk '$2 == "a.bats" { print $1 }' "$TREE/tests/seconds") < 6"
    grep -q '^ *7\.0 b\.bats$' "$TREE/tests/seconds"
}

@test "every file of make check promises something, and has a time" {
    run tests/run --list
    echo "$output"
    [[ $status -eq 0 ]]
    run tests/run --plan
    echo "$output"
    [[ $output == *' they took '* ]]
}

@test "--help tells the usage, and a wrong option is an error" {
    run -0 tests/run --help
    [[ $output == 'usage: tests/run '* ]]
    run -2 tests/run --nothing
}
