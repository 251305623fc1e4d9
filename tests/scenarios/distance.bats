# SPDX-License-Identifier: MIT
# Promise: Over a wire of 10 ms each way, a request takes its round trips and does not wait for a delayed ACK.
# Parts: 2

load ../helpers/common
load ../helpers/matrix

setup() {
    ns_setup
    [[ $NS_ISOLATED == 1 ]] || ns_skip "no network namespace of one's own"
    ns_python
    line 10000
}

# line OPTION...: starts a line, instead of the one before. The options are those of delay_line.py.
line() {
    [[ -z ${NS_PID[line]-} ]] || ns_stop line
    ns_start line "$PROBES/prompt" "$python" tests/probes/bench/delay_line.py "$@"
    ns_wait_for_tun line '^near '
    FAR=(nsenter --net="/proc/${NS_PID[line]}/ns/net")
}

# post LEAST MOST: the median time of a POST in two writes to a server at the far end is between LEAST and MOST milliseconds.
# on_server and on_client are the environments of both programs.
post() {
    local delayed server=("${FAR[@]}" "$EXAMPLES/queue_server" 0)
    local client=("$EXAMPLES/queue_put" --warmup 20 10.99.0.2 PORT 15)
    in_time post_once "$@"
}

# Half of the 15 requests have taken too long.
post_once() {
    local median
    run_both
    median=$(field median_us "$T/client.out")
    holds "$median > $1 * 1000 && $median < $2 * 1000" ||
        is_late "8 * ($median / 1000 - $2)" "the median request takes $median us, not $1 to $2 ms"
}

@test "10 ms away: without the library, a POST in two writes takes a delayed ACK in addition to the round trips" {
    local on_server=() on_client=()
    post 55 200 # 40 ms of them for the round trips
}

@test "10 ms away: with the library on the client only, a POST in two writes takes one round trip" {
    local on_server=() on_client=(LD_PRELOAD="$LIBRARY")
    post 20 28
}

@test "10 ms away: with the library on the server only, a POST in two writes takes two round trips" {
    local on_server=(LD_PRELOAD="$LIBRARY") on_client=()
    post 40 48
}

# turns SERVER CLIENT [CLIENTS]: probes/turns.py at both ends, with the words in the arrays at_server and at_client in
# front of each command. The client runs CLIENTS times (1). Sets, for what this has caused: acks (pure ACKs of the end that
# has the library in this test) and stalls.
turns() {
    local side=near before count total
    [[ $measured != server ]] || side=far
    before=$(acks_of "$side")
    # shellcheck disable=SC2086 # words
    ns_serve server "${FAR[@]}" "${at_server[@]}" "$python" -S tests/probes/turns.py server 0 $1
    for ((count = 0; count < ${3:-1}; count++)); do
        # shellcheck disable=SC2086 # words
        timeout 60 "${timed[@]}" "${at_client[@]}" "$python" -S tests/probes/turns.py client 10.99.0.2 "$port" $2 >"$T/client.out" 3>&-
    done
    ns_join server
    total=$(acks_of "$side")
    acks=$((total - before)) stalls=$(field stalls "$T/client.out")
}

# acks_of near|far: prints the number of pure ACKs that this end has sent.
acks_of() {
    local known
    known=$(grep -c '^far packets' "$T/line.out") || true
    kill -USR1 "${NS_PID[line]}"
    until [[ $(grep -c '^far packets' "$T/line.out") -gt $known ]]; do sleep 0.01; done
    field acks <(grep "^$1 packets" "$T/line.out")
}

# few_more MEASURED SERVER CLIENT [CLIENTS]: the end MEASURED has the library once and once not. With it, it sends at most
# 40 more pure ACKs and 5 % more. The library reports that it has treated the connections.
few_more() {
    local measured=$1
    in_time compare "${@:2}"
}

# A needless ACK may come of an interruption that was as long as a wait.
compare() {
    local with=(env LD_PRELOAD="$LIBRARY" NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/log")
    local at_server=() at_client=() acks stalls without
    turns "$@"
    without=$acks
    [[ $measured == server ]] && at_server=("${with[@]}") || at_client=("${with[@]}")
    turns "$@"
    grep -q ' sockets [1-9]' "$T/log"
    holds "$acks <= 1.05 * $without + 50" ||
        is_late "$acks - 1.05 * $without - 50" "$acks pure ACKs, $without without the library"
}

@test "both ends send on their own clock: needless ACKs end" {
    line 10000
    few_more client '100 1 nodelay : w60 f10' '25 1 nodelay : w60 f100'
}

@test "one request in 40 in two pieces: the server learns from the first one that stalls" {
    local measured=server at_server=() at_client=() acks stalls words
    words=$(printf 'w210 r100 %.0s' {1..39})
    in_time each_stalls 6 "240 1 nodelay : r210 s5 w100" "6 1 : $words m75 w10 w200 r100"
    at_server=(env LD_PRELOAD="$LIBRARY")
    in_time most_stalls 2 6 "240 1 nodelay : r210 s5 w100" "6 1 : $words m75 w10 w200 r100"
}

# each_stalls ROUNDS SERVER CLIENT: the control. An interruption for as long as a delayed ACK takes lets a round flow.
each_stalls() {
    turns "${@:2}"
    ((stalls == $1)) || is_late "40 * ($1 - $stalls)" "$stalls of $1 rounds stall"
}

# most_stalls MOST ROUNDS SERVER CLIENT: so many of the rounds may stall, over a new line.
most_stalls() {
    line 10000
    [[ -z ${route-} ]] || $route
    turns "${@:3}"
    ((stalls <= $1)) || is_late "${misled:-20 * ($stalls - $1)}" "$stalls of $2 rounds stall"
}

@test "jitter of 20 ms does not look like a peer that waits for ACKs" {
    line -j 20000 20000
    few_more server '80 1 : r210 w100' '80 1 nodelay : w10 w200 r100'
}

@test "what one keep-alive connection has learned, the next ones know" {
    line 1000
    few_more server '10 12 nodelay : r210 s5 w500' '10 1 : w210 r500' 12
}

@test "an answer of three or thirty segments on a slow line does not get an ACK for each" {
    line -r 1000 10000
    few_more client '60 1 : r100 w20 w4000' '60 1 : w100 r4020'
    line -r 1000 40000 # the congestion window keeps full segments waiting for ACKs
    few_more client '16 1 : r100 w42000' '16 1 : w100 r42000'
}

@test "a piece that is larger than this end's own segments may still be late" {
    local measured=client at_server=() at_client=(env LD_PRELOAD="$LIBRARY") acks stalls route=small_segments
    # Answers that an interruption of 8 ms delays look late by chance. After two of them ACKs are skipped until three answers have
    # stalled, and after two more until seven have.
    local misled=32
    in_time most_stalls 6 60 '60 1 : r100 w20 w900' '60 1 : w100 m55 r920'
}

small_segments() {
    ip route change 10.99.0.2 dev "$(ip -o route get 10.99.0.2 | grep -o 'dev [^ ]*' | cut -d' ' -f2)" mtu 576 advmss 1400
}

waits_for_two() {
    local median
    turns '40 1 : r100 w100 w200' '40 1 : w100 all300'
    median=$(field median_us "$T/client.out")
    holds "$median < 46000" || is_late "20 * ($median / 1000 - 46)" "the median round takes $median us"
}

@test "a reader with MSG_WAITALL waits for two round trips, and for no delayed ACK" {
    local measured=client at_server=() at_client=(env LD_PRELOAD="$LIBRARY") acks stalls
    in_time waits_for_two
}

# trickle US COUNT COMMAND...: COUNT records, one every US microseconds, from the near end, whose sender COMMAND starts. After each
# note of them the far end sends something, which another thread reads if reader is thread. If it is stdin, the connection is that of
# the sender, too; more and cork are two writes a record (trickle.py). Sets median, p99 and segments.
trickle() {
    local known
    ns_serve server "${FAR[@]}" "$python" -S tests/probes/trickle.py sink 2003 "${note:-0}"
    timeout 60 "${timed[@]}" "${@:3}" "$python" -S tests/probes/trickle.py send 10.99.0.2 "$port" 100 "$1" "$2" \
        "${buffer:-0}" ${reader:+"$reader"} 3>&-
    ns_join server
    acks_of near >/dev/null
    segments=$(field data <(grep '^near packets' "$T/line.out"))
    median=$(field median_us "$T/server.out") p99=$(field p99_us "$T/server.out")
}

# fills OPTION...: a trickle over a line with these options is as fast as without the library.
fills() {
    local median p99 segments without longest
    line "$@"
    trickle 1000 2000 env
    without=$median longest=$p99
    line "$@"
    trickle 1000 2000 env LD_PRELOAD="$LIBRARY" NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/log"
    grep -q ' TCP_NODELAY set [1-9]' "$T/log"
    # What an interruption holds up, the line cannot catch up with for hundreds of records: each of them is later by its time.
    holds "$median < 1.1 * $without && $p99 < 1.5 * $longest" ||
        is_late "($p99 >= 1.5 * $longest) * ($p99 - 1.5 * $longest) / 1000 + ($median >= 1.1 * $without) * ($median - $without) / 1000" \
            "median $median us, 99th percentile $p99; without the library $without and $longest"
}

@test "a trickle that nearly fills its line is as fast as with Nagle's algorithm" {
    in_time fills -r 1000 10000
}

@test "a trickle that nearly fills its line is as fast as with Nagle's algorithm, also if stdio may read the connection" {
    reader=stdin in_time fills -r 1000 10000
}

@test "a trickle whose program corks each record is as fast as with Nagle's algorithm, if it nearly fills its line" {
    local reader
    for reader in more cork; do
        echo "with $reader:"
        in_time fills -r 1000 10000
    done
}

# A record comes every 5 ms. As many are sent together, or late, as fall into an interruption: of 400, a quarter moves the median.
leaves_sooner() {
    line 10000
    trickle 5000 400 env LD_PRELOAD="$LIBRARY"
    holds "$median < $without && $segments > 1.3 * $few" ||
        is_late "5 * ($median >= $without ? 100 : 1.3 * $few - $segments)" \
            "median $median us, without the library $without; $segments segments, without it $few"
}

@test "a trickle that nearly fills its line is left to Nagle's algorithm, also if a thread reads a note now and then" {
    local note=10 median p99 segments
    line -r 1000 10000
    trickle 1000 4000 env LD_PRELOAD="$LIBRARY"
    echo "$segments segments, median $median us"
    holds "$segments < 1500"
    line -r 1000 10000
    reader=thread trickle 1000 4000 env LD_PRELOAD="$LIBRARY"
    echo "$segments segments, median $median us, if another thread reads the notes"
    holds "$segments < 1500"
    line -r 4000 10000 # the control: this line has room for a segment for each record
    trickle 1000 2000 env LD_PRELOAD="$LIBRARY"
    echo "$segments segments where there is room, median $median us"
    holds "$segments > 1000"
}

# The control: with TCP_NODELAY there are more. On a busy machine the kernel joins some of them.
fills_by_nodelay() {
    line 10000
    trickle 0 2000 env LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY='{"version": 1, "rules": [{"send": "nodelay"}]}'
    holds "$segments > 700" || is_late 30 "$segments segments with TCP_NODELAY"
}

# The send buffer counts the memory of a segment, which is several times that of its 100 bytes. With an interval of 0 us, the
# program has no wait but for room in the buffer.
@test "records that fill a small send buffer are left to Nagle's algorithm, with waits between them and without" {
    local buffer=2048 interval median p99 segments
    for interval in 1000 0; do
        line 10000
        trickle "$interval" 2000 env LD_PRELOAD="$LIBRARY"
        echo "each $interval us: $segments segments"
        holds "$segments < 500"
    done
    in_time fills_by_nodelay
}

# An interruption of 7 ms fills this one, too.
has_room() {
    line 10000
    trickle 1000 2000 env LD_PRELOAD="$LIBRARY"
    holds "$segments > 1500" || is_late 7 "$segments segments, median $median us"
}

@test "records for which a send buffer has room leave one by one" {
    local buffer=16384 median p99 segments
    in_time has_room
}

@test "requests of which several are outstanding are not left to Nagle's algorithm where round trips vary" {
    local note=1 median p99 segments
    line -j 10000 10000
    trickle 2000 1500 env LD_PRELOAD="$LIBRARY"
    echo "$segments segments, median $median us"
    holds "$segments > 800"
    line -j 10000 10000 # the control: Nagle's algorithm joins them
    trickle 2000 1500 env
    echo "$segments segments without the library, median $median us"
    holds "$segments < 500"
}

# asks_after_upload MOST WORD [FIRST]: after an upload that fills the line, requests in two writes wait for their answers by WORD. At
# most MOST of them stall. FIRST prepares WORD before the upload (WORD0).
asks_after_upload() {
    local measured=client at_server=() at_client=(env LD_PRELOAD="$LIBRARY") acks stalls upload
    upload=$(printf 'w100 %.0s' {1..10})
    upload=$(printf "$upload s2 %.0s" {1..300})
    line -r 1000 10000
    turns "40 1 r300000 w1 : r210 w100" "40 1 ${3-${2}0} $upload ${2}1 : m55 w10 w200 ${2}100"
    ((stalls <= $1)) || is_late "40 * ($stalls - $1)" "$stalls of 40 requests stall ($2)"
}

@test "requests after an upload that has filled the line do not stall, whichever thread, stream or process reads the answers" {
    in_time asks_after_upload 0 thread
    in_time asks_after_upload 2 stream
    in_time asks_after_upload 2 child reader0
    in_time asks_after_upload 0 attempt
}

@test "a trickle with spare bandwidth leaves sooner, in more segments, unless the shipped policy says otherwise" {
    local median p99 segments without few
    line 10000
    trickle 5000 400 env
    without=$median few=$segments
    line 10000
    trickle 5000 400 env LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY="$PWD/config/policies/trickle.json"
    echo "$segments segments with the policy, $few without the library"
    holds "$segments < 1.3 * $few"
    in_time leaves_sooner
}
