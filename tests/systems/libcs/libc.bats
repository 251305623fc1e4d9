#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: One build of the library works on glibc from 2.31 on and on musl.
# shellcheck disable=SC2034,SC2154 # helpers/matrix.bash uses what is set here, and sets $delayed, $median, ...
# The library that was built here, on another libc: NS_LIBC. tests/systems/libcs/run builds the programs for it, and
# puts into NS_LIBC_PROGRAMS what runs them there. Each cure is measured against the same two programs
# without the shim, which stall.

bats_require_minimum_version 1.5.0
load ../../helpers/common
load ../../helpers/matrix

setup() {
    ns_setup
    EXAMPLES=$NS_LIBC_PROGRAMS
    PROBES=$NS_LIBC_PROGRAMS
}

teardown() {
    ns_teardown
}

policy_of() {
    printf '{"version": 1, "rules": [{"send": "%s", "ack": "%s"}]}' "$1" "$2"
}

@test "the programs run on this libc" {
    run timeout 10 "$PROBES/libc_lacks"
    case $NS_LIBC in
    bullseye) [[ ${lines[0]} == 'libc 2.31' ]] ;;
    bookworm) [[ ${lines[0]} == 'libc 2.36' ]] ;;
    trixie) [[ ${lines[0]} == 'libc 2.41' ]] ;;
    forky) [[ ${lines[0]} == 'libc 2.'* ]] ;;
    musl) [[ ${lines[0]} == 'libc musl' ]] ;;
    esac
    # Without the shim nobody stands in for what the libc lacks.
    [[ $status -ne 0 && $output == *'it is not the shim'* ]]
}

@test "control: Red Hat's example stalls without the shim" {
    cell redhat - - nowhere stalls 2
}

@test "push: nodelay on the writing end cures it" {
    cell redhat nodelay before-wait writing flows 15
}

@test "acknowledge: the same on the other end alone cures it" {
    cell redhat nodelay before-wait other flows -
}

@test "hold: auto-cork makes one segment of a round's 15 writes" {
    cell redhat auto-cork before-wait writing flows 1
}

@test "flush-before-read: two segments, and no stall" {
    cell redhat flush-before-read before-wait writing flows 2
}

@test "control: a POST in two writes stalls without the shim" {
    cell queue - - nowhere stalls -
}

@test "a POST in two writes does not stall with the shim on the client alone" {
    cell queue nodelay before-wait writing flows -
}

@test "a POST in two writes does not stall with the shim on the server alone" {
    cell queue nodelay before-wait other flows -
}

@test "a socket option that a rule is to ignore is ignored: SO_SNDBUF 0" {
    cell record nodelay before-wait writing flows -
}

@test "the policy that is built in needs no file" {
    policy=''
    flow redhat writing 2
    [[ ! -s $T/client.err && ! -s $T/server.err ]]
}

@test "NAGLESHIM_POLICY names a file" {
    policy_of auto-cork before-wait >"$T/policy.json"
    policy=$T/policy.json
    flow redhat writing 1
    policy_of app app >"$T/policy.json"
    stalled redhat writing
}

@test "a policy file with the program's name governs that program, and default.json the others" {
    policy=''
    policy_of auto-cork before-wait >"$NAGLESHIM_POLICY_DIR/tcp_nodelay_client.json"
    policy_of app app >"$NAGLESHIM_POLICY_DIR/default.json"
    flow redhat both 1
    rm "$NAGLESHIM_POLICY_DIR/tcp_nodelay_client.json"
    stalled redhat both
}

@test "a policy that is broken leaves the program as it is, and is named on stderr" {
    policy='{"version": 1, "rules": [{"send": "fast"}]}'
    local name=redhat rounds=20 warmup=4 stalls median delayed
    local server client rest writing stalls_by segments_by shimmed bare
    scenario redhat 20 4
    run_both writing
    timing_is stalls 20
    grep -q 'NAGLESHIM_POLICY:1:' "$T/client.log"
}

@test "calls that this libc lacks answer with an error, ENOSYS where it has a place" {
    LD_PRELOAD=$LIBRARY run timeout 10 "$PROBES/libc_lacks"
    echo "$output"
    [[ $status -eq 0 ]]
    case $NS_LIBC in
    bullseye) [[ ${lines[1]} == 'lacks epoll_pwait2 close_range closefrom _Fork execveat '* ]] ;;
    musl) [[ ${lines[1]} == *' pthread_cond_clockwait '*' close_range '* ]] ;;
    *) [[ ${lines[1]} != *close_range* ]] ;;
    esac
}

@test "thread calls work in a plugin of a program that is not linked with threads" {
    timeout 10 "$PROBES/late_threads" "$NS_LIBC_FILES/late_threads.so"
    LD_PRELOAD=$LIBRARY timeout 10 "$PROBES/late_threads" "$NS_LIBC_FILES/late_threads.so"
    NAGLESHIM_POLICY=$(policy_of auto-cork before-wait) LD_PRELOAD=$LIBRARY \
        timeout 10 "$PROBES/late_threads" "$NS_LIBC_FILES/late_threads.so"
}

@test "every call answers the same with the shim as without" {
    local send failed=0
    # Some of the calls have bad pointers, which the kernel answers with EFAULT, and musl reads itself.
    [[ $NS_LIBC != musl ]] || skip "the probe without the shim ends in a crash inside musl"
    timeout 60 "$PROBES/transparency" main >"$T/plain"
    for send in nodelay auto-cork; do
        NAGLESHIM_POLICY=$(policy_of "$send" before-wait) LD_PRELOAD=$LIBRARY timeout 60 "$PROBES/transparency" main \
            >"$T/shimmed"
        diff "$T/plain" "$T/shimmed" || failed=1
    done
    [[ $(wc -l <"$T/plain") -gt 200 && $failed -eq 0 ]]
}

# life PROGRAM SCENARIO: its bytes are right, and none is late; a busy machine may be, so that is tried again.
life() {
    local limit
    for limit in 20 80 80; do
        LD_PRELOAD=$LIBRARY LIFE_LIMIT_MS=$limit timeout 25 "$PROBES/life_$1" "$2" >"$T/life" 2>&1 || {
            echo "$1 $2, $NAGLESHIM_POLICY: exit status $?"
            cat "$T/life"
            return 1
        }
        [[ $(field late "$T/life") -ne 0 ]] || return 0
    done
    echo "$1 $2, $NAGLESHIM_POLICY: $(tail -n 1 "$T/life")"
    return 1
}

@test "bytes arrive whole and in time through every life of a socket, a thread and a process" {
    local program scenario send failed=0 run=0
    while read -r program scenario; do
        [[ $program != uring ]] || continue # not built for them
        for send in nodelay auto-cork; do
            NAGLESHIM_POLICY=$(policy_of "$send" before-wait) life "$program" "$scenario" || failed=1
            run=$((run + 1))
        done
    done < <(sed -nE 's/^    survives ([a-z]+) ([a-z0-9-]+).*/\1 \2/p' tests/promises/life-cycle.bats)
    [[ $run -ge 40 && $failed -eq 0 ]]
}
