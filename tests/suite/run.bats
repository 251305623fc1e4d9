# SPDX-License-Identifier: MIT
# Promise: tests/run always ends, counts every test, and leaves no process behind.
# Waits: for limits of its own tests.
# Each test runs tests/run in its own tree with a few small test files.

load ../helpers/common
BATS_TEST_TIMEOUT=120

setup() {
    ns_setup
    TREE=$T/tree
    mkdir -p "$TREE/tests/one" "$TREE/tests/two"
    cp -R tests/run tests/helpers "$TREE/tests/"
    unset FILTER NS_MAPPED
    export NS_PRESSURE=/dev/null # no test is run again
    under=()
}

# tests FILE: writes a test file from standard input, whose first line is the promise.
tests() {
    # bats would run lines that begin with @test as tests of this file.
    sed -e '1s/^/# Promise: /' -e 's/^test /@test /' >"$TREE/tests/$1"
}

# run_tests ARGUMENT...: sets $output, $status and $took. The words of the array "under" start it. Every process of the run
# has MARK in its environment.
run_tests() {
    local begun=$EPOCHREALTIME
    # The run has no descriptor 3 and writes to a file, so that a hanging process cannot block this test.
    MARK=$T/mark BATS_TEST_TIMEOUT=2 NS_GRACE=1 timeout 100 "${under[@]}" "$TREE/tests/run" "$@" >"$T/output" 2>&1 3>&- </dev/null && status=0 || status=$?
    output=$(<"$T/output")
    echo "$output"
    took=$(awk "BEGIN { print $EPOCHREALTIME - $begun }")
}

@test "a hanging test is ended at its limit and named, and the other tests of its file run" {
    [[ $NS_ISOLATED == 1 ]] || ns_skip "without a PID namespace its processes are not known"
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
    holds "$took < 60" # and not 300
    run ! grep -ls "^MARK=$T/mark$" -z /proc/[0-9]*/environ # no process is left
}

@test "a failed test is not run again without pressure, and what is late is measured again only if the machine was at fault" {
    mkdir "$TREE/build"
    ln -s "$PROBES" "$TREE/build/probes"
    tests one/once.bats <<'END'
Some tests would pass the second time.
test "fails once" {
    [[ -e $NS_WORK/failed ]] || ! touch "$NS_WORK/failed"
}
test "passes" { true; }
END
    tests two/late.bats <<'END'
Each is late once.
load ../helpers/common
BATS_TEST_TIMEOUT=60

# Two programs compete for one processor.
busy() {
    local computes=(nice -n 20 taskset -c 0 perl -MTime::HiRes=time -e '$end = time + 0.4; 1 while time < $end')
    "${timed[@]:0:1}" "${computes[@]}" 3>&- & # with the same nice value
    "${timed[@]}" "${computes[@]}"
    wait "$!"
}

# once ARGUMENT...: is_late, the first time only.
once() {
    [[ -e $T/once ]] || is_late "$@"
    touch "$T/once"
}

# in_turn COMMAND...: the command says what is late, after a busy time.
in_turn() {
    busy
    "$@"
}

# Others do, which the test has started before.
others() {
    sleep 0.4
    once 20 'a round'
}

fails() {
    is_late 20 'a round'
    false
}

# A hypervisor takes the processors for 30 ms.
taken() {
    echo 'cpu 1 2 3 4 5 6 7 11 0 0' >"$NS_STAT"
    once "$1" 'a round'
}

export NS_STAT=$BATS_RUN_TMPDIR/stat
echo 'cpu 1 2 3 4 5 6 7 8 0 0' >"$NS_STAT"
test "idle" { in_time once 20 'a round'; }
test "busy" { in_time in_turn once 20 'a round' 2 2; }
test "others are busy" { for name in one other; do ns_start "$name" taskset -c 0 perl -e '1 while 1'; done; in_time others; }
test "too late" { in_time in_turn once 20000 'a round'; }
test "acknowledges late" { in_time in_turn once 20 'a round' 3 2; }
test "taken" { in_time taken 20; }
test "taken for less" { in_time taken 40; }
test "always late" { in_time in_turn is_late 20 'a round'; }
test "fails" { in_time in_turn fails; }
test "status" { in_time run sh -c 'exit 3'; [[ $status -eq 3 ]]; }
END
    run_tests
    [[ $status -eq 1 && ${output##*$'\n'} == '5 passed, 7 failed, 0 skipped' ]]
    [[ $output == *$'\ntried again, as the machine was at fault: 4 of 12 tests:\n'* ]]
    [[ $output == *$'\nlate.bats: busy: try 1: a round, 2 delayed ACKs; 20 ms are missing, the programs waited '*' ms for a processor'* ]]
    [[ $output == *$'\nlate.bats: others are busy: try 1: a round; 20 ms are missing, the programs waited '* ]]
    [[ $output == *$'\nlate.bats: taken: try 1: a round; 20 ms are missing, '*', 30 of them for a hypervisor'* ]]
    [[ $(grep -c '^late.bats: always late: try [12]: ' <<<"$output") -eq 2 && $output == *$'\nok '*' busy # in '* ]]
}

@test "a failure in a helper, and a wait in it that takes too long, are reported with the test's own line" {
    tests one/helper.bats <<'END'
Both fail in a helper.
load ../helpers/common
test "fails" {
    wrong "as it should"
}
test "hangs" {
    ns_wait_for "$T/none" line 100
}
END
    tests two/beside.bats <<<$'It runs beside the other one.\ntest "passes" { true; }'
    run_tests
    [[ $status -eq 1 && ${output##*$'\n'} == '1 passed, 2 failed, 0 skipped' ]]
    [[ $output == *$'# (in test file tests/one/helper.bats, line 4)\n'*'as it should'* ]]
    [[ $output == *' hangs '*'timeout after 2'*$'# (in test file tests/one/helper.bats, line 7)\n'* ]]
    [[ $output != *common.bash* ]]
}

@test "a failed test is run again alone if tasks waited for a processor, unless there were more delayed ACKs than may be" {
    export NS_PRESSURE=$T/pressure
    echo 'some avg10=0.00 avg60=0.00 avg300=0.00 total=0' >"$NS_PRESSURE"
    tests one/once.bats <<'END'
Two fail, one of them always.
test "fails once" {
    [[ -e $NS_WORK/failed ]] || { sed -i 's/total=.*/total=9000000/' "$NS_PRESSURE" && ! touch "$NS_WORK/failed"; }
}
test "fails always" { false; }
test "passes" { true; }
END
    tests two/late.bats <<'END'
A delayed ACK is a proof.
test "stalls once" {
    sed -i 's/total=.*/total=9000000/' "$NS_PRESSURE"
    echo 'try 1: late; more delayed ACKs than may be'
    [[ -e $NS_WORK/stalled ]] || ! touch "$NS_WORK/stalled"
}
END
    run_tests
    [[ $status -eq 1 && ${output##*$'\n'} == '2 passed, 2 failed, 0 skipped' ]]
    [[ $output == *$'\ntried again, as the machine was at fault: 2 of 4 tests:\n'* ]]
    [[ $(grep -c '^once.bats: fails .*: run again alone; tasks of the machine waited for a processor for [0-9]* % of the time$' <<<"$output") -eq 2 ]]
}

@test "a wait that is over its limit goes on only if the processes had no processor" {
    mkdir "$TREE/build"
    ln -s "$PROBES" "$TREE/build/probes"
    tests two/waits.bats <<'END'
Two wait for a line that comes after four seconds.
load ../helpers/common
BATS_TEST_TIMEOUT=20
test "idle" {
    ns_prompt
    ns_start late bash -c 'sleep 4; echo line'
    ns_wait_for "$T/late.out" line 1
}
test "busy" {
    for _ in 1 2 3; do ns_start loop taskset -c 0 perl -e '1 while 1'; done
    ns_start late bash -c 'sleep 4; echo line'
    ns_wait_for "$T/late.out" line 2
}
END
    run_tests
    [[ $status -eq 1 && ${output##*$'\n'} == '1 passed, 1 failed, 0 skipped' ]]
    [[ $output == *$'\nwaits.bats: busy: waited in vain for a line of '*' in 2 s; the programs waited '* ]]
}

@test "each file is printed as soon as it has ended, also into a pipe" {
    tests one/first.bats <<<$'It ends at once.\ntest "first" { true; }'
    tests two/second.bats <<'END'
It ends if the result of the first file has been printed.
BATS_TEST_TIMEOUT=20
test "second" {
    until grep -q '^ok 1 first' "$PRINTED"; do sleep 0.05; done
}
END
    PRINTED=$T/printed "$TREE/tests/run" 2>&1 3>&- </dev/null | cat >"$T/printed"
    cat "$T/printed"
    [[ $(tail -n 1 "$T/printed") == '2 passed, 0 failed, 0 skipped' ]]
}

@test "^C ends the run, and leaves no process and no directory of its own" {
    [[ $NS_ISOLATED == 1 ]] || ns_skip "without a PID namespace its processes are not known"
    tests one/long.bats <<<$'It takes long.\ntest "long" { echo >"$STARTED"; sleep 300; }'
    mkdir "$T/tmp"
    STARTED=$T/started MARK=$T/mark TMPDIR=$T/tmp timeout 100 python3 - "$TREE/tests/run" 3>&- <<'PYTHON'
import os, pty, signal, sys, time
pid, terminal = pty.fork()
if pid == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
while not os.path.exists(os.environ["STARTED"]):
    time.sleep(0.05)
os.write(terminal, b"\x03")
try:
    while os.read(terminal, 65536):
        pass
except OSError:
    pass
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (130, -signal.SIGINT)
PYTHON
    ns_until 10 "the end of the processes" eval '! grep -ls "^MARK=$T/mark$" -z /proc/[0-9]*/environ'
    [[ $(ls "$T/tmp") =~ ^bats-run-[[:alnum:]]+$ ]] # bats is killed
}

@test "files that compute or wait take no place of the others" {
    local file
    for file in one two; do
        tests $file/ends.bats <<<$'It ends if the others have run.\nBATS_TEST_TIMEOUT=20\ntest "ends" { until [[ -e $T/Computes && -e $T/Waits ]]; do sleep 0.05; done; }'
    done
    for file in Computes Waits; do
        tests one/$file.bats <<<$'It runs.\n# '"$file: a little"$'\n'"test \"$file\" { touch \"\$T/$file\"; }"
    done
    export T
    JOBS=2 run_tests
    [[ $status -eq 0 && ${output##*$'\n'} == '4 passed, 0 failed, 0 skipped' ]]
}

@test "when those that compute have ended, one more of the others runs at a time, and when those that wait have, another one" {
    local file
    export BEGUN=$T/begun
    mkdir "$BEGUN"
    # Three run at first. Each of the last five ends if five run.
    for file in a b c d e; do
        tests two/$file.bats <<<$'It ends if five run.\nBATS_TEST_TIMEOUT=60\ntest "ends" { touch "$BEGUN/'$file$'"; until [[ -e $BEGUN/a && -e $BEGUN/b && -e $BEGUN/c && -e $BEGUN/d && -e $BEGUN/e ]]; do sleep 0.05; done; }'
    done
    tests one/Computes.bats <<<$'It computes.\n# Computes: a little\ntest "computes" { touch "$BEGUN/Computes"; }'
    # It ends after the signal of the first has been seen: two at the same time may be one for xargs.
    tests one/Waits.bats <<<$'It waits.\n# Waits: a little\nBATS_TEST_TIMEOUT=60\ntest "waits" { until [[ -e $BEGUN/c ]]; do sleep 0.05; done; touch "$BEGUN/Waits"; }'
    # Since findutils 4.10, xargs looks at the signals when a job ends: these two, some seconds later.
    for file in Computes Waits; do
        tests one/after-$file.bats <<<$'It ends later.\nBATS_TEST_TIMEOUT=60\ntest "ends" { until [[ -e $BEGUN/'$file$' ]]; do sleep 0.05; done; sleep 3; }'
    done
    JOBS=3 run_tests
    [[ $status -eq 0 && ${output##*$'\n'} == '9 passed, 0 failed, 0 skipped' ]]
}

# unprivileged WORD...: sets "under" to words that start tests/run as root with the default capabilities of a container.
unprivileged() {
    local names=(chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod audit_write setfcap)
    [[ $EUID -eq 0 ]] || ns_skip "only root has capabilities to drop"
    under=(setpriv --inh-caps=-all --bounding-set="-all$(printf ',+%s' "${names[@]}")" "$@")
    tests one/where.bats <<'END'
It prints where it runs, and may change its user.
test "where" {
    setpriv --reuid=65534 --regid=65534 --clear-groups true
    skip "network $([[ $(readlink /proc/self/ns/net) == "$OUTER" ]] || echo 'of its own')"
}
END
    OUTER=$(readlink /proc/self/ns/net)
    export OUTER
    run ! "${under[@]}" unshare --mount true
}

@test "root without CAP_SYS_ADMIN runs the tests in a user namespace with all users" {
    unprivileged
    "${under[@]}" unshare --map-root-user --net true || ns_skip "no user namespace"
    run_tests
    [[ $status -eq 0 && $output == *'skip network of its own'* && ${output##*$'\n'} == '0 passed, 0 failed, 1 skipped' ]]
}

@test "root that may not call unshare runs the tests without namespaces" {
    mkdir "$T/bin"
    install -m 755 /dev/stdin "$T/bin/unshare" <<<$'#!/bin/sh\necho unshare: Operation not permitted >&2; exit 1'
    unprivileged env PATH="$T/bin:$PATH"
    run_tests
    [[ $status -eq 0 && $output == *'delayed ACKs are not counted'* && $output != *'of its own'* ]]
    [[ ${output##*$'\n'} == '0 passed, 0 failed, 1 skipped' ]]
}

@test "every file of make check has a promise" {
    run -0 tests/run --list
}
