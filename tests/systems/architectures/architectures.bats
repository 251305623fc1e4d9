# SPDX-License-Identifier: MIT
# Promise: The library works on every architecture of Debian as on x86-64, and with programs that have 64-bit times.
# Parts: 4
# tests/systems/architectures/run builds and sets the variables. Both ends are programs of that architecture. Programs of i386
# run natively. What qemu-user cannot do is not tested with the others: it knows no TCP_INFO, SO_MEMINFO and SIOCOUTQNSD and no
# seccomp filter, runs no program of its architecture at an exec, and adds a line to stderr if a signal ends the program.

BATS_TEST_TIMEOUT=600 # a processor that is emulated is slow
load ../../helpers/common
load ../../helpers/matrix
load ../../helpers/files

BUILD=$PWD/build/$NS_ARCHITECTURE

# The tests of transparency.bats that run programs of this machine.
FOREIGN='this probe and|^getsockopt says'

setup() {
    export NS_LIBRARY=$BUILD/libnagleshim.so NS_PROGRAMS=$BUILD${NS_EMULATOR:+/emulated}
    ns_setup
}

# passes FILE [EXCEPT]: its tests, but for those whose names match, pass with programs of this architecture.
passes() {
    run env -u BATS_TEST_TIMEOUT bats --filter "$(names_but "${2:-^$}" "tests/$1.bats")" "tests/$1.bats"
    echo "$output"
    [[ $status -eq 0 && $(grep -c '^ok' <<<"$output") -ge 3 && $output != *'# skip'* ]]
}

is_native() {
    [[ -z $NS_EMULATOR ]]
}

@test "the library's file passes the tests of elf.bats" {
    NS_ELF_LIBRARY=$NS_LIBRARY passes file/elf '^(outside|each|the|no) '
}

@test "each scenario stalls without the library, and does not with it on either end" {
    local name where
    for name in redhat sendfile record quote queue; do
        cell "$name" - - nowhere stalls -
        for where in writing other; do
            # Without SO_MEMINFO the sender does not notice the cure.
            [[ $name/$where != record/writing ]] || is_native || continue
            cell "$name" adaptive before-wait "$where" flows -
        done
    done
}

@test "each mode does not stall" {
    local send
    for send in nodelay auto-cork flush-before-read; do
        cell redhat "$send" before-wait writing flows -
        cell redhat "$send" before-wait other flows -
    done
    cell redhat app app both stalls -
}

@test "programs with 64-bit times are seen on 32-bit systems" {
    local send name names
    [[ -e $BUILD/time64 ]] || skip "times have one size here"
    EXAMPLES=${NS_PROGRAMS/$BUILD/$BUILD/time64}/examples
    names=$(nm -D --undefined-only "$BUILD"/time64/examples/*)
    for name in __setsockopt64 __getsockopt64; do [[ $names == *" U $name"* ]]; done
    cell redhat - - nowhere stalls -
    for send in adaptive auto-cork; do
        cell redhat "$send" before-wait writing flows -
        cell redhat "$send" before-wait other flows -
    done
    is_native || return 0
    NS_PROGRAMS=$BUILD/time64 passes promises/transparency "$FOREIGN"
}

@test "each wait for a time sends what is held, with times of either size" {
    local program policy='{"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": 100000}]}'
    for program in "$NS_PROGRAMS" "${NS_PROGRAMS/$BUILD/$BUILD/time64}"; do
        [[ -e $program ]] || continue
        # A wait for a semaphore may find it free.
        NAGLESHIM_POLICY=$policy LD_PRELOAD=$LIBRARY "$program/probes/transparency" held | grep 'arrived at' | grep -v ' sem_wait' >"$T/waits"
        cat "$T/waits"
        [[ $(wc -l <"$T/waits") -gt 30 && $(grep -v ': 4$' "$T/waits") == *' compute(): 0' ]]
    done
}

@test "children, closes, signals and exits do no harm" {
    local policy scenario
    if is_native; then
        passes promises/life-cycle '^(a dispatcher|TCP_NODELAY that another|a server that is started with)' # Python programs of this machine
        passes promises/faults
        passes promises/transparency "$FOREIGN"
    fi
    for policy in '{"version": 1, "rules": [{}]}' '{"version": 1, "rules": [{"send": "auto-cork"}]}'; do
        for scenario in vfork made-by-number connection-is-sent connection-is-sent-by-child; do
            NAGLESHIM_POLICY=$policy LD_PRELOAD=$LIBRARY "$PROBES/life" "$scenario" >"$T/life"
            [[ $(field wrong "$T/life") -eq 0 ]]
        done
    done
}

@test "a process prints its report, and errors of its policy" {
    local foreign='nagleshim run|connected twice|why the library is disabled|inherited sockets|the log is' # by programs of this machine
    is_native || foreign+='|however it exits|control character|seccomp'
    passes promises/report "$foreign"
}

@test "libraries opened with RTLD_DEEPBIND are cured" {
    [[ $NS_ARCHITECTURE != riscv64 ]] || skip "the start files of riscv64 do not call __gmon_start__"
    passes systems/loader 'text relocations|300 plugins|observing library'
}

@test "calls reach a library that is preloaded, too" {
    passes systems/next 'older glibc|opened after libc'
}

@test "the library defines all names of the call table" {
    run env LD_PRELOAD="$LIBRARY" "$PROBES/libc_lacks"
    [[ $status -eq 0 && $output == *'lacks '* ]]
    run "$PROBES/libc_lacks"
    [[ $status -ne 0 ]]
}
