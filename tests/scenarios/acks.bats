# SPDX-License-Identifier: MIT
# Promise: An ACK is sent if the peer waits for it, and only then, however the program reads, writes and waits.
# Parts: 2
# Each test runs two ends without the library, then with it in the client, and compares stalls (rounds over 20 ms; a bounded
# delayed ACK takes 8 to 16 ms) and the segments of both ends for each round. The ends act as words of probes/turns.py say.

load ../helpers/common
load ../helpers/matrix

setup() {
    ns_setup
    ns_prompt
    ns_python
}

# run_pattern SERVER CLIENT ROUNDS [VARIABLE=VALUE]...: sets stalls, median (us) and both (segments of both ends for each
# round). Both ends are on one CPU if the array pin says so, since segments depend on which end runs first.
run_pattern() {
    local on_server=() on_client=("${@:4}") server client
    read -ra server <<<"${pin[*]} $python -S tests/probes/turns.py server 0 $3 1 $1"
    read -ra client <<<"${pin[*]} $python -S tests/probes/turns.py client 127.0.0.1 PORT $3 1 $2"
    run_both
    stalls=$(field stalls "$T/client.out") median=$(field median_us "$T/client.out") both=$(field both "$T/client.out")
}

# cured SERVER CLIENT [MOST]: almost every round stalls without the library, and at most two with it, from which the library
# learns. The median round then takes less than MOST us. If it waits for a limited delayed ACK, of 8 to 16 ms, an interruption of
# 4 ms makes it a stall: then at most six do. A quarter of the rounds is not counted.
cured() {
    local pin=() stalls median both delayed
    in_time stalls_once "$1" "$2" 20 13
    in_time cured_once "$1" "$2" "${3:-5000}"
}

# stalls_once SERVER CLIENT ROUNDS LEAST: the control, in which so many rounds stall.
stalls_once() {
    run_pattern "${@:1:3}"
    ((stalls >= $4)) || not_as_expected stalls "$4"
}

cured_once() {
    run_pattern "$1" "$2" 60 LD_PRELOAD="$LIBRARY"
    holds "$stalls <= ($3 > 5000 ? 6 : 2) && $median < $3" || not_as_expected "$([[ $3 -le 5000 ]] && echo flows || echo late)" 60
}

# as_few_segments SERVER CLIENT ROUNDS [FACTOR]: the program sends as few segments as without the library.
as_few_segments() {
    local pin=(taskset -c 0) stalls median both delayed
    in_time compare "$1" "$2" "$3" "${4:-1.05}"
}

compare() {
    local without
    run_pattern "$1" "$2" "$3"
    without=$both
    run_pattern "$1" "$2" "$3" LD_PRELOAD="$LIBRARY"
    # An interruption may cost a segment.
    holds "$both <= $4 * $without" ||
        is_late "0.5 * $3 * ($both - $4 * $without)" "$both segments a round, $without without the library"
}

@test "the bursts of a client that only sends leave in as few segments" {
    as_few_segments ': r560' ': w40 s0.1 w40 w40 w40 w40 w40 w40 s0.1 w40 w40 w40 w40 w40 w40 w40 s0.1' 400
}

@test "reads with MSG_WAITALL that do not stall cost no more segments" {
    as_few_segments 'nodelay : r64 w32 w32' 'nodelay : w64 all64' 1000
}

@test "a reader that waits for a whole answer with MSG_WAITALL does not stall" {
    cured ': r64 w32 w32' 'nodelay : w64 all64'
    cured ': r64 w32 w32' ': w64 vector64'
}

@test "a reader that waits for two messages with recvmmsg does not stall" {
    cured ': r64 w32 w32' ': w64 messages64'
}

@test "a reader that leaves data unread until it is complete waits at most for the shortest delayed ACK of the kernel" {
    local way
    kernel_bounds_delayed_acks || ns_skip "this kernel has no TCP_DELACK_MAX_US"
    for way in 'lowat64 : w64 select r64' 'lowat64 : w64 poll r64' ': w64 peek64' ': w64 count64' ': w64 nap64'; do
        cured ': r64 w32 w32' "$way" 20000
    done
}

@test "a peer of an event loop that never blocks does not stall" {
    cured ': w32 w32 r64' ': loop64 w64'
}

@test "an event loop that never blocks pushes what it has written, in two, five or twenty pieces" {
    cured ': r40 w32' ': w20 w20 loop32'
    cured ': r40 w32' ': w8 w8 w8 w8 w8 loop32'
    cured ': r40 w32' ": $(printf 'w2 %.0s' {1..20})loop32"
}

@test "a forked child that reads the answers to its parent's requests does not stall, and neither does a program that it starts" {
    cured ': r64 w32 w32' ': w64 child64'
    cured ': r64 w32 w32' ': w64 started64'
}

@test "a new forked child for each answer does not stall if its parent writes the requests, or another child does" {
    cured ': r64 w32 w32' ': w64 new64'
    cured ': r64 w32 w32' ': w64 newall64'
    cured 'w1 : r64 w32 w32' 'r1 : fork64 new64'
}

@test "a reader that reads each byte by readv does not stall" {
    cured ': r64 w32 w32' ': w64 bytes64'
}

@test "a reader that asks for more bytes than any read returns does not stall" {
    cured ': r64 w32 w32' ': w64 huge64'
}

@test "a reader that makes a thread for each read does not stall" {
    cured ': r64 w32 w32' ': w64 thread64'
}

@test "a reader that uses splice with SPLICE_F_NONBLOCK does not stall" {
    cured ': r64 w32 w32' ': w64 splice64'
    cured ': r64 w32 w32' ': zerocopy64 splice64'
}

@test "a reader whose waits the library cannot see does not stall, if it tries to read before it waits" {
    cured ': r64 w32 w32' 'nodelay : w64 unseen64'
}

@test "a reader whose waits the library cannot see does not stall, if it reads only when data is there" {
    cured ': r64 w32 w32' 'nodelay : w64 unseenfirst64'
}

@test "a server that reads in two parts, or tries another read before it answers, sends no more segments" {
    as_few_segments 'nodelay : w32 w32 r64' ': attempt64 look1 w64' 500 1.1
    as_few_segments 'nodelay : w32 r64' ': poll look4 look32 w64' 500 1.1
}

# The ACKs of the first 31 rounds are needless, too, but the library cannot know that yet.
@test "answers that take 20 ms cost no more segments once ACKs have proven needless" {
    as_few_segments 'nodelay : r64 s20 w32 w32' 'nodelay : w64 r64' 150 1.2
    as_few_segments 'nodelay : w32 w32 r64' 'nodelay : r64 s20 w64' 150 1.2
}

@test "a server that thinks and has once started a program sends no ACK for each request" {
    as_few_segments 'nodelay : w64 r64' 'nodelay : r64 s14 i210 program w64' 330 1.1
}

@test "a reader with MSG_WAITALL of a server that is slow now and then gets no ACK for each answer" {
    as_few_segments 'nodelay : r64 i3 s10 w64' 'nodelay : w64 all64' 300 1.06
}

@test "requests that are outstanding while a server thinks cost no ACK each" {
    as_few_segments 'nodelay w64 w64 w64 : w64 r64' 'nodelay : r64 s15 w64' 150 1.2
}

# With TCP_NODELAY a request would be two segments. What a wait pushes arrives earlier than without the library.
@test "sixteen outstanding requests in two writes each are left to Nagle's algorithm" {
    as_few_segments ': r15 w5 w200' "$(printf 'w5 w10 %.0s' {1..15}): w5 w10 r205" 2000 1.25
}

pushed_once() {
    run_pattern ': s30 w100 w100' ": r100 m20 r100 i$1 w5" 90 LD_PRELOAD="$LIBRARY"
    ((stalls <= 2)) || is_late "20 * ($stalls - 2)" "$stalls of 90 records stall" "$delayed" 22
}

@test "records that are pushed in two writes come in time, also if the client sends a note now and then" {
    local pin=() stalls median both delayed every
    in_time stalls_once ': s30 w100 w100' ': r100 m20 r100 i3 w5' 60 15
    for every in 1 3 10; do
        in_time pushed_once "$every"
    done
}

@test "a client that only reads larger and larger records, or sets TCP_QUICKACK between two writes, does not stall" {
    local write='w1000 s0.2 w1000 s0.2 w1400'
    cured ": $write s0.2 $write r200" ': r6800 w200'
    cured ': r105 w5 w40' ': w5 quickack w100 r45'
}

# short_connections PRELOAD: fifty clients in turn, with three requests each. Sets segments to those of all of them.
short_connections() {
    ns_serve server env LD_PRELOAD="$1" "$python" -S tests/probes/turns.py server 0 3 50 : r1 s20 w1
    for _ in {1..50}; do
        timeout 20 "$python" -S tests/probes/turns.py client 127.0.0.1 "$port" 3 1 : w1 r1 3>&-
    done >"$T/client.out"
    ns_join server
    segments=$(awk '{ n += 3 * $NF } END { print n }' "$T/client.out")
}

@test "short connections to a server that thinks for 20 ms cost two dozen ACKs together" {
    local segments without
    short_connections "$PROBES/empty.so"
    without=$segments
    short_connections "$LIBRARY"
    holds "$segments <= $without + 26" || wrong "$segments segments, $without without the library"
}

@test "a peer with TCP_NODELAY gets no ACK for each of its writes, once a test has shown that it does not wait" {
    as_few_segments 'nodelay : r64 w32 s0.1 w32 s0.1 w32 s0.1' 'nodelay : w64 r96' 1000 1.06
}

@test "a stream keeps its full segments if it checks for input, flushes or polls for writability between its writes" {
    local writes
    writes=$(printf 'w60 %.0s' {1..50})
    as_few_segments ':' ": $writes look1" 300 1.1
    as_few_segments ':' ": $writes nodelay delay" 300 1.1
    # The answer comes when all is sent. A receiver whose buffer grows would acknowledge at once or late, as chance has it.
    as_few_segments 'rcvbuf30000 : r180000 w1' ": $(printf 'room w60 %.0s' {1..3000}) r1" 5 1.25
    as_few_segments 'rcvbuf30000 : r180000 w1' ": $(printf 'selectroom w60 %.0s' {1..3000}) r1" 5 1.25
}

@test "a forked child that reads requests does not stall if its parent writes the answers, however often it waits" {
    cured ': w100 w300 r50' ': child200 child200 w50'
    cured ': w100 w300 r50' 's1 : child200 child200 w50'
}

@test "a process that reads requests does not stall if its forked children write the answers" {
    cured 'r1 : w100 w300 r50' 'w1 : r400 fork50'
    cured 'r1 : w100 w300 r50' 'w1 : all400 fork50'
}

@test "a process that reads requests does not stall if programs that it starts write the answers" {
    cured 'r1 : w100 w300 r50' 'w1 : r400 cgi50' 9000
}

@test "what a program has learned of ACKs serves its next connection, also after it has closed the last one" {
    ns_serve server "$python" -S tests/probes/turns.py server 0 60 4 : r1 w1
    [[ $(NAGLESHIM_LOG=info LD_PRELOAD="$LIBRARY" "$python" 2>&1 3>&- -c "import socket, time
for turn in range(240):
    s = socket.create_connection(('127.0.0.1', $port)) if turn % 60 == 0 else s
    s.sendall(b'x'), s.recv(1), time.sleep(0.0002), turn % 60 == 59 and s.close()") == *' ACKs '[0-9][0-9],* ]] # not 112
}

# short_connections_stall LIBRARY: sets stalls, the connections whose second answer, two writes, took longer than 20 ms.
short_connections_stall() {
    ns_serve server "$python" -S tests/probes/turns.py server 0 2 60 : r1 w100 w10
    stalls=$(LD_PRELOAD="$1" "$python" 3>&- -c "import socket, time
stalls = 0
for _ in range(60):
    with socket.create_connection(('127.0.0.1', $port)) as s:
        for _ in range(2):
            begun = time.monotonic()
            s.sendall(b'x')
            rest = 110
            while rest:
                rest -= len(s.recv(rest))
        stalls += time.monotonic() - begun > 0.02
print(stalls)")
    ns_join server
}

@test "of short connections to a peer that waits for ACKs, only one in each try without them stalls" {
    local stalls
    short_connections_stall "$PROBES/empty.so"
    ((stalls >= 40)) || wrong "only $stalls connections stalled without the library"
    in_time few_short_connections_stall
}

few_short_connections_stall() {
    short_connections_stall "$LIBRARY"
    ((stalls <= 2)) || is_late "40 * ($stalls - 2)" "$stalls connections stalled"
}
