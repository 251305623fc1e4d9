#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Every call of the call table answers as without the shim, under every policy and wherever in a program it is made.
# Parts: 2
# Nothing else changes: a program that makes every call of the call table, with good and bad arguments, sees
# the same results, errno and bytes with the shim as without, under every policy and wherever in a program
# the calls are made. What comes of a call without the shim is not written down here: it is asked for in
# each run, twice.

bats_require_minimum_version 1.5.0
load ../helpers/common

setup() {
    ns_setup
}

teardown() {
    ns_teardown
}

# calls PLACE PRELOAD OUTPUT: the probe's results.
calls() {
    local constructor='' preload=$2
    if [[ $1 == constructor ]]; then
        # The last one preloaded begins first.
        preload+=" $PWD/build/probes/transparency_plugin.so"
        constructor=1
    fi
    timeout 20 env ${constructor:+PROBE_CONSTRUCTOR=1} LD_PRELOAD="$preload" \
        "$PWD/build/probes/transparency" "$1" </dev/null >"$3"
}

plain() {
    NAGLESHIM_OFF=1 calls "$1" '' "$2"
}

# as_plain PLACE: its results without the shim are in $BATS_FILE_TMPDIR/PLACE.
as_plain() {
    local file=$BATS_FILE_TMPDIR/$1
    [[ ! -e $file ]] || return 0
    plain "$1" "$file.once"
    plain "$1" "$file.again"
    # What differs between two runs without the shim says nothing about it.
    diff "$file.once" "$file.again"
    mv "$file.once" "$file"
}

policy_of() {
    printf '{"version": 1, "rules": [{"send": "%s", "ack": "%s"}]}' "$1" "$2"
}

# with_shim PLACE: the results with the shim in $T/shimmed. It governed sockets there, but for those of before its
# own start.
with_shim() {
    local says=' sockets [1-9]' level=info
    [[ $1 != constructor ]] || says=': no TCP socket$' level=debug
    rm -f "$T/log"
    NAGLESHIM_LOG=$level NAGLESHIM_LOG_FILE=$T/log calls "$1" "$LIBRARY" "$T/shimmed" || {
        echo "exit status $?"
        return 1
    }
    grep -qE "$says" "$T/log"
}

# same PLACE SEND ACK: the results with the shim under that policy are those without.
same() {
    as_plain "$1"
    NAGLESHIM_POLICY=$(policy_of "$2" "$3") with_shim "$1" || {
        echo "$1 under $2 and $3"
        return 1
    }
    diff "$BATS_FILE_TMPDIR/$1" "$T/shimmed" || {
        echo "$1 under $2 and $3: < without the shim, > with it"
        return 1
    }
}

# recorded PLACE: the same with the library that observes, and there is a record of it.
recorded() {
    mkdir -p "$T/record"
    as_plain "$1"
    NAGLESHIM_RECORD=$T/record calls "$1" "${LIBRARY%.so}-observe.so" "$T/observed"
    diff "$BATS_FILE_TMPDIR/$1" "$T/observed" || {
        echo "$1, observed: < without a library, > with it"
        return 1
    }
    # A constructor that runs before the library's own is not observed.
    [[ $1 == constructor || $(find "$T/record" -name '*.record' | wc -l) -gt 0 ]]
}

same_under_every_policy() {
    local send ack failed=0
    for send in nodelay auto-cork adaptive flush-before-read app; do
        for ack in before-wait app; do
            same "$1" "$send" "$ack" || failed=1
        done
    done
    recorded "$1" || failed=1
    [[ $failed -eq 0 ]]
}

@test "every call answers the same under nodelay" {
    same main nodelay before-wait
    same main nodelay app
}

@test "every call answers the same under auto-cork" {
    same main auto-cork before-wait
    same main auto-cork app
}

@test "every call answers the same under flush-before-read" {
    same main flush-before-read before-wait
    same main flush-before-read app
}

@test "every call answers the same where sending is the program's own affair" {
    same main app before-wait
    same main app app
}

@test "every call answers the same with the library that observes" {
    recorded main
    NAGLESHIM_EXPERIMENT=push recorded main
}

@test "every call answers the same with the policy that is built in" {
    unset NAGLESHIM_POLICY
    as_plain main
    with_shim main
    diff "$BATS_FILE_TMPDIR/main" "$T/shimmed"
}

@test "every call answers the same although a rule gives the kernel other options than the program asks for" {
    as_plain main
    # Neither is one that the program could tell by what the kernel does then.
    NAGLESHIM_POLICY='{"version": 1, "rules": [{"sockopt": {"TCP_KEEPIDLE": {"set": 77},
        "TCP_KEEPINTVL": {"min": 9999}, "SO_KEEPALIVE": {"set": 1}}}]}' with_shim main
    diff "$BATS_FILE_TMPDIR/main" "$T/shimmed"
}

@test "every call answers the same from a constructor that runs before the shim's" {
    same_under_every_policy constructor
}

@test "every call answers the same after fork" {
    same_under_every_policy fork
}

@test "every call answers the same in a child of vfork" {
    same_under_every_policy vfork
}

@test "every call answers the same in a signal handler that interrupts a blocking read" {
    same_under_every_policy handler
}

@test "every call answers the same in a thread after another was cancelled" {
    same_under_every_policy cancelled
}

@test "every call answers the same while the program exits" {
    same_under_every_policy atexit
}

@test "every call answers the same from a plugin" {
    same_under_every_policy plugin
}

@test "the kernel, not the shim, meets a description that lies nowhere" {
    local send
    export PROBE_BAD_ADDRESSES=1
    plain main "$T/plain"
    for send in nodelay auto-cork adaptive flush-before-read app; do
        NAGLESHIM_POLICY=$(policy_of "$send" before-wait) with_shim main
        diff "$T/plain" "$T/shimmed"
    done
    mkdir "$T/record"
    NAGLESHIM_RECORD=$T/record calls main "${LIBRARY%.so}-observe.so" "$T/observed"
    diff "$T/plain" "$T/observed"
}

@test "the calls above are all of those that the shim takes" {
    gcc -E -P -x c -D'NS_CALL(result, name, parameters, failure)=name' shim/base/calls.def |
        tr -s ' ' '\n' | grep . >"$T/names"
    as_plain main
    local name missing=''
    while read -r name; do
        grep -qE -- "(^|[^A-Za-z0-9_])$name(\(|:| )" "$BATS_FILE_TMPDIR/main" || missing+="$name "
    done <"$T/names"
    [[ $(wc -l <"$T/names") -gt 50 && -z $missing ]] || {
        echo "never called: $missing"
        return 1
    }
}

@test "the shim was there, and governed the sockets of the calls above" {
    NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE=$T/log NAGLESHIM_POLICY=$(policy_of auto-cork before-wait) \
        calls main "$LIBRARY" "$T/shimmed"
    cat "$T/log"
    grep -qE 'sockets [1-9][0-9]+, .*bursts held [1-9][0-9]*, pushes [1-9][0-9]*, .*ACKs [1-9]' "$T/log"
}

@test "a library that only touches errno where it should not is found out" {
    cat >"$T/bad.c" <<'END'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
int dup(int fd) { errno = 0; return fcntl(fd, F_DUPFD, 0); }
END
    gcc -shared -fPIC -o "$T/bad.so" "$T/bad.c"
    as_plain main
    calls main "$T/bad.so" "$T/bad"
    run diff "$BATS_FILE_TMPDIR/main" "$T/bad"
    [[ $status -eq 1 ]]
}
