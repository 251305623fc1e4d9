#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: On Linux 5.10 and newer the library uses the features of the kernel, works without missing ones, and scales to 100 000 sockets.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # helpers/matrix.bash uses what is set here, and sets $median, ...
# Tests that need their own kernel, or differ between kernels. tests/systems/kernels/run runs them in a virtual machine,
# with the files that tests/systems/kernels/guest names. NS_KERNEL is the kernel that should run there.

BATS_TEST_TIMEOUT=600 # a processor that is emulated is slow
load ../../helpers/common
load ../../helpers/matrix

teardown() {
    [[ ! -e $T/lossy ]] || tc qdisc del dev lo root
    ns_teardown
}

rule() {
    printf '{"version": 1, "rules": [{%s}]}' "$1"
}

@test "the requested kernel runs" {
    [[ $(uname -r) == "$NS_KERNEL" && $NS_ISOLATED == 1 ]]
}

@test "the built-in policy on either end, or on both, cures the stall" {
    local where
    policy=''
    for where in writing other both; do
        flow redhat "$where" -
        flow queue "$where" -
    done
}

@test "options that this kernel lacks fail as without the library" {
    cat >"$T/options.py" <<'END_OF_PROGRAM'
import errno, socket

def say(what, call):
    try:
        print(what, call())
    except OSError as error:
        print(what, errno.errorcode[error.errno])

listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
for option in range(1, 64):
    # The results of TCP_INFO, TCP_TIMESTAMP and TCP_CC_INFO change with every call.
    if option not in (11, 24, 26):
        say(f"get {option}", lambda: near.getsockopt(socket.IPPROTO_TCP, option))
for value in (8000, 40000):
    say(f"set 46 to {value}", lambda: near.setsockopt(socket.IPPROTO_TCP, 46, value))
    say("get 46", lambda: near.getsockopt(socket.IPPROTO_TCP, 46))
END_OF_PROGRAM
    python3 "$T/options.py" >"$T/without"
    grep -c ENOPROTOOPT "$T/without"
    NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE=$T/log LD_PRELOAD=$LIBRARY python3 "$T/options.py" >"$T/with"
    grep -qE 'sockets [1-9]' "$T/log"
    diff "$T/without" "$T/with"
}

has_kernel_tls() {
    modprobe -q tls || ns_skip 'this kernel was built without kTLS'
}

@test "kTLS records arrive complete and in time in every mode" {
    local send
    has_kernel_tls
    for send in nodelay auto-cork adaptive flush-before-read; do
        NAGLESHIM_POLICY=$(rule "\"send\": \"$send\", \"max_delay_us\": 100000") \
            LIFE_LIMIT_MS=80 LD_PRELOAD=$LIBRARY timeout 20 "$PROBES/life_kernel" kernel-tls >"$T/out"
        cat "$T/out"
        run ! grep -q 'no kTLS here' "$T/out"
        [[ $(field late "$T/out") -eq 0 ]]
    done
}

@test "the test detects a record that stays open" {
    has_kernel_tls
    run ! env MISTAKE=hold LD_PRELOAD="$PROBES/mistakes.so" timeout 20 "$PROBES/life_kernel" kernel-tls
    [[ $output == *'did not arrive'* ]]
}

@test "with 100 000 sockets a write, a poll and a wait cost as many instructions as with ten, and memory use is limited" {
    # Programs under valgrind cannot raise the soft limit with which valgrind was started.
    ulimit -n "$(ulimit -Hn)"
    tests/bench/run --quick --json "$T/scale.json" \
        --only 'a write and a poll: *, 1 threads' --only 'each of 1 pending' --only 'each of 100 pending' \
        --only 'memory: added, 100000'
    # Prints the figures even if the test passes. The targets are those of the bench.
    python3 - "$T/scale.json" >&3 <<'END_OF_PROGRAM'
import json, sys

rows = json.load(open(sys.argv[1]))["rows"]
for row in rows:
    print(f"# {row['name']}: {row['measured']:.1f} {row['unit']}")
assert len(rows) == 7 and not any(row["verdict"] == "over" for row in rows)
END_OF_PROGRAM
}

# A path of 5 ms each way with loss and reordering.
lossy() {
    tc qdisc add dev lo root netem delay 5ms reorder 10% loss 2% || ns_skip 'no netem'
    : >"$T/lossy"
}

# on_lossy SCENARIO WHERE ROUNDS [BY-HAND]: the programs check every byte; sets $median.
on_lossy() {
    local server client rest writing stalls_by segments_by on_server on_client delayed
    scenario "$1" "$3" 4
    client+=("${@:4}")
    put_shim "$2"
    run_both
    median=$(field median_us "$T/$stalls_by.out")
    echo "$1, $2: median $median us, $(field stalls "$T/$stalls_by.out") of $3 over 20 ms, $policy"
}

@test "with loss and reordering every byte is correct, and a round takes no longer than with the fix by hand" {
    local median send wire
    lossy
    policy=''
    on_lossy redhat nowhere 20
    holds "$median > 40000"
    # The fix by hand shows how long the path takes.
    on_lossy redhat nowhere 100 no_delay
    wire=$median
    on_lossy redhat writing 100
    holds "$median < 1.5 * $wire"
    for send in '"adaptive"' '"auto-cork"'; do
        policy=$(rule "\"send\": $send, \"max_delay_us\": 100000, \"sockopt\": {\"SO_SNDBUF\": \"ignore\"}")
        on_lossy redhat writing 100
        holds "$median < 1.5 * $wire"
        # Nagle's algorithm at the other end still waits for a round trip.
        on_lossy redhat other 100
        holds "$median < 1.5 * $wire + 15000"
        on_lossy record writing 400
        holds "$median < 20000"
    done
}
