#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: The library works on aarch64 as on x86-64.
# shellcheck disable=SC2154 # helpers/common.bash sets $port
# The cross-compiled library for aarch64 in programs that qemu runs; their peers run on this machine. qemu does not pass
# TCP_INFO on, so segments are counted in the network namespace.

BATS_TEST_TIMEOUT=600 # a processor that is emulated is slow
load ../../helpers/common

cork='{"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": 100000}]}'

setup() {
    ns_setup
    LIBRARY=$(realpath build/aarch64)/libnagleshim.so
    PROBES=$PWD/build/aarch64/probes
    FOREIGN=$PWD/build/aarch64/examples
    # LD_PRELOAD of the emulated program, not of qemu.
    QEMU=(timeout -s KILL 20 qemu-aarch64 -L /usr/aarch64-linux-gnu)
    SHIM=(-E LD_PRELOAD="$LIBRARY")
}

segments_sent() {
    awk '/^Tcp:/ { if (!n) n = split($0, names); else split($0, values) }
        END { for (i = 1; i <= n; i++) if (names[i] == "OutSegs") print values[i] }' /proc/net/snmp
}

# packets ROUNDS [OPTION-OF-QEMU]...: the client; sets stalls and segments.
packets() {
    local rounds=$1 before
    shift
    before=$(segments_sent)
    ns_start server "$EXAMPLES/tcp_nodelay_server" 0 0
    ns_port server
    "${QEMU[@]}" -E NAGLESHIM_LOG=info -E NAGLESHIM_LOG_FILE="$T/log" "$@" "$FOREIGN/tcp_nodelay_client" \
        --stats --warmup 4 127.0.0.1 "$port" "$rounds" >"$T/client.out" 3>&-
    ns_join server
    stalls=$(field stalls "$T/client.out")
    segments=$(($(segments_sent) - before))
}

@test "the file passes the tests of elf.bats" {
    file -L "$LIBRARY" | grep -q 'ARM aarch64'
    NS_ELF_LIBRARY=$LIBRARY run bats --filter '^(it|its|all) ' tests/file/elf.bats
    echo "$output"
    [[ $status -eq 0 && $(grep -c '^ok' <<<"$output") -ge 9 ]]
}

@test "the client stalls without the library" {
    local stalls segments
    packets 20
    [[ $stalls -ge 12 && ! -e $T/log ]]
}

@test "with the library the client does not stall, and neither does a client of this machine if the server has it" {
    local stalls segments
    packets 120 "${SHIM[@]}"
    grep -q 'sockets 1' "$T/log"
    # 15 segments each if bursts are not joined. The first bursts are slow because qemu translates their code; the library
    # then does not join some of the next ones.
    [[ $stalls -le 1 && $segments -le $((124 * 10)) ]]
    ns_start server "${QEMU[@]}" "${SHIM[@]}" "$FOREIGN/tcp_nodelay_server" 0 0
    ns_port server
    "$EXAMPLES/tcp_nodelay_client" --stats --warmup 4 127.0.0.1 "$port" 20 >"$T/client.out"
    ns_join server
    [[ $(field stalls "$T/client.out") -le 1 ]]
}

@test "under auto-cork the 15 writes of a packet are one segment" {
    local stalls segments
    NAGLESHIM_POLICY=$cork packets 20 "${SHIM[@]}"
    cat "$T/log"
    # One segment each way, and those of the connection itself.
    [[ $stalls -le 1 && $segments -le $((24 * 4)) ]]
    holds "$(field held "$T/log" | tr -d ,) >= 24"
}

@test "a child of vfork does not change the state of its parent's descriptors" {
    local policy
    for policy in '{"version": 1, "rules": [{}]}' "$cork"; do
        NAGLESHIM_POLICY=$policy "${QEMU[@]}" "${SHIM[@]}" "$PROBES/life_processes" vfork >"$T/vfork"
        [[ $(field wrong "$T/vfork") -eq 0 ]]
    done
}

@test "the library defines all names of the call table" {
    run "${QEMU[@]}" "${SHIM[@]}" "$PROBES/libc_lacks"
    [[ $status -eq 0 && $output == *'lacks '* ]]
    run "${QEMU[@]}" "$PROBES/libc_lacks"
    [[ $status -ne 0 ]]
}
