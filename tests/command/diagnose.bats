# SPDX-License-Identifier: MIT
# Promise: `nagleshim diagnose` proves a program's stalls, counts and prices them, and its policy ends them.
# Parts: 2
# The programs are the unmodified examples. scenarios/seen.table has the programs that must not be called stalling.

load ../helpers/doctor

setup() {
    ns_setup
    ns_python jsonschema
    ns_prompt
}

# on_a_terminal KEYS WORD...: runs the command on a terminal of its own and types KEYS there after 1.5 s. $T/seen gets
# what the terminal shows, and the exit status.
on_a_terminal() {
    "$python" - "$@" >"$T/seen" <<'PYTHON'
import os, pty, signal, sys, time
pid, terminal = pty.fork()
if pid == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL) # ignored in the background
    os.execv(sys.argv[2], sys.argv[2:])
time.sleep(1.5)
os.write(terminal, sys.argv[1].encode())
text = b""
while True:
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        break
    if not piece:
        break
    text += piece
print(text.decode(errors="replace"))
print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PYTHON
}

# slow_server MS: a server that takes MS milliseconds for each answer. Sets port.
slow_server() {
    ns_serve slow "$python" tests/probes/turns.py server 0 0 0 : r "s$1" w6
}

# diagnose_once WORD...: seen from outside, answers on a busy machine come too late for a stall to be certain. From inside a
# stall is always certain.
diagnose_once() {
    run --separate-stderr timeout 30 "${timed[@]}" "$NS" diagnose --json="$T/o.json" "$@"
    [[ ${view-} == inside ]] || maybe_late
}

diagnosed() {
    in_time diagnose_once "$@"
}

@test "a client that stalls is proven to stall, with the cost, from inside and from outside" {
    local view
    victim
    for view in inside outside; do
        [[ $view == inside ]] && set -- || set -- --outside
        diagnosed "$@" -- "$EXAMPLES/tcp_nodelay_client" --stats --warmup 10 127.0.0.1 "$port" 40
        expect 0 output lacks diagnose
        [[ ${stderr_lines[0]} == "nagleshim diagnose: it stalls: "* ]]
        expect_part stderr "TCP_NODELAY off; released after"
        # A view from outside finds the connection later.
        says "$T/o.json" 'o["grade"] == "proven" and rows[0]["role"] == "client" and len(rows) == 1
            and rows[0]["source"] == "'$view'" and rows[0]["stalled"] in range(45 if "'$view'" == "inside" else 5, 51) and o["status"] == 0
            and rows[0]["lost_ms"] >= 36 * rows[0]["stalls"] and len(o["holds"]) >= rows[0]["stalls"]
            and rows[0]["cures"][0]["does"] == "send adaptive" and rows[0]["cures"][0]["from_ms"] > 38
            and rows[0]["cures"][0]["to_ms"] < 10 and o["host"] and o["kernel"].startswith("Linux ")'
    done
}

@test "the proposed policy passes check and ends every stall" {
    local policy
    victim
    run --separate-stderr "$NS" diagnose --write-policy "$T/cure.json" -- "${stalling[@]}"
    expect 0 stderr has "next: $(realpath "$NS") run --policy $T/cure.json -- ${stalling[*]}"
    # Elsewhere, --policy names a file that is read.
    run --separate-stderr "$NS" diagnose --policy "$T/cure.json" -- true
    expect 2 stderr is "nagleshim diagnose: unknown option '--policy'; did you mean --write-policy?"
    run --separate-stderr "$NS" check "$T/cure.json"
    expect 0 stderr is ""
    grep -q '"process":.*tcp_nodelay_client' "$T/cure.json"
    grep -q "\"$port\"" "$T/cure.json"
    # The JSON has the same policy, and the text has it only on request.
    run --separate-stderr "$NS" diagnose --json="$T/o.json" -- "${stalling[@]}"
    policy=$(jq -c .proposal "$T/o.json")
    [[ $stderr != *"$policy"* ]]
    diff <("$python" -m json.tool <<<"$policy") <("$python" -m json.tool "$T/cure.json")
    run --separate-stderr env NAGLESHIM_POLICY="$policy" "$NS" run -- \
        "$EXAMPLES/tcp_nodelay_client" --stats --warmup 10 127.0.0.1 "$port" 200
    expect_part output 'stalls 0'
}

@test "a kernel with 1000 ticks a second makes a stall no less certain from outside, and a slow server no stall" {
    echo '#include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>
    int clock_getres(clockid_t clock, struct timespec *tick) {
        if (clock != CLOCK_MONOTONIC_COARSE) return syscall(SYS_clock_getres, clock, tick);
        *tick = (struct timespec){.tv_nsec = 1000000};
        return 0; }' | gcc -w -shared -fPIC -x c -o "$T/ticks.so" -
    ticking() { LD_PRELOAD=$T/ticks.so diagnosed --outside --for 2 --pid "${NS_PID[client]}"; }
    victim
    ns_start client "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 100000
    ticking
    says "$T/o.json" 'o["grade"] == "proven"'
    ns_stop client
    ns_serve slow "$python" tests/probes/turns.py server 0 0 0 : r100 s48 r300 w6
    ns_start client "$python" tests/probes/turns.py client 127.0.0.1 "$port" 1000 1 : w100 w300 r6
    run --separate-stderr env LD_PRELOAD="$T/ticks.so" "$NS" diagnose --outside --json="$T/o.json" --for 2 --pid "${NS_PID[client]}"
    says "$T/o.json" 'o["grade"] not in ("proven", "likely") and rows[0]["maybe"] > 3'
}

@test "a connection that takes long to be made is found from outside" {
    ns_serve server "$python" tests/probes/turns.py server 0 0 0 : r400 w50
    diagnosed --outside -- "$python" -c 'import socket, sys, time
s = socket.socket()
time.sleep(0.1)
s.connect(("127.0.0.1", int(sys.argv[1])))
for _ in range(15):
    s.send(b"x" * 100)
    s.send(b"x" * 300)
    s.recv(50)' "$port"
    says "$T/o.json" 'o["grade"] == "proven" and rows[0]["stalls"] >= 5'
}

@test "a static program is seen from outside, and a cure is proposed for its other end if that can be preloaded" {
    gcc -O2 -static -o "$T/static-client" examples/tcp_nodelay_client.c -lrt -pthread 2>/dev/null
    gcc -O2 -static -o "$T/static-server" examples/tcp_nodelay_server.c -lrt -pthread 2>/dev/null
    victim
    diagnosed --write-policy "$T/cure.json" -- "$T/static-client" --warmup 10 127.0.0.1 "$port" 30
    expect 0 stderr has "linked statically"
    says "$T/o.json" 'rows[0]["grade"] == "proven" and rows[0]["source"] == "outside"
        and rows[0]["process"]["reachable"] is False and o["proposal"]["rules"][0]["match"]["role"] == "server"'
    ns_stop server
    ns_serve cured env LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY="$T/cure.json" "$EXAMPLES/tcp_nodelay_server" \
        --connections 0 "$port" 0
    run "$T/static-client" --stats --warmup 10 127.0.0.1 "$port" 100
    expect_part output 'stalls 0'
    # If both programs are static, only a cure from outside helps.
    diagnosed -- bash -c '
        rm -f "$0/port"; "$0/static-server" --connections 0 0 0 >"$0/port" & until grep -qs port "$0/port"; do sleep 0.01; done
        "$0/static-client" --warmup 10 127.0.0.1 "$(sed -nE "1s/.*port ([0-9]+).*/\1/p" "$0/port")" 40; kill $!' "$T"
    expect_part stderr " & $(realpath "$NS") cure --follow --pid \$!"
    says "$T/o.json" 'o["grade"] == "proven" and o["proposal"] is None'
}

@test "a program that has an io_uring, and calls libc for its sockets, is not said to be out of reach" {
    victim
    ns_start client "$python" -c 'import ctypes, os, sys
ring = ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(120)) # io_uring_setup
ring < 0 or os.set_inheritable(ring, True)
os.execv(sys.argv[1], sys.argv[1:])' "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 100000
    ns_until 10 "the client" grep -q tcp_nodelay "/proc/${NS_PID[client]}/comm"
    readlink "/proc/${NS_PID[client]}"/fd/* | grep -q io_uring || cannot_here "this kernel makes no io_uring"
    diagnose_once --pid "${NS_PID[client]}" --for 1
    expect_no_part stderr "no preload reaches it"
    says "$T/o.json" 'rows[0]["process"]["reachable"] is True'
    run "$NS" doctor --pid "${NS_PID[client]}"
    expect 1 output has "reason: LD_PRELOAD was not set when it was started"
}

@test "a program that waits or makes sockets without libc is seen from outside, and no preload is proposed for it" {
    local program
    cat >"$T/own.c" <<'END'
#include "raw.h"
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef GO
__asm__(".section .note.go.buildid,\"a\",@note\n.long 4, 4, 4\n.asciz \"Go\\0\"\n.long 0\n.text");
#endif
#ifdef SOCKETS /* everything without libc; otherwise only the waits */
#define socket(a, b, c) (int)RAW(socket, a, b, c, 0)
#define connect(a, b, c) (int)RAW(connect, a, b, c, 0)
#define write(a, b, c) RAW(write, a, b, c, 0)
#define read(a, b, c) RAW(read, a, b, c, 0)
#endif
int main(int argc, char **argv)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[argc - 1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct pollfd one = {fd, POLLIN, 0};
    char byte[30];
    if (connect(fd, (struct sockaddr *)&to, sizeof to))
        return 1;
    for (int i = 0; i < (argc > 2 ? 4000 : 40); i++) {
        for (int j = 0; j < 15; j++)
            if (write(fd, "xx", 2) != 2)
                return 1;
        for (int got = 0; got < 30; got += (int)read(fd, byte, sizeof byte))
            RAW(ppoll, &one, 1, 0, 0);
    }
    return 0;
}
END
    gcc -D_GNU_SOURCE -Itests/probes -o "$T/waits" "$T/own.c"
    gcc -D_GNU_SOURCE -Itests/probes -DSOCKETS -o "$T/sockets" "$T/own.c"
    gcc -D_GNU_SOURCE -Itests/probes -DSOCKETS -DGO -o "$T/go" "$T/own.c"
    ns_serve server "$python" tests/probes/turns.py server 0 0 0 : all30 w30
    for program in waits sockets; do
        diagnosed -- "$T/$program" "$port"
        expect_status 0
        # On a busy machine some stalls are not seen from outside.
        says "$T/o.json" 'o["grade"] == "proven" and o["lost_ms"] > 5 * 36'
    done
    says "$T/o.json" 'rows[0]["process"]["reason"].startswith("makes system calls without libc")'
    expect_part stderr "  # the other end; stop the running one first"
    # The same of a process that runs already. The control is the one that only waits without libc.
    for program in sockets waits; do
        ns_start "$program" "$T/$program" long "$port"
        diagnosed --pid "${NS_PID[$program]}" --for 1
        says "$T/o.json" 'o["grade"] in ("proven", "likely", "cannot-tell")
            and (rows[0]["process"]["reason"] or "").startswith("makes system calls") == ("'$program'" == "sockets")'
        expect_no_part stderr "--experiment"
        [[ $program == waits || $stderr == *"now, without a restart: "*" cure --pid ${NS_PID[sockets]}"* ]]
        run "$NS" doctor --pid "${NS_PID[$program]}"
        [[ $program == waits ]] && expect_part output "LD_PRELOAD was not set" || expect_part output \
            "reason: it makes system calls without libc, which the library does not see; 'nagleshim cure' changes its sockets"
        ns_stop "$program" || true
    done
    # Where a doubt remains, it is decided by whether TCP_NODELAY makes the program faster.
    ns_serve slow "$python" tests/probes/turns.py server 0 40 2 : r30 s30 w30
    run --separate-stderr "$NS" diagnose -- "$T/sockets" "$port"
    expect 0 stderr has "next: $T/sockets $port & $(realpath "$NS") cure --follow --pid \$!  # is it faster then?"
    ns_start again "$T/sockets" long "$port"
    run --separate-stderr "$NS" diagnose --pid "${NS_PID[again]}" --for 1
    expect 0 stderr has "next: $(realpath "$NS") cure --pid ${NS_PID[again]} --for 60  # is it faster in this minute?"
    # With the library loaded, which sees none of its sockets, all verbs say that it does not work there. The control is the
    # program that only waits without libc.
    ns_serve fast "$python" tests/probes/turns.py server 0 0 0 : all30 w30
    local works column
    while read -r program works column; do
        LD_PRELOAD=$LIBRARY ns_start loaded "$T/$program" long "$port"
        diagnosed --pid "${NS_PID[loaded]}" --for 1
        says "$T/o.json" 'rows[0]["process"]["library"] == "'"$column"'"'
        run "$NS" top --pid "${NS_PID[loaded]}" --interval 0.5 --json
        [[ $(jq -r '.rows[] | .process | select(.name == "'"$program"'").library' <<<"$output") == "$column" ]]
        run "$NS" doctor --pid "${NS_PID[loaded]}" --json
        [[ $(jq -r .works <<<"$output") == "$works" ]]
        run "$NS" cure --pid "${NS_PID[loaded]}"
        [[ $works == yes ]] && expect_part output "the library works in this process" || expect_part output "TCP_NODELAY set on 1"
        ns_stop loaded || true
    done <<'END'
waits yes works
sockets unknown ?
go no no
END
}

# bounded FILE: each row claims no more time than the holds of its two ends lasted.
bounded() {
    says "$1" 'all(row["lost_ms"] <= 1 + sum(hold["cost_ms"] for hold in o["holds"] if hold["row"] in (i, row["other_end"]))
        for i, row in enumerate(o["rows"]))'
}

# finds_server_once: a diagnosis of the relay names the server's stalls first, or after the relay's own: the client delays its ACK
# for as long as the server holds the rest of an answer.
finds_server_once() {
    diagnose_once --pid "${NS_PID[$kind]}" --for 2
    jq -e --argjson relay "${NS_PID[$kind]}" --arg service "127.0.0.1:$server" '
        .status == 0 and (.grade | IN("proven", "likely")) and ([.rows[] | select(.process.pid != $relay)][0] |
            .role == "server" and .service == $service and (.grade | IN("proven", "likely")))' "$T/o.json" || doubt_is_late
}

@test "a delay behind the peer is no stall of this connection, and the next command finds it" {
    local kind turns=("$python" tests/probes/turns.py) server own
    ns_serve server "${turns[@]}" server 0 0 0 : r7 w17 w100
    server=$port
    # The control: without a relay the same answers are held on this connection.
    diagnosed -- "${turns[@]}" client 127.0.0.1 "$server" 60 1 : w7 r117
    says "$T/o.json" 'o["grade"] == "proven" and peers[0]["grade"] == "proven"'
    bounded "$T/o.json"
    for kind in parts nodelay whole; do
        ns_serve "$kind" "$python" tests/probes/behind.py relay "$kind" "$server"
        diagnosed -- "${turns[@]}" client 127.0.0.1 "$port" 60 1 : w7 r117
        expect_status 0
        bounded "$T/o.json"
        # On a busy machine the server may be acknowledged at once, and then the relay's own second write waits.
        ns_wait_for "$T/$kind.out" '^own '
        own=$(field own "$T/$kind.out")
        says "$T/o.json" '(o["grade"] in ("none", "cannot-tell") or '"$own"' > 10) and o["lost_ms"] <= 1.2 * '"$own"
        expect_part stderr "[${NS_PID[$kind]}], the peer, itself waited for 127.0.0.1:$server, "
        expect_part stderr "next: $(realpath "$NS") diagnose --pid ${NS_PID[$kind]} --for 10  # the peer: what does it wait for?"
        ns_start client "${turns[@]}" client 127.0.0.1 "$port" 100000 1 : w7 r117
        in_time finds_server_once
        ns_stop client
        ns_stop "$kind"
    done
}

@test "what a known peer opens to the chosen process belongs to both, and is not behind the peer" {
    ns_serve peer "$python" tests/probes/crossed.py peer
    ns_start server "$python" tests/probes/crossed.py server "$port"
    run --separate-stderr "$NS" diagnose --pid "${NS_PID[server]}" --for 4 --json="$T/o.json"
    says "$T/o.json" 'any(row["process"]["pid"] == '"${NS_PID[peer]}"' and row["connections"] == 12 for row in peers)'
}

@test "a reader is told that the peer's program waits for its ACK, and an experiment proves it" {
    local client
    ns_serve acked "$python" tests/probes/behind.py acked
    client=("$python" tests/probes/turns.py client 127.0.0.1 "$port" 60 1 : w7 r117)
    run --separate-stderr "$NS" diagnose -- "${client[@]}"
    expect 0 stderr has "a delayed ACK of python3" stderr has \
        "${NS_PID[acked]}], the peer, held nothing, so its program may wait for that ACK" stderr has \
        "next: $(realpath "$NS") diagnose --experiment acknowledge -- ${client[*]}  # is the answer sooner?"
    run --separate-stderr "$NS" diagnose --json="$T/o.json" --experiment acknowledge -- "${client[@]}"
    expect 0 stderr has "waited for this end's delayed ACK" stderr has "next: $(realpath "$NS") run -- ${client[*]}"
    says "$T/o.json" 'o["grade"] == "proven" and rows[0]["cures"][0]["measured"] and rows[0]["cures"][0]["does"] == "ack before-wait"
        and len(rows[0]["cures"]) == 1'
    # The control: the program does what the report says.
    "$NS" run -- "${client[@]}" >"$T/client.out"
    holds "$(field median_us "$T/client.out") < 10000"
}

@test "the exit status is the program's, or that of --fail-on and --max-lost-ms" {
    victim
    run -7 "$NS" diagnose -- sh -c 'exit 7'
    run -143 "$NS" diagnose -- sh -c 'kill -TERM $$'
    run -1 "$NS" diagnose --fail-on proven -- "${stalling[@]}"
    run -1 "$NS" diagnose --max-lost-ms 100 -- "${stalling[@]}"
    run -0 "$NS" diagnose --max-lost-ms 100000 -- "${stalling[@]}"
    run --separate-stderr "$NS" diagnose --fail-on likely -- true
    expect 2 stderr has "cannot tell: no TCP connection"
    # The program's own status is printed if the exit status differs from it.
    run --separate-stderr "$NS" diagnose --fail-on likely --json="$T/o.json" -- sh -c 'exit 7'
    expect 2 stderr has "cannot tell: no TCP connection" stderr has "the program itself ended with status 7"
    says "$T/o.json" 'o["status"] == 2 and o["messages"] == ["the program itself ended with status 7"]'
    run --separate-stderr "$NS" diagnose --fail-on likely -- sh -c '"$@"; exit 7' sh "${stalling[@]}"
    expect 1 stderr has "the program itself ended with status 7"
    slow_server 1
    run --separate-stderr "$NS" diagnose --fail-on likely --json="$T/o.json" -- \
        sh -c '"$@"; exit 7' sh "$python" tests/probes/turns.py client 127.0.0.1 "$port" 40 1 : w7 r6
    expect 2 stderr has "no stall: " stderr has "the program itself ended with status 7"
    says "$T/o.json" 'o["status"] == 2'
    run -127 --separate-stderr "$NS" diagnose -- no-such-program
    expect_whole stderr "nagleshim diagnose: cannot find 'no-such-program' in PATH"
    run -127 --separate-stderr "$NS" diagnose 4711
    expect_whole stderr "nagleshim diagnose: cannot find '4711' in PATH; for the process with this number write --pid 4711"
    run -127 --separate-stderr "$NS" diagnose -- $'./a\n\e[31mname'
    expect_whole stderr "nagleshim diagnose: cannot run './a??[31mname': No such file or directory"
    run -126 --separate-stderr "$NS" diagnose -- /
    expect_whole stderr "nagleshim diagnose: cannot run '/': Permission denied"
}

@test "with --json on standard output, what the program prints goes to standard error" {
    run --separate-stderr "$NS" diagnose --json -- sh -c 'echo out of the way'
    jq -e '.command == "diagnose"' <<<"$output"
    expect_part stderr "out of the way"
}

@test "the reading end of a stall names the end that holds the bytes, also across network namespaces" {
    victim
    ns_start client "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 100000
    diagnosed --pid "${NS_PID[server]}" --for 2 --fail-on proven
    expect_status 1
    says "$T/o.json" 'o["grade"] == "proven" and [row["grade"] for row in rows] == ["held-by-the-peer"]
        and peers[0]["grade"] == "proven" and peers[0]["process"]["pid"] == '"${NS_PID[client]}"
    expect_part stderr "held by the peer, tcp_nodelay_client[${NS_PID[client]}]"
    ns_stop client
}

@test "two processes of one name in a PID namespace have a row each" {
    victim
    run --separate-stderr "$NS" diagnose --json="$T/o.json" -- unshare --pid --fork --mount-proc \
        sh -c '"$0" 127.0.0.1 "$1" 60 & "$0" 127.0.0.1 "$1" 12; wait' "$EXAMPLES/tcp_nodelay_client" "$port"
    says "$T/o.json" '[row["grade"] for row in rows].count("proven") == 2'
}

@test "if the peer cannot be examined, a wait as long as a delayed ACK is no proof that nothing stalls" {
    local holder
    [[ $NS_ISOLATED == 1 ]] || cannot_here "no network namespace of one's own"
    unshare --net sleep infinity 3>&- &
    holder=$!
    NS_STARTED+=("$holder")
    until [[ $(readlink "/proc/$holder/ns/net") != "$(readlink /proc/self/ns/net)" ]]; do sleep 0.01; done
    ip link add near type veth peer name far netns "$holder"
    ip addr add 10.99.1.1/24 dev near
    ip link set near up
    nsenter --net="/proc/$holder/ns/net" sh -c 'ip addr add 10.99.1.2/24 dev far; ip link set far up; ip link set lo up'
    # In a PID namespace of its own, the command does not see the client.
    ns_serve server nsenter --net="/proc/$holder/ns/net" unshare --pid --fork --mount-proc --kill-child \
        sh -c '"$0" --connections 0 0 0 & exec "$1" diagnose --pid $! --for 3 --fail-on likely' \
        "$EXAMPLES/tcp_nodelay_server" "$NS"
    ns_start client "$EXAMPLES/tcp_nodelay_client" 10.99.1.2 "$port" 100000
    local ended=0
    ns_join server || ended=$?
    cat "$T/server.err"
    [[ $ended -eq 2 ]]
    grep -q '^nagleshim diagnose: cannot tell: .* only the peer.s end shows whether it was held until that ACK came' "$T/server.err"
    grep -qx 'next: nagleshim diagnose --all --for 10  # as root, on the host of 10.99.1.1' "$T/server.err"
    ip link del near
}

@test "the report on a program that corks its requests names the cork, and not a peer that waits for an ACK" {
    slow_server 0
    run --separate-stderr "$NS" diagnose -- "$python" -c 'import socket, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
for _ in range(10):
    one.send(b"request"), one.recv(6)' "$port"
    expect 0 stderr has "no stall: 10 requests" stderr has "the program's own TCP_CORK or MSG_MORE held bytes, 10 times"
}

@test "a program that asks now and then is not told that its peer waits for an ACK" {
    local pause
    slow_server 0
    # The shorter one is about as long as a delayed ACK.
    for pause in 0.2 0.045; do
        run --separate-stderr "$NS" diagnose -- "$python" -c 'import socket, sys, time
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for _ in range(12):
    one.send(b"request"), one.recv(6), time.sleep(float(sys.argv[2]))' "$port" "$pause"
        expect 0 stderr has "no stall: 12 requests"
    done
}

@test "a process that waited for a CPU is named, and for how long" {
    local cpu said own
    cpu=$(taskset -cp $$ | sed -E 's/.*: ([0-9]+).*/\1/')
    slow_server 20
    # Without the priority of this test, which other tests would have to wait for.
    ns_start busy nice -n 20 taskset -c "$cpu" sh -c 'while :; do :; done'
    run --separate-stderr "$NS" diagnose -- nice -n 20 taskset -c "$cpu" "$python" -c 'import socket, sys, time
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for _ in range(40):
    one.send(b"request"), one.recv(50)
    until = time.thread_time() + 0.02
    while time.thread_time() < until: pass
print(int(open("/proc/self/schedstat").read().split()[1]) // 1000000)' "$port"
    ns_stop busy
    own=$output said=$(sed -nE '1s/.* waited for a CPU, for ([0-9]+) ms in all$/\1/p' <<<"$stderr")
    # The control is what the kernel told the process at its end.
    expect 0 stderr has "; or python3" && holds "$own / 3 <= $said && $said <= $own"
}

# steal TICKS: prints a /proc/stat in which a hypervisor has taken two CPUs for so many ticks of USER_HZ each.
steal() {
    printf 'cpu  1 2 3 4 5 6 7 %d 0 0\n' $((2 * $1))
    printf 'cpu%d 1 2 3 4 5 6 7 %d 0 0\n' 0 "$1" 1 "$1"
    echo intr 7
}

@test "CPUs that a hypervisor took are named, and for how long" {
    local ticks there=(unshare --mount sh -c 'mount --bind "$0" /proc/stat && exec "$@"' "$T/stat")
    steal 0 >"$T/stat"
    "${there[@]}" true || cannot_here "/proc/stat cannot be replaced"
    slow_server 20
    for ticks in 0 30; do
        steal 0 >"$T/stat"
        run --separate-stderr "${there[@]}" "$NS" diagnose -- "$python" -c 'import socket, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for i in range(40):
    if i == 20: open(sys.argv[2], "w").write(sys.argv[3])
    one.send(b"request"), one.recv(50)' "$port" "$T/stat" "$(steal "$ticks")"
        expect 0 stderr has "no stall: " stderr has "; the longest delay: "
        case $ticks in
        0) expect_no_part stderr "hypervisor" ;;
        *) expect_part stderr "; or the hypervisor took this machine's CPUs, each for 300 ms in all" ;;
        esac
    done
}

# ignoring_children WORD...: start it with SIGCHLD ignored, as some supervisors do
ignoring_children() {
    timeout -s KILL 30 "$python" -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}

@test "the command works if SIGCHLD is ignored, and the program inherits that" {
    local ignored
    ignored=$(ignoring_children grep SigIgn /proc/self/status)
    run --separate-stderr ignoring_children "$NS" diagnose -- grep SigIgn /proc/self/status
    expect 0 output is "$ignored"
    run -7 ignoring_children "$NS" diagnose -- sh -c 'exit 7'
    run ignoring_children "$NS" run -- grep SigIgn /proc/self/status
    expect 0 output is "$ignored"
    run -0 ignoring_children "$NS" compare --runs 5 -- true
}

@test "what cure refuses is not proposed: for an MPTCP connection nothing helps without a restart" {
    local end
    gcc -shared -fPIC -D_GNU_SOURCE -x c -o "$T/mptcp.so" - -ldl <<'END'
#include <dlfcn.h>
#include <sys/socket.h>
int socket(int family, int type, int protocol)
{
    int (*next)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    return next(family, type, (type & 15) == SOCK_STREAM && family == AF_INET ? 262 : protocol);
}
END
    "$python" -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)' || cannot_here 'the kernel has no MPTCP'
    for end in "LD_PRELOAD=$T/mptcp.so" 'PLAIN=1'; do
        ns_serve server env "$end" "$EXAMPLES/tcp_nodelay_server" 0 0
        ns_start client env "$end" "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 100000
        diagnosed --pid "${NS_PID[client]}" --for 1
        expect 0 stderr has "next: $(realpath "$NS") run -- $EXAMPLES/tcp_nodelay_client 127.0.0.1 $port 100000"
        [[ $end == PLAIN=1 ]] || expect_no_part stderr 'cure --'
        ns_stop client
        ns_join server || true
    done
    expect_part stderr 'now, without a restart: ' # the control
    # Nor for static programs, which no preload reaches, if this command starts one.
    cat >"$T/wrap.c" <<'END'
#include <sys/socket.h>
int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
    return __real_socket(family, type, (type & 15) == SOCK_STREAM && family == AF_INET ? 262 : protocol);
}
END
    for end in client server; do
        gcc -O2 -static "examples/tcp_nodelay_$end.c" -lrt -pthread -o "$T/$end" 2>/dev/null
        gcc -O2 -static -Wl,--wrap=socket "examples/tcp_nodelay_$end.c" "$T/wrap.c" -lrt -pthread -o "$T/mptcp-$end" 2>/dev/null
    done
    for end in mptcp- ''; do
        ns_serve server "$T/${end}server" 0 0
        diagnosed -- "$T/${end}client" 127.0.0.1 "$port" 100
        [[ -z $end ]] || expect 0 stderr has "next: set TCP_NODELAY, or write each request at once, in the source of mptcp-client" stderr lacks 'cure --'
        ns_join server || true
    done
    expect_part stderr ' cure --follow --pid $!' # the control
}

@test "--pid watches a running process for a time and does not disturb it" {
    victim
    # Of the names as many as there is room for: with the last one a byte would be missing.
    local name=VARIABLE_OF_THIRTY_LETTERS_NR_
    ns_start client env -S "ROCKET_PORT=8000 ${name}1=1 ${name}2=2 ${name}3=3 ANOTHER_VARIABLE=4" \
        "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 100000
    diagnosed --pid "${NS_PID[client]}" --for 1
    expect 0 stderr has "  # with its variables: ROCKET_PORT, ${name}1, ${name}2, ${name}3"$'\n'
    # The control: this command has the variable, too.
    ROCKET_PORT=1 diagnosed --pid "${NS_PID[client]}" --for 2
    expect 0 stderr lacks "ROCKET_PORT"
    says "$T/o.json" 'o["grade"] in ("proven", "likely") and o["watched_ms"] >= 1900
        and rows[0]["process"]["pid"] == '"${NS_PID[client]}"
    expect_part stderr "next: $(realpath "$NS") run -- $EXAMPLES/tcp_nodelay_client 127.0.0.1 $port 100000"
    expect_part stderr "now, without a restart: $(realpath "$NS") cure --pid ${NS_PID[client]}"
    kill -0 "${NS_PID[client]}"
    ns_stop client
    # It has a title of its own, or variables by which something has told it where its files are.
    cp "$EXAMPLES/tcp_nodelay_client" "$T/client"
    ns_start client bash -c "exec -a 'worker [idle]' '$T/client' 127.0.0.1 $port 100000"
    diagnosed --pid "${NS_PID[client]}" --for 1
    expect 0 stderr has "run -- $T/client ITS ARGUMENTS" stderr lacks worker
    ns_stop client
    NEAR=$T NEARER=$T ns_start client "$T/client" 127.0.0.1 "$port" 100000
    diagnosed --pid "${NS_PID[client]}" --for 1
    expect 0 stderr has "run -- PROGRAM  # the one that starts client"
}

@test "for a process of a systemd unit its unit is proposed, whatever names its user gives groups; in a container the container" {
    local root group proposed
    root=$(findmnt -nfo TARGET -t cgroup2) || cannot_here "no cgroup2 file system is mounted"
    victim
    while read -r group proposed; do
        mkdir -p "$root/$group" 2>/dev/null || cannot_here "control groups cannot be made"
        ns_start client sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$root/$group" \
            "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 100000
        diagnosed --pid "${NS_PID[client]}" --for 1
        ns_stop client
        (cd "$root" && rmdir -p "$group" 2>/dev/null) || true
        expect 0 stderr has "next: $proposed"
    done <<GROUPS
system.slice/docker-$$.service $(realpath "$NS") host enable --unit docker-$$
system.slice/system-app.slice/app@$$.service $(realpath "$NS") host enable --unit app@$$
system.slice/__app-$$.service $(realpath "$NS") host enable --unit _app-$$
system.slice/app-$$.service/system.slice/theirs.service $(realpath "$NS") host enable --unit app-$$
app-$$.service/system.slice/theirs.service $(realpath "$NS") run -- $EXAMPLES/tcp_nodelay_client
system.slice/app-$$.scope/theirs.service $(realpath "$NS") run -- $EXAMPLES/tcp_nodelay_client
docker/$$ install -D -m 0644 /usr/local/share/nagleshim/container/cdi.json /etc/cdi/nagleshim.json  # then start its container with 
system.slice/docker-$$.scope install -D -m 0644 /usr/local/share/nagleshim/container/cdi.json /etc/cdi/nagleshim.json  # then start its container with 
GROUPS
    # If no preload reaches either end, the kernel does.
    gcc -O2 -static -o "$T/client" examples/tcp_nodelay_client.c -lrt -pthread 2>/dev/null
    gcc -O2 -static -o "$T/server" examples/tcp_nodelay_server.c -lrt -pthread 2>/dev/null
    group=system.slice/static-$$.service
    mkdir -p "$root/$group"
    ns_serve static "$T/server" --connections 0 0 0
    ns_start client sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$root/$group" "$T/client" 127.0.0.1 "$port" 100000
    diagnosed --pid "${NS_PID[client]}" --for 1
    ns_stop client
    (cd "$root" && rmdir -p "$group" 2>/dev/null) || true
    expect 0 stderr has "next: $(realpath "$NS") cure --unit static-$$"
}

@test "a process that ends soon after it was seen keeps its name" {
    local one='exec 3<>"/dev/tcp/127.0.0.1/$0"; read -rt 0.006 <&3; echo >&3; read -rN6 <&3'
    slow_server 1
    # A list of the kernel's sockets takes long, so that it sees few of such short connections, and sometimes none.
    for _ in {1..10}; do
        run --separate-stderr "$NS" diagnose --outside --json="$T/o.json" -- \
            bash -c 'for ((i = 0; i < 100; i++)); do bash -c "$0" "$1"; done; true' "$one" "$port"
        grep -q '"rows":[[:space:]]*\[\]' "$T/o.json" || break
    done
    says "$T/o.json" 'rows and {row["process"]["name"] for row in rows} == {"bash"}'
}

diagnose_as_other() {
    run --separate-stderr "${timed[@]}" "${as_other[@]}" "$T/nagleshim" diagnose -- "$T/client" "${stalling[@]:1}"
    maybe_late
}

@test "another user's process needs permission" {
    [[ $EUID -eq 0 ]] || cannot_here "not root"
    victim
    let_others_in "$T"
    cp "$NS" "$T/nagleshim"
    cp "${stalling[0]}" "$T/client"
    run --separate-stderr "${as_other[@]}" "$T/nagleshim" diagnose --pid "${NS_PID[server]}" --for 1
    expect 3 stderr has "process ${NS_PID[server]}: permission denied: "
    # Such a process, at the other end, has no number.
    in_time diagnose_as_other
    expect_part stderr "another user's process, server on "
    # This is also true if a child of the process belongs to the caller.
    ns_start parent bash -c 'setpriv --reuid=65534 --regid=65534 --clear-groups sleep 5; true'
    sleep 0.3
    run -3 --separate-stderr "${as_other[@]}" "$T/nagleshim" diagnose --pid "${NS_PID[parent]}" --for 1
    # It is also true for a started program that becomes another user.
    cp "$(command -v sleep)" "$T/other"
    chown 65533 "$T/other"
    chmod 4755 "$T/other"
    run --separate-stderr "${as_other[@]}" "$T/nagleshim" diagnose --fail-on likely --for 0.3 -- "$T/other" 0.5
    expect 3 stderr has "note: 1 process could not be examined: "
}

# Any user may listen on each port for a moment.
@test "a client is no server because somebody has listened on its port before" {
    cat >"$T/stale.py" <<'END'
import socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
if sys.argv[1] == "stale":
    other = socket.create_server(("127.0.0.1", 0))
    port = other.getsockname()[1]
    time.sleep(1)
    other.close()
else:
    port = 0
client = socket.socket()
client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
client.bind(("127.0.0.1", port))
client.connect(listener.getsockname())
server = listener.accept()[0]
for _ in range(100):
    client.send(b"r")
    server.send(server.recv(1))
    client.recv(1)
    time.sleep(0.01)
END
    ns_python
    local kind
    for kind in fresh stale; do
        run --separate-stderr "$NS" diagnose --outside --json="$T/o.json" -- "$python" "$T/stale.py" "$kind"
        says "$T/o.json" 'sorted(row["role"] for row in rows) == ["client", "server"]'
    done
}

# Root may type the command, and another user has chosen the program.
@test "a proposed command that starts another user's program says whose it is" {
    { [[ $EUID -eq 0 ]] && has_ptrace; } || cannot_here "other users' processes need root and CAP_SYS_PTRACE"
    local as of
    victim
    let_others_in "$T"
    cp "${stalling[0]}" "$T/client"
    for as in "${as_other[*]}" env; do
        # shellcheck disable=SC2086 # several words
        ns_start client $as "$T/client" 127.0.0.1 "$port" 100000
        diagnosed --pid "${NS_PID[client]}" --for 1
        of='  # it runs as user 65534'
        [[ $as != env ]] || of=
        grep -qE "^next: .*nagleshim (run|diagnose) -- $T/client 127.0.0.1 $port 100000(  # restarted, it is seen from inside)?$of$" \
            <<<"$stderr" || unexpected
        ns_stop client
    done
}

@test "with --for the report comes while the program is running, and its status is passed on later" {
    victim
    ns_start diagnosis "$NS" diagnose --for 1 --json="$T/o.json" -- sh -c \
        '"$0" --warmup 10 127.0.0.1 "$1" 100; exit 5' "$EXAMPLES/tcp_nodelay_client" "$port"
    ns_wait_for "$T/diagnosis.err" '^next: '
    kill -0 "${NS_PID[diagnosis]}"
    [[ ! -s $T/diagnosis.out ]]
    says "$T/o.json" 'o["status"] is None and rows[0]["requests"] > 0'
    ns_join diagnosis || status=$?
    [[ $status -eq 5 ]]
    grep -q '^100 packets' "$T/diagnosis.out"
}

@test "^C ends the program, or the watching of a running process, and the report follows" {
    victim
    on_a_terminal $'\x03' "$NS" diagnose -- "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 1000
    grep -q 'it stalls: [0-9]* of [0-9]* requests of tcp_nodelay_client' "$T/seen"
    grep -qx 'status 130' "$T/seen"
    ns_start client "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 100000
    on_a_terminal $'\x03' "$NS" diagnose --pid "${NS_PID[client]}"
    grep -qF "[${NS_PID[client]}], client of 127.0.0.1:$port: " "$T/seen" || wrong '' "$T/seen"
    grep -qx 'status 0' "$T/seen"
    kill -0 "${NS_PID[client]}"
}

@test "on a narrow terminal sentences are wrapped between words" {
    victim
    on_a_terminal "" /bin/sh -c 'stty cols 70; exec "$@"' sh "$NS" diagnose --experiment push -- \
        "${stalling[@]}"
    grep -q '^experiment: ' "$T/seen"
    [[ $(tr -d '\r' <"$T/seen" | sed '/^next: /d' | sed 's/\x1b\[[0-9;]*m//g' |
        awk '{ if (length > n) n = length } END { print n }') -le 70 ]]
    [[ $(tr -s '\r\n ' ' ' <"$T/seen") == *"requests of tcp_nodelay_client were held by Nagle's algorithm until the peer's delayed ACK came;"* ]]
}

@test "on a terminal the verdict has a colour, unless NO_COLOR is set" {
    victim
    on_a_terminal "" /usr/bin/env -u NO_COLOR TERM=xterm "$NS" diagnose -- "${stalling[@]}"
    [[ $(<"$T/seen") == *$'\e[1;31mit stalls: '*$'\e[1;31mproven\e[0m'* ]]
    on_a_terminal "" /usr/bin/env TERM=xterm NO_COLOR=1 "$NS" diagnose -- "${stalling[@]}"
    [[ $(<"$T/seen") == *'it stalls: '* && $(<"$T/seen") != *$'\e'* ]]
}

@test "a process that the program leaves in the background is named" {
    run --separate-stderr "$NS" diagnose -- bash -c 'sleep 3 >/dev/null 2>&1 3>&- & sleep 0.3; echo $!; exit 4'
    expect 4 stderr has "note: the program has ended, but 1 process that it started is still running; 'nagleshim diagnose --pid $output' examines it"
    kill "$output"
}

@test "signals to the command reach the program" {
    local status=0
    ns_start diagnosis "$NS" diagnose -- sh -c \
        'trap "echo got USR1" USR1; trap "echo got TERM; exit 9" TERM; echo ready; while :; do sleep 0.05; done'
    ns_wait_for "$T/diagnosis.out" ready
    kill -USR1 "${NS_PID[diagnosis]}"
    ns_wait_for "$T/diagnosis.out" 'got USR1'
    kill -TERM "${NS_PID[diagnosis]}"
    wait "${NS_PID[diagnosis]}" || status=$?
    [[ $status -eq 9 ]]
    grep -qx 'got TERM' "$T/diagnosis.out"
}

@test "the report's reader may close the pipe: the exit status is still the program's, and nothing is left behind" {
    local lost statuses=0
    export TMPDIR=$T/tmp
    mkdir "$TMPDIR"
    { "$NS" diagnose -- sh -c 'sleep 0.2; exit 4' 2>&1 || echo $? >"$T/status"; } | true
    [[ $(cat "$T/status") -eq 4 && -z $(ls -A "$TMPDIR") ]]
    { "$NS" diagnose --json -- sh -c 'sleep 0.2; exit 4' 2>"$T/err" || echo $? >"$T/status"; } | true
    [[ $(cat "$T/status") -eq 2 && -z $(ls -A "$TMPDIR") ]]
    grep -qx "nagleshim diagnose: cannot write '-': Broken pipe" "$T/err"
    # If the standard descriptors are closed, the files do not get what the program writes to them.
    "$NS" diagnose --json="$T/o.json" -- sh -c 'echo no >&2 || exit 5' <&- >&- 2>&- || statuses=$?
    says "$T/o.json" "o['status'] == $statuses in (2, 5)"
    # A report that cannot be written is missed, and one that is not wanted is not.
    for lost in '/dev/full' '&-'; do
        statuses=0
        bash -c '"$0" diagnose -- true 2>'"$lost" "$NS" || statuses=$?
        [[ $statuses -eq 2 ]]
    done
    "$NS" diagnose -- true 2>/dev/null
    { "$NS" diagnose -- sleep 0.2 2>&1 || echo $? >"$T/lost"; } | true
    [[ ! -e $T/lost ]]
    # Nor is it missed, without a program, by the file that comes after it.
    ns_start idle sleep 60
    { "$NS" diagnose --json="$T/idle.json" --for 0.2 --pid "${NS_PID[idle]}" 2>&1 || echo $? >"$T/lost"; } | true
    [[ ! -e $T/lost ]]
    says "$T/idle.json" 'o["status"] == 0'
    # The program finds SIGPIPE unchanged.
    run -141 "$NS" diagnose -- sh -c 'yes | head -n 1; kill -PIPE $$' 2>/dev/null
}

# Prints the directories of records that are newer than the file $1.
leftover() {
    find "$TMPDIR" /dev/shm -maxdepth 1 -name 'nagleshim.*' -newer "$1" 2>/dev/null
}

@test "records are kept in memory if possible" {
    [[ $(stat -f -c %T /dev/shm 2>/dev/null) == tmpfs && -w /dev/shm ]] || ns_skip "/dev/shm is no tmpfs"
    TMPDIR=/proc run "$NS" diagnose -- sh -c 'echo "$NAGLESHIM_RECORD"'
    [[ ${lines[0]} == /dev/shm/nagleshim.* ]]
}

@test "another user's directories with the names of those for records do not keep the command at work" {
    local opened
    [[ $EUID -eq 0 ]] && unshare --mount true 2>/dev/null || cannot_here "only root can make them another user's"
    ns_needs_strace
    mkdir "$T/shm"
    unshare --mount bash -c 'mount -t tmpfs none "$0" && mkdir -m 700 "$0"/nagleshim.diagnose.xxx{a..z}{a..z}{a..g} &&
        chown 65534 "$0"/* && TMPDIR=$0 strace -f -qq -e trace=openat -o "$1" "${@:2}"' "$T/shm" "$T/calls" "$NS" diagnose -- true
    opened=$(grep -c 'nagleshim.diagnose.xxx' "$T/calls")
    [[ $opened -gt 1000 && $opened -le 4096 ]] || wrong "$opened of 4732 were opened"
}

@test "no record and no directory is left behind, however the program ends" {
    export TMPDIR=$T/tmp
    mkdir "$TMPDIR"
    touch "$T/before"
    victim
    "$NS" diagnose -- "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 10 >/dev/null 2>&1
    "$NS" diagnose --for 0.2 -- sleep 0.5 2>/dev/null
    "$NS" diagnose -- sh -c 'kill -KILL $$' 2>/dev/null || true
    "$NS" diagnose -- no-such-program 2>/dev/null || true
    local at
    for at in {1..20}; do # each of its allocations fails once
        LD_PRELOAD=$PROBES/faults.so FAULT_CALL=allocation FAULT_AT=$at "$NS" diagnose -- "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 3
    done >/dev/null 2>"$T/messages" || true
    grep -q 'there is no memory left' "$T/messages"
    # Other tests may have directories of their own for a while.
    local i
    for ((i = 0; i < 200; i++)); do
        [[ -n $(leftover "$T/before") ]] || break
        sleep 0.1
    done
    [[ $i -lt 200 ]]
}

@test "only records in the original directory are removed" {
    export TMPDIR=$T/tmp
    "$NS" diagnose -- sh -c 'echo "$NAGLESHIM_RECORD" >"$0"; echo >"$NAGLESHIM_RECORD/mine"' "$T/name" 2>/dev/null
    [[ -e $(cat "$T/name")/mine ]]
    rm -r "$(cat "$T/name")"
    # The directory is replaced by another one.
    "$NS" diagnose -- sh -c 'echo "$NAGLESHIM_RECORD" >"$0"; mv "$NAGLESHIM_RECORD" "$NAGLESHIM_RECORD.away"
        mkdir "$NAGLESHIM_RECORD"; echo >"$NAGLESHIM_RECORD/1-1.record"; echo >"$NAGLESHIM_RECORD.away/2-2.record"' \
        "$T/name" 2>/dev/null
    [[ -e $(cat "$T/name")/1-1.record && ! -e $(cat "$T/name").away/2-2.record ]]
    rm -r "$(cat "$T/name")" "$(cat "$T/name").away"
}

@test "a process without a record is named" {
    local client=("$T/client" --warmup 10 127.0.0.1)
    { [[ $EUID -eq 0 ]] && has_ptrace; } || cannot_here "other users' processes need root and CAP_SYS_PTRACE"
    victim
    let_others_in "$T"
    cp "$EXAMPLES/tcp_nodelay_client" "$T/client"
    run --separate-stderr "$NS" diagnose --json="$T/o.json" -- \
        setpriv --reuid=65534 --regid=65534 --clear-groups "${client[@]}" "$port" 20
    expect 0 stderr has " (client) was seen from outside only: it left no record, as it has another user, root directory, mount namespace or environment, its calls do not go through libc, or there was no room"
    says "$T/o.json" 'rows[0]["source"] == "outside" and len(o["notes"]) == 1'
    run --separate-stderr "$NS" diagnose --json="$T/o.json" -- "${client[@]}" "$port" 20
    says "$T/o.json" 'rows[0]["source"] == "inside" and o["notes"] == []'
    # A file system that is nearly full.
    unshare -m true 2>/dev/null || cannot_here "no mount namespace can be made"
    mkdir "$T/small"
    run --separate-stderr unshare -m sh -c 'mount -t tmpfs -o size=1m none "$0" && head -c 800k /dev/zero >"$0/full" &&
        TMPDIR=$0 exec "$@"' "$T/small" "$NS" diagnose --json="$T/o.json" -- "${client[@]}" "$port" 20
    expect 0 stderr has " (client) was seen from outside only: it left no record"
    says "$T/o.json" 'rows[0]["source"] == "outside"'
}

@test "^Z stops the command and its program, and fg continues both" {
    "$python" - "$NS" >"$T/seen" <<'PYTHON'
import os, pty, select, sys
pid, terminal = pty.fork()
if pid == 0:
    os.environ["PS1"] = "> "
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
def say(words, wait):
    global text
    os.write(terminal, words)
    while wait not in text and select.select([terminal], [], [], 5)[0]:
        text += os.read(terminal, 65536)
    print(text.decode(errors="replace"), wait in text)
    text = b""
text = b""
one = sys.argv[1].encode()
say(one + b" diagnose -- sh -c 'echo runn''ing; sleep 1; echo went o''n; exit 7'\n", b"running")
say(b"\x1a", b"Stopped")
say(b"fg; echo status'='$?\n", b"status=7")
os.close(terminal)
PYTHON
    cat "$T/seen"
    [[ $(grep -c 'True$' "$T/seen") -eq 3 && $(grep -c 'went on' "$T/seen") -eq 1 ]]
}

@test "the status is 2 if no process can be started" {
    "${as_other[@]}" true 2>/dev/null || cannot_here "only root can be another user"
    cp "$NS" "$T"
    let_others_in "$T"
    run --separate-stderr "${as_other[@]}" prlimit --nproc=1:1 "$T/nagleshim" diagnose --outside -- true
    expect 2 stderr is "nagleshim diagnose: cannot start a process: Resource temporarily unavailable"
}

@test "no file is made without a result, and a file that cannot be written is an error" {
    run --separate-stderr "$NS" diagnose --write-policy "$T/none.json" -- true
    expect 0 stderr has "policy: '$T/none.json' is not written, as it would end no stall"
    run -127 --separate-stderr "$NS" diagnose --json="$T/o.json" --html "$T/o.html" -- no-such-program
    [[ ! -e $T/none.json && ! -e $T/o.json && ! -e $T/o.html ]]
    run --separate-stderr "$NS" diagnose --html /dev/full -- true
    expect 2 stderr has "cannot write '/dev/full': No space left on device" stderr lacks 'page:'
    victim
    run --separate-stderr "$NS" diagnose --write-policy /dev/full -- "${stalling[@]}"
    expect 2 stderr has "cannot write '/dev/full': No space left on device"
}

@test "the page has the object of --json, loads nothing, and the name of a process cannot break it" {
    local folder=$T/'<' name
    name=$folder/$'script><!-- "\'& \e[31m'
    # The base name of the process is "script>...", and its command line has "</script>".
    mkdir "$folder"
    cp "$EXAMPLES/tcp_nodelay_client" "$name"
    victim
    run --separate-stderr "$NS" diagnose --json="$T/o.json" --html "$T/page.html" -- "$name" --warmup 10 127.0.0.1 "$port" 20
    expect 0 stderr has "page: $T/page.html"
    "$python" - "$T" <<'PYTHON'
import json, re, sys
from html.parser import HTMLParser
page = open(sys.argv[1] + "/page.html", encoding="utf-8").read()
class Page(HTMLParser):
    open, data = [], {}
    def handle_starttag(self, tag, attributes):
        if tag != "meta": self.open.append((tag, dict(attributes)))
        assert not {"src", "href"} & dict(attributes).keys(), (tag, attributes)
    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag, (tag, self.getpos())
    def handle_data(self, text):
        if self.open and self.open[-1][0] == "script": self.data[self.open[-1][1].get("id")] = text
reader = Page()
reader.feed(page)
assert reader.open == [] and page.startswith("<!DOCTYPE html>") and page.count("</script>") == 2
o = json.load(open(sys.argv[1] + "/o.json", encoding="utf-8"))
assert json.loads(reader.data["diagnosis"]) == o and "</script><!-- " in o["subject"] and o["rows"], o["subject"]
assert "prefers-color-scheme: dark" in page and "default-src 'none'" in page
# The only address is the name of the namespace of SVG, and no text becomes markup.
assert re.findall(r"https?://[^\"']+", page) == ["http://www.w3.org/2000/svg"]
assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|@import|url\(", page)
PYTHON
}

@test "the name of a process cannot control the terminal, the policy matches it, and the next command can be typed" {
    local name=$T/$'\e[31mred \xff\xc2\x9b'
    cp "$EXAMPLES/tcp_nodelay_client" "$name"
    victim
    "$NS" diagnose --write-policy "$T/cure.json" --html "$T/page.html" --json="$T/o.json" -- \
        "$name" --warmup 10 127.0.0.1 "$port" 20 >/dev/null 2>"$T/err"
    grep -q '?\[31mred ???' "$T/err"
    run grep -lF $'\e' "$T/err" "$T/page.html" "$T/o.json" "$T/cure.json"
    expect_whole output ""
    says "$T/o.json" 'o["grade"] == "proven"'
    bash -c "$(sed -n 's/^next: //p' "$T/err")"
    run --separate-stderr "$NS" run --policy "$T/cure.json" -- "$name" --stats --warmup 10 127.0.0.1 "$port" 100
    expect_part output 'stalls 0'
}

@test "an experiment distinguishes a cure from a push without effect" {
    victim
    run --separate-stderr "$NS" diagnose --experiment push --json="$T/o.json" -- \
        "$EXAMPLES/tcp_nodelay_client" --warmup 10 127.0.0.1 "$port" 60
    expect 0 stderr has "this is a cure (p = " stderr has "(measured)"
    says "$T/o.json" 'o["experiments"][0]["p"] < 0.001 and rows[0]["cures"][0]["measured"]
        and o["experiments"][0]["done_ms"] < 20 and o["experiments"][0]["left_ms"] > 35'
    # A server that works for 45 ms on the first of two writes: the second is held, but a push gains nothing.
    ns_serve thinker "$python" tests/probes/turns.py server 0 80 1 : r100 s45 r300 w50
    run --separate-stderr "$NS" diagnose --experiment push --json="$T/o.json" -- \
        "$python" tests/probes/turns.py client 127.0.0.1 "$port" 80 1 : w100 w300 r50
    expect 0 stderr lacks "this is a cure" stderr lacks "--experiment"
    says "$T/o.json" 'o["grade"] not in ("proven", "likely") and o["experiments"][0]["done_ms"] > 40
        and o["proposal"] is None and not rows[0]["cures"]'
}

@test "processes without TCP connections are left out" {
    victim
    run -0 --separate-stderr "$NS" diagnose --json="$T/o.json" -- bash -c \
        'for i in {1..20}; do cat /dev/null; done; "$@"; true' bash "${stalling[@]}"
    says "$T/o.json" '[r["process"]["name"] for r in rows] == ["tcp_nodelay_client"]'
}

@test "rows that are left out are counted" {
    # Eleven ports, of which ten have a line.
    ns_start server "$python" -c 'import os, select, socket
servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(11)]
print(*(s.getsockname()[1] for s in servers), flush=True)
ends = [s.accept()[0] for s in servers]
print("open", flush=True)
while True:
    for end in select.select(ends, (), ())[0]: end.send(end.recv(9))'
    ns_wait_for "$T/server.out" '^[0-9 ]+$'
    # shellcheck disable=SC2046 # ports
    ns_start client "$python" -c 'import socket, sys, time
ends = [socket.create_connection(("127.0.0.1", int(port))) for port in sys.argv[1:]]
while True:
    for end in ends: end.send(b"ask") and end.recv(9)
    time.sleep(0.01)' $(cat "$T/server.out")
    ns_wait_for "$T/server.out" open
    run --separate-stderr "$NS" diagnose --for 0.5 --pid "${NS_PID[server]}"
    expect 0 stderr has "
and 1 more row; --json writes all of them"
}

@test "connections without traffic are counted in a line of their own" {
    ns_start idle "$python" -c 'import socket, time; l = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(l.getsockname())
a = l.accept(); print("open", flush=True); time.sleep(60)'
    ns_wait_for "$T/idle.out" open
    run --separate-stderr "$NS" diagnose --for 0.5 --pid "${NS_PID[idle]}"
    expect 0 stderr is "nagleshim diagnose: cannot tell: no TCP connection with traffic was seen

2 connections had no traffic"
}

@test "a program with the library preloaded already is watched with it, and a note says so" {
    victim
    run --separate-stderr env LD_PRELOAD="$LIBRARY" "$NS" diagnose --json="$T/o.json" -- \
        "$EXAMPLES/tcp_nodelay_client" --stats --warmup 10 127.0.0.1 "$port" 200
    expect 0 output has 'stalls 0' stderr has "LD_PRELOAD already names the library"
    says "$T/o.json" 'o["grade"] in ("none", "cannot-tell", "late-but-nobody-waited")'
    ns_mount_namespace
    mkdir "$T/etc"
    cp -a /etc/. "$T/etc" 2>/dev/null || true
    echo "$LIBRARY" >"$T/etc/ld.so.preload"
    run --separate-stderr "${mounts[@]}" bash -c 'mount --bind "$1" /etc && exec "${@:2}"' - "$T/etc" "$NS" diagnose -- \
        "$EXAMPLES/tcp_nodelay_client" --stats --warmup 10 127.0.0.1 "$port" 200
    expect 0 output has 'stalls 0' stderr has "/etc/ld.so.preload already names the library"
}

@test "a wait for room before each write does not end the pattern of a request" {
    ns_serve server "$python" tests/probes/turns.py server 0 20 1 : r10390 w50
    run --separate-stderr "$NS" diagnose --json="$T/o.json" -- "$python" -c '
import select, socket, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for _ in range(20):
    for size in 60, 10000, 309, 8, 7, 1, 5:
        select.select([], [one], [])
        one.sendall(b"x" * size)
    one.recv(50)' "$port"
    expect_status 0
    says "$T/o.json" 'rows[0]["pattern"] == "write 60, write 10000, write 309, write 8, write 7, write 1, write 5, wait"'
    # The pattern is the commonest one of the stalls, and has the last write, which is the held one.
    ns_serve other "$python" tests/probes/turns.py server 0 43 1 : r30 w30
    run --separate-stderr "$NS" diagnose --json="$T/o.json" -- "$python" tests/probes/turns.py client 127.0.0.1 "$port" 40 1 \
        w10 w20 r30 w10 w20 r30 w10 w20 r30 : w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 r30
    says "$T/o.json" 'rows[0]["pattern"].startswith("write 2 (6 times), 7 more writes, write 2 (2 times), wait (")
        and rows[0]["pattern"].endswith(" held requests)")'
}

@test "beside many threads, how long they wait for a CPU is read in the command's share of it" {
    has_ptrace || cannot_here "CAP_SYS_PTRACE is missing"
    ns_start server "$python" -c 'import socket, threading, time
threading.stack_size(65536)
for _ in range(2000):
    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
listener = socket.create_server(("127.0.0.1", 0))
ends = socket.create_connection(listener.getsockname()), listener.accept()[0]
print("ready", flush=True)
while True:
    ends[0].send(b"x"), ends[1].recv(1), time.sleep(0.01)'
    ns_wait_for "$T/server.out" ready
    run strace --seccomp-bpf -f -qq -e trace=openat -o "$T/calls" "$NS" diagnose --pid "${NS_PID[server]}" --for 2
    # Eleven times 256 at most; all of them five times a second would be 20000.
    holds "$(grep -c schedstat "$T/calls") >= 256 && $(grep -c schedstat "$T/calls") <= 3500" || unexpected
}
