# SPDX-License-Identifier: MIT
# Promise: No broken policy file harms the program that reads it, the judge reports no stall without its proof, and no record,
# no answer to sock_diag, no ELF file and no memory of a process harms the command.
# Computes: it fuzzes.
# Parts: 2
# Runs the fuzzers of tests/fuzz with AddressSanitizer and UBSan: with inputs from a fixed seed, and with
# FUZZ_SECONDS (make fuzz: 600) for that long with new inputs. A failing input is written to build/fuzz/crashes.

BATS_TEST_TIMEOUT=$((${FUZZ_SECONDS:-0} + 640))
load ../../helpers/common
load ../../helpers/policies

setup() {
    ns_setup
    FUZZERS=$PWD/build/fuzz
    CRASHES=$FUZZERS/crashes
}

# fuzz NAME [DIRECTORY]...: starts from the inputs in these. runs: how many, without FUZZ_SECONDS.
fuzz() {
    local name=$1 seconds=${FUZZ_SECONDS:-0} most=(-seed=1 -runs="${runs:-20000}")
    shift
    [[ $seconds -eq 0 ]] || most=(-max_total_time="$seconds")
    mkdir -p "$T/new" "$CRASHES"
    timeout "$((seconds + 600))" "$FUZZERS/$name" "${most[@]}" -max_len=16384 -len_control=0 -timeout=20 \
        -artifact_prefix="$CRASHES/$name-" "$T/new" "$@" >"$T/log" 2>&1 3>&- ||
        wrong "$(tail -n 60 "$T/log")"
}

@test "no policy text crashes the parser, and the parser accepts only policies that it can represent" {
    unpack_policies "$T"
    fuzz policy "$T/valid" "$T/bad" config/policies
}

@test "whatever the samples of a connection, the judge never reports a stall without its proof" {
    fuzz judge
}

# Writes a record of a client that stalls to $T/records, as tests/fuzz/record.c reads it: without its holes.
make_record() {
    ns_python
    mkdir -m 700 "$T/record" "$T/records"
    ns_serve server "$EXAMPLES/tcp_nodelay_server" --connections 0 0 0
    env LD_PRELOAD="$OBSERVER" NAGLESHIM_RECORD="$T/record" "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 20
    "$python" - "$T/record"/*.record "$T/records/client" <<'PYTHON'
import struct, sys
head, slot, event, page = 1136, 392, 144, 4096
record = open(sys.argv[1], "rb").read()
slots, events = struct.unpack_from("<II", record, head - 24)
events_at = page + -(-8192 * slot // page) * page
assert slots == 1 and events > 20
with open(sys.argv[2], "wb") as seed:
    seed.write(bytes([slots]) + record[:head] + record[page:page + slot] + record[events_at:events_at + event * events])
PYTHON
}

@test "no record that a process leaves crashes the report, or puts control characters into it" {
    make_record
    runs=2000 fuzz record "$T/records"
}

@test "no answer of sock_diag is read beyond its end, or crashes the judge" {
    fuzz diag
}

@test "no ELF file and no memory of a process is read beyond its end, and holes of a terabyte are not read" {
    runs=3000 fuzz elf
    fuzz status
}

@test "each fuzzer detects a deliberate difference" {
    local name CRASHES=$T/crashes
    unpack_policies "$T"
    make_record
    for name in policy judge record diag elf status; do
        NS_FUZZ_BROKEN=1 FUZZ_SECONDS='' run fuzz "$name" "$T/valid" "$T/bad" "$T/records"
        [[ $status -ne 0 && $output == *'not true: '* ]]
    done
}
