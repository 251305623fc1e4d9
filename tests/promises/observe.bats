# SPDX-License-Identifier: MIT
# Promise: The observing library changes nothing, and records the stalls that the kernel counts.
# The number of stalls in a record equals TcpExtDelayedACKs in the test's own network namespace, which tests/run makes.

load ../helpers/common

setup() {
    ns_setup
    ns_prompt
    ns_python
    PROBE=("$python" tests/probes/observe.py)
    unset NAGLESHIM_EXPERIMENT
    RECORD=$T/record
    mkdir -m 700 "$RECORD"
}

teardown() {
    [[ $RECORD != /dev/shm/* ]] || rm -rf "$RECORD"
    ns_teardown
}

# observed COMMAND...: runs it with the observing library, which records in $RECORD.
observed() {
    env LD_PRELOAD="$OBSERVER" NAGLESHIM_RECORD="$RECORD" \
        NAGLESHIM_LOG=debug NAGLESHIM_LOG_FILE="$T/log" "$@"
}

# Writes the records as text to $T/shown.
show() {
    build/unit/show_record "$RECORD" >"$T/shown"
    cat "$T/shown"
}

# sum NAME: the sum of this number over all connections of the record.
sum() {
    awk -v name="$1" '/^connection/ { for (i = 1; i < NF; i++) if ($i == name) sum += $(i + 1) }
        END { print sum + 0 }' "$T/shown"
}

serve() {
    ns_serve server "$python" tests/probes/turns.py server 0 0 0 : all12 w3
}

# scene NAME [STATUS]: runs the scene of the probe, observed. Sets delayed to the number of delayed ACKs.
scene() {
    local before status=0
    before=$(ns_delayed_acks)
    observed "${PROBE[@]}" "$port" "$1" >"$T/scene" || status=$?
    delayed=$(($(ns_delayed_acks) - before))
    [[ $status -eq ${2:-0} ]] || wrong "$1: exit status $status" "$T/scene" "$T/log" || return
    show
}

# counted N: at least N stalls were recorded, and as many as there were delayed ACKs.
counted() {
    local stalls differ
    stalls=$(($(sum stalls) + $(sum maybe)))
    differ=$((stalls > delayed ? stalls - delayed : delayed - stalls))
    echo "stalls $stalls, delayed ACKs $delayed"
    [[ $stalls -ge $1 && $differ -le 1 ]]
}

# pair SERVER... -- CLIENT...: runs both, observed.
pair() {
    local server=() before
    while [[ $1 != -- ]]; do
        server+=("$1")
        shift
    done
    shift
    before=$(ns_delayed_acks)
    ns_serve server observed "${server[@]}"
    observed "${@//PORT/$port}" >"$T/client"
    kill "${NS_PID[server]}" 2>/dev/null || true
    delayed=$(($(ns_delayed_acks) - before))
    show
}

@test "the stalls of a client that writes fifteen times are counted at both ends" {
    pair "$EXAMPLES/tcp_nodelay_server" 0 0 -- "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 PORT 25
    counted 20
    grep -q '^connection of tcp_nodelay_client: .*pattern "write 2 (6 times), 7 more writes, write 2 (2 times), wait"' "$T/shown"
    grep -q '^connection of tcp_nodelay_client: .*grade "proven"' "$T/shown"
}

@test "requests of one write and requests with TCP_NODELAY are not recorded as stalls" {
    serve
    scene connections
    [[ $(sum stalls) -eq 0 && $(sum late) -eq 0 && $(sum requests) -eq 300 ]]
    grep -q 'connections 300 .*grade "none"' "$T/shown"
    rm "$RECORD"/*
    scene nodelay
    [[ $(sum stalls) -eq 0 ]]
    grep -q 'connections [1-9].*grade "none"' "$T/shown"
}

@test "a wait that ends for another reason is not recorded as an answer" {
    serve
    scene woken
    counted 2
}

@test "the connections of every thread are counted, and one that another thread reads from" {
    serve
    scene threads
    counted 7
    [[ $(sum calls) -ge 24 ]] # while the record was made, too
    rm "$RECORD"/*
    scene reader
    counted 2
}

@test "a forked child has its own record, and so has a program after exec" {
    serve
    scene forks
    counted 7
    grep -q '^records 2 ' "$T/shown"
    rm "$RECORD"/*
    scene execs
    counted 4
    grep -q '^records 2 ' "$T/shown"
    [[ $(awk '/^process/ { print $2 }' "$T/shown" | uniq | wc -l) -eq 1 ]] # of one process
}

@test "a record survives SIGKILL" {
    serve
    scene killed 137
    counted 2
}

@test "a process that drops its privileges continues to record" {
    [[ $EUID -eq 0 ]] || ns_skip "only root has privileges to drop"
    serve
    scene drop_first
    counted 2
    rm "$RECORD"/*
    scene drop_later
    counted 5
}

@test "a program that overwrites its environment with a title is recorded in the requested directory" {
    serve
    scene title
    counted 2
}

@test "hundreds of connections to slow readers are not sampled at each wait" {
    ns_needs_strace
    timeout 60 strace -qq -o "$T/calls" -e trace=ioctl,getsockopt -E LD_PRELOAD="$OBSERVER" \
        -E NAGLESHIM_RECORD="$RECORD" "${PROBE[@]}" 1 slow_readers >"$T/scene"
    grep -q '^done$' "$T/scene"
    wc -l "$T/calls"
    [[ $(wc -l <"$T/calls") -lt 20000 && $(wc -l <"$T/calls") -gt 200 ]] # 200 connections, 100 waits
}

@test "if the record cannot be made, the program runs as usual: no directory, not a directory, a limit of file size" {
    serve
    local place
    for place in "$T/none" "$python" ''; do
        RECORD=$place observed "${PROBE[@]}" "$port" one >"$T/scene"
        grep -q '^done$' "$T/scene"
    done
    grep -q "nothing is recorded: the record could not be made: $T/none/" "$T/log"
    # A limit of file size, which would raise SIGXFSZ.
    (ulimit -f 1000 && observed "${PROBE[@]}" "$port" one >"$T/scene")
    grep -q '^done$' "$T/scene"
    show
    grep -q '^records 0 ' "$T/shown"
}

@test "a full file system ends the recording and not the program" {
    ns_mount_namespace
    [[ ${#mounts[@]} -gt 0 ]] || ns_skip "no mount namespace of one's own"
    serve
    # There is room for the first part of a record, but not for the samples.
    "${mounts[@]}" bash -c 'mount -t tmpfs -o size=76k none "$1" && LD_PRELOAD=$2 \
        NAGLESHIM_RECORD=$1 "${@:3}" one && build/unit/show_record "$1"; status=$?; umount "$1"; exit $status' - \
        "$RECORD" "$OBSERVER" "${PROBE[@]}" "$port" >"$T/shown"
    cat "$T/shown"
    grep -q '^done$' "$T/shown"
    grep -qE 'looks 0 lost [1-9]' "$T/shown"
    [[ $(sum requests) -eq 4 ]]
}

@test "only its user can read a record, and it contains no data and no arguments" {
    serve
    scene one
    local file
    file=$(find "$RECORD" -name '*.record')
    [[ $(stat -c %a "$file") == 600 ]]
    [[ $(du -k "$file" | cut -f1) -lt 1024 ]]
    run ! grep -qaE 'head|bodies|done' "$file"
}

# trace FILE PRELOAD COMMAND...: traces its calls from the first connect on, without details that differ between two runs.
trace() {
    local file=$1 preload=$2
    shift 2
    timeout 60 strace -f -qq -o "$file.raw" -E LD_PRELOAD="$preload" \
        -E NAGLESHIM_RECORD="$RECORD" "$@" >"$file.out" 2>&1 </dev/null
    # malloc's calls come at different times.
    awk '/connect\(/ { found = 1 } found && !/ (brk|getrandom)\(/ { $1 = ""; print }' "$file.raw" |
        sed -E 's/0x[0-9a-f]+/ADDRESS/g; s/= [0-9]{3,}$/= NUMBER/' >"$file"
    [[ -s $file ]]
}

# The calls that make a record, once per process.
start_up='prlimit64|openat\(.*\.record|fstatfs(64)?\(|ftruncate\(|mmap2?\(|clock_getres_time64\(|madvise\(|close\([0-9]+\)|getpid|getppid|readlink\('
looks='getsockopt\(|get(sock|peer)name\(|fcntl(64)?\([0-9]+, F_GETFL\)|ioctl\([0-9]+, (SIOCOUTQNSD|_IOC\(_IOC_NONE, ADDRESS, ADDRESS, 0\))'

@test "an observed program makes the same calls; the library adds only queries, one ioctl per wait, and sets no option" {
    ns_needs_strace
    serve
    trace "$T/plain" '' "${PROBE[@]}" "$port" one
    trace "$T/observed" "$OBSERVER" "${PROBE[@]}" "$port" one
    diff "$T/plain" "$T/observed" >"$T/differs" || true
    cat "$T/differs"
    run ! grep -q '^<' "$T/differs"
    grep '^>' "$T/differs" >"$T/more"
    grep -q TCP_INFO "$T/more"
    run ! grep -vE "^> +($start_up|$looks)" "$T/more"
    run ! grep -q setsockopt "$T/more"
    [[ $(grep -cE 'ioctl' "$T/more") -eq 4 ]] # one per wait
}

@test "on a socket with TCP_NODELAY a wait takes no sample" {
    ns_needs_strace
    serve
    trace "$T/observed" "$OBSERVER" "${PROBE[@]}" "$port" nodelay
    grep -q SO_COOKIE "$T/observed"
    run ! grep -q ioctl "$T/observed"
    [[ $(grep -c TCP_INFO "$T/observed") -le 1 ]] # the round-trip time, after a connection's first long wait
}

@test "after the program has installed a seccomp filter, the observing library makes no call" {
    ns_needs_strace
    local way
    for way in filter filter-by-number; do
        # shellcheck disable=SC2153 # not PROBE
        trace "$T/observed" "$OBSERVER" "$PROBES/steps" connected write*2 wait "$way" write*2 wait
        sed '1,/SECCOMP/d' "$T/observed" >"$T/after"
        grep -q ioctl "$T/observed"
        grep -q poll "$T/after"
        run ! grep -E 'ioctl|getsockopt' "$T/after"
    done
}

# measure EXPERIMENT: runs a client that stalls under that experiment.
measure() {
    rm -f "$RECORD"/*
    NAGLESHIM_EXPERIMENT=$1 pair "$EXAMPLES/tcp_nodelay_server" 0 0 -- \
        "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 PORT 60
}

@test "an experiment measures the gain of a push or of an ACK, and is made only on request" {
    local experiment with without
    for experiment in push acknowledge; do
        measure "$experiment"
        read -r with without < <(awk '/^process/ && / with [1-9]/ { print $(NF - 3), $NF }' "$T/shown")
        holds "8 * $with < $without && $without > 30"
        [[ $experiment == acknowledge || ($(sum stalls) -lt 50 && $(sum stalls) -gt 10) ]]
    done
    measure something
    run ! grep -q ' with [1-9]' "$T/shown"
}
