# SPDX-License-Identifier: MIT
# Promise: top shows the stalling connections of any program in any namespace, from outside, and no others.
# Parts: 2
# The programs run without the library; for each, a control does not stall. Networks are namespaces of the tests.

load ../helpers/command
load ../helpers/top

@test "a client that stalls is shown with its holds, their cost, and its peer" {
    posts stalls
    # A stall takes at least 40 ms, and no second has more than 1000 of them. The rate is that of the machine.
    watched 36
    holds "$rate > 1 && $lost < 1100"
    [[ $role == client && $shim == no && $share == *% && $output == *' 127.0.0.1:'* ]]
}

@test "diagnose proposes no command that starts a process in other namespaces than its own" {
    posts inside
    run --separate-stderr "$NS" diagnose --for 1 --pid "$pid"
    # On a busy machine it cannot tell, and proposes a trial.
    [[ $stderr =~ next:\ .*(' run -- '.*'  # in its namespaces'|" cure --pid $pid ") ]]
}

# sure PID OPTION: runs top. If a tenth of some twenty answers come an eighth of a millisecond late, it cannot tell whose holds
# they are.
sure_once() {
    run "${timed[@]}" "$NS" top "$2" --pid "$1"
    [[ $output == *'held by '* || $output =~ '"held_by": '[0-9] ]] || is_late "20 / 80" "$output"
}

sure() {
    in_time sure_once "$@"
}

@test "the reading end of a stall is shown with what it waits for and the process that holds the bytes" {
    posts held
    server=$(pgrep -P "$pid" queue_server)
    sure "$server" --json
    jq -e --argjson client "$pid" '.status == 0 and
        [.rows[] | {pid: .process.pid, held_by, lost: (.lost_ms_per_second > 80), most: (.lost_ms_per_second <= 1000)}] == [
            {pid: $client, held_by: null, lost: true, most: true},
            {pid: '"$server"', held_by: $client, lost: true, most: true}]' <<<"$output"
    jq -e '(.rows[0].grade | IN("proven", "likely")) and .rows[1].grade == "held-by-the-peer"' <<<"$output"
    # The table counts the lost time once.
    sure "$server" --once
    grep -qE "^ *\\([0-9.]+\\) .* $server server .* held by queue_put\\[$pid\\], port" <<<"$output"
    [[ ${lines[0]} == *", 1 connection, 1 with traffic; 1 row stalls" ]]
    ns_stop held
    posts calm --nodelay
    server=$(pgrep -P "$pid" queue_server)
    run "$NS" top --json --pid "$server"
    jq -e '[.rows[] | [.process.pid, .held_by, .lost_ms_per_second]] == [['"$server"', null, 0]]' <<<"$output"
}

@test "of many pipelined connections of one thread, top claims no more lost time than has passed" {
    cat >"$T/pipeline.py" <<'END'
import select, socket, sys
if sys.argv[1] == "server":
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print("listening on port", listener.getsockname()[1], flush=True)
    waits, ends = select.epoll(), {}
    waits.register(listener, select.EPOLLIN)
    while True:
        for fd, _ in waits.poll():
            if fd == listener.fileno():
                end = listener.accept()[0]
                ends[end.fileno()] = end
                waits.register(end, select.EPOLLIN)
            elif data := ends[fd].recv(4096):
                for _ in range(len(data) // 10):
                    ends[fd].send(b"a" * 20)
            else:
                waits.unregister(fd)
                ends.pop(fd).close()
ends = [socket.create_connection(("127.0.0.1", int(sys.argv[2]))) for _ in range(400)]
while True:
    for end in ends:
        for _ in range(4):
            end.send(b"r" * 10)
    for end in ends:
        size = 80
        while size:
            size -= len(end.recv(size))
END
    ns_python
    ulimit -Sn 4096
    ns_serve pipeline "$python" "$T/pipeline.py" server
    ns_start client "$python" "$T/pipeline.py" client "$port"
    sleep 1
    # One thread cannot lose more than the time, and what is not certain is a question mark.
    run "$NS" top --json --pid "${NS_PID[client]}"
    jq -e --argjson pid "${NS_PID[client]}" '[.rows[] | select(.process.pid == $pid) | .lost_ms_per_second] | length == 1 and add <= 1000' <<<"$output"
    run "$NS" top --once --pid "${NS_PID[client]}"
    grep -qE '^ +(\? +\?|([0-9]{1,3}\.[0-9]|1000\.0) +[0-9]+%) .* '"${NS_PID[client]}"' client ' <<<"$output" || wrong "$output"
    # The pipeline would keep the processors from the control: a client that stalls is shown to.
    kill "${NS_PID[client]}" "${NS_PID[pipeline]}"
    ns_join client || true
    ns_join pipeline || true
    posts stalls
    watched
    holds "$lost > 80"
}

@test "the same client without small writes has no holds" {
    posts calm --nodelay
    watched
    [[ $rate == 0.0 && $lost == 0.0 ]]
    run "$NS" top --json --pid "$pid"
    jq -e '.rows[0].grade == "none"' <<<"$output"
    ns_stop calm
    posts one-write --get
    watched
    [[ $rate == 0.0 && $lost == 0.0 ]]
}

@test "an ordinary user can watch his own container, but not another user's process" {
    two_users
    NET=(unshare -Urn)
    "${AS[@]}" "${NET[@]}" true || ns_skip "no user namespace for an ordinary user"
    posts container
    watched
    holds "$rate > 2 && $lost > 80"
    run --separate-stderr setpriv --reuid=65533 --regid=65533 --clear-groups "$NS" top --once --pid "$pid"
    [[ $status -eq 3 && -z $output && $stderr == "nagleshim top: process $pid: permission denied: run this command as root" ]]
}

# crowd N: starts a server that closes its listener when N clients of one process are connected. Six of them have traffic.
# Both run in their own network namespace; $pid is the server's parent.
crowd() {
    cat >"$T/crowd.py" <<'END'
import os, resource, socket, sys, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
listener = socket.create_server(("127.0.0.1", 7002), backlog=4096)
port = listener.getsockname()[1]
if os.fork() == 0:
    listener.close()
    os.close(int(sys.argv[2]))
    parent = os.getppid()
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(int(sys.argv[1]))]
    while os.getppid() == parent:
        for client in clients[:6]:
            client.send(b"?")
            client.recv(10)
        time.sleep(0.01)
    sys.exit()
if os.fork() == 0:
    accepted = [listener.accept()[0] for _ in range(int(sys.argv[1]))]
    listener.close()
    os.close(int(sys.argv[2]))
    while True:
        for one in accepted[:6]:
            if not one.recv(10):
                sys.exit()
            one.send(b"!")
os.close(int(sys.argv[2]))
listener.close()
os.wait()
END
    mkfifo "$T/ready"
    ns_start crowd "${NET[@]}" bash -c 'ip link set lo up; exec 4>"$3"; exec python3 "$1" "$2" 4' crowd "$T/crowd.py" "$1" "$T/ready"
    pid=${NS_PID[crowd]}
    timeout 10 cat "$T/ready"
}

@test "connections whose listener is closed are one row of a server and one of a client" {
    crowd 300
    run --separate-stderr "$NS" top --once --interval 1 --pid "$pid"
    [[ $status -eq 0 && -z $stderr && $(grep -cE '^ *[0-9.]+ +[0-9]+% python3 ' <<<"$output") -eq 2 ]]
    [[ $output =~ "server "[^$'\n']*"port "[0-9]+", 300 connections" && $output =~ "client "[^$'\n']*", 300 connections" ]]
    run --separate-stderr "$NS" diagnose --pid "$pid" --for 1 --json="$T/o.json"
    [[ $(grep -c '^python3' <<<"$stderr") -eq 2 && $stderr == *"588 connections had no traffic"* ]]
    [[ $(jq -c '[(.rows | map(.role) | sort), .idle]' "$T/o.json") == '[["client","server"],588]' ]]
}

@test "of very many connections the idle ones are only counted" {
    [[ $(ulimit -Hn) == unlimited || $(ulimit -Hn) -gt 5000 ]] || ns_skip "too few descriptors"
    crowd 4300
    run --separate-stderr "$NS" diagnose --pid "$pid" --for 1 --json="$T/o.json"
    [[ $stderr == *"8588 connections had no traffic"* && $(jq -c '[.idle, (.rows | length)]' "$T/o.json") == '[8588,2]' ]]
    # By now the handshakes were more than two seconds ago.
    sleep 1.5
    run --separate-stderr "$NS" top --once --interval 1 --pid "$pid"
    [[ ${lines[0]} == *" 8600 connections, 12 with traffic"* && ${lines[1]} == *"; 408 idle connections not shown"* ]]
}

@test "a server with a single connection and a closed listener is called a server" {
    ns_start one "${NET[@]}" bash -c 'ip link set lo up; python3 -c "
import socket
listener = socket.create_server((\"127.0.0.1\", 7001))
client = socket.create_connection((\"127.0.0.1\", 7001))
one = listener.accept()[0]
listener.close()
print(\"connected\", flush=True)
while True:
    client.send(b\"?\")
    one.recv(1)"'
    ns_wait_for "$T/one.out" connected
    run --separate-stderr "$NS" top --once --interval 1 --pid "${NS_PID[one]}"
    [[ $output == *"server "*"port 7001"* && $output == *"client "*"127.0.0.1:7001"* ]]
}

@test "rows without traffic are printed after those with traffic" {
    ns_start many "${NET[@]}" bash -c 'ip link set lo up; exec python3 -c "
import socket, time
ends = [socket.create_server((\"127.0.0.1\", 7000 + i)) for i in range(40)]
clients = [socket.create_connection((\"127.0.0.1\", 7000 + i)) for i in range(40)]
print(\"connected\", flush=True)
while True:
    clients[39].send(b\"x\")
    time.sleep(0.01)"'
    ns_wait_for "$T/many.out" connected
    sleep 2.1
    run --separate-stderr "$NS" top --once --interval 1 --pid "${NS_PID[many]}"
    [[ $(grep -c '% python3 ' <<<"$output") -eq 40 && ${lines[3]} == *"127.0.0.1:7039" ]]
}

@test "the children of a process are watched, also later ones" {
    local parent rate
    ns_start parent "${NET[@]}" bash -c "ip link set lo up; sleep 1
        '$EXAMPLES/queue_server' 7000 >'$T/port' & until grep -q port '$T/port'; do sleep 0.01; done
        '$EXAMPLES/queue_put' --warmup 20 127.0.0.1 7000 1000; true"
    parent=${NS_PID[parent]}
    run --separate-stderr "$NS" top --once --interval 6 --pid "$parent"
    read -r rate < <(awk '$3 == "queue_put" { print $7 }' <<<"$output") # the holds, whether the program waits or not
    holds "$rate > 0"
    kill "$(pgrep -P "$parent" queue_put)" "$(pgrep -P "$parent" queue_server)"
}

@test "the library in a process is shown" {
    PRELOAD=$LIBRARY posts cured
    watched
    [[ $rate == 0.0 && $shim == works ]]
}

@test "without a terminal lines are printed at each interval, until the process ends" {
    posts lines
    ns_start top "$NS" top --interval 0.5 --pid "$pid"
    ns_wait_for "$T/top.out" "% queue_put "
    sleep 1
    ns_stop lines KILL
    ns_join top
    [[ $(grep -c '^ *ms/s' "$T/top.out") -ge 3 && ! -s $T/top.err ]]
}

@test "on a terminal it draws a screen that fits, whose keys explain, pause and end it, and restores the terminal" {
    command -v tmux >/dev/null || ns_skip "tmux is missing"
    posts drawn
    screen new-session -d -x 80 -y 16 "exec bash --norc --noprofile -i" 3>&-
    screen send-keys "echo before; '$NS' top --interval 0.5 --pid $pid" Enter
    shows 'queue_put '
    shows '127.0.0.1:'
    [[ $(screen capture-pane -p) != *before* ]]
    screen send-keys '?'
    shows 'ms/s     milliseconds per second'
    screen send-keys '?' p
    shows 'paused:'
    screen send-keys p
    shows 'q ends, p pauses'
    screen resize-window -x 40 -y 8
    shows 'queue_put '
    screen send-keys q
    shows before
    screen send-keys "echo status \$?; '$NS' top --interval 0.5 --pid $pid" Enter
    shows 'ms/s'
    screen send-keys "C-\\"
    shows 'status 0'
    # The shell's line editor sets the terminal's modes by itself, another program does not.
    screen send-keys "'$NS' top --interval 0.5 --pid $pid; stty -a" Enter
    shows 'ms/s'
    screen send-keys C-c
    shows ' icanon '
    screen kill-server
}

@test "on a terminal without a cursor it prints lines" {
    posts plain
    command -v script >/dev/null || ns_skip "script is missing"
    run timeout 20 script -qec "env TERM=dumb '$NS' top --interval 0.5 --pid $pid --once" /dev/null
    [[ $status -eq 0 && $output == *PROCESS*queue_put* && $output != *$'\e'* ]]
}

@test "--prometheus replaces a file of counters that only grow, and removes it at the end" {
    posts stalls
    ns_start top "$NS" top --prometheus "$T/top.prom" --interval 0.5
    timeout 10 bash -c 'until [[ -s $1 ]]; do sleep 0.05; done' file "$T/top.prom"
    exec 5<"$T/top.prom"
    PRELOAD=$LIBRARY posts cured
    sleep 1
    cp "$T/top.prom" "$T/later"
    ns_stop top
    run compgen -G "$T/top.prom*"
    [[ -z $output ]]
    cat <&5 >"$T/first"
    python3 - "$T/first" "$T/later" "$(sed -nE 's/.*port ([0-9]+).*/\1/p' "$T/stalls.port")" <<'END'
import re, sys
def read(path):
    types, values = {}, {}
    for line in open(path):
        if line.startswith("# TYPE "):
            name, types[name] = line.split()[2:]
        elif not line.startswith("# HELP "):
            series, value = re.fullmatch(r'(\w+(?:\{(?:\w+="[^"]*",?)+\})?) (\S+)\n', line).groups()
            assert series.split("{")[0] in types and series not in values, line
            values[series] = float(value)
    return types, values
(types, first), (_, later) = read(sys.argv[1]), read(sys.argv[2])
client = '_total{process="queue_put",role="client",port="%s"}'
print(first, later)
for series, value in first.items():
    assert types[series.split("{")[0]] == "gauge" or value <= later[series], series
stalled, lost = (later["nagleshim_" + name + client % sys.argv[3]] - first["nagleshim_" + name + client % sys.argv[3]]
                 for name in ("stalled_requests", "lost_seconds"))
assert stalled > 10 and 0.03 < lost / stalled < 0.06
# The control: the other client has requests and no stalls.
other, = [s for s in later if s.startswith('nagleshim_requests_total{process="queue_put"') and sys.argv[3] not in s]
assert later[other] > 0 and later[other.replace("requests", "stalled_requests")] == 0
assert first['nagleshim_processes{process="queue_put",library="no"}'] == 1 == later['nagleshim_processes{process="queue_put",library="works"}']
assert later['nagleshim_library_sockets_total{process="queue_put"}'] == 1
END
}

@test "--prometheus has series for 100 services, for those that stall, and one for the sum of the others" {
    ns_start many "${NET[@]}" bash -c 'ip link set lo up; exec python3 -c "
import socket, time
ends = []
for port in range(7000, 7150):
    listener = socket.create_server((\"127.0.0.1\", port))
    ends.append((listener, socket.create_connection((\"127.0.0.1\", port)), listener.accept()[0]))
while True:
    for _, client, server in ends:
        client.send(b\"?\"), server.recv(1), server.send(b\"!\"), client.recv(1)
    time.sleep(0.02)"'
    ns_start top "$NS" top --prometheus "$T/top.prom" --interval 0.5
    timeout 20 bash -c 'until grep -qs "requests_total{process=\"(other)\"} [1-9]" "$1"; do sleep 0.1; done' file "$T/top.prom"
    [[ $(grep -c '^nagleshim_requests_total' "$T/top.prom") -eq 101 ]]
    # This name has characters that the format escapes.
    CLIENT=$T/$'queue_put"\\'
    cp "$EXAMPLES/queue_put" "$CLIENT"
    posts stalls
    timeout 20 bash -c 'until grep -qs "$2" "$1"; do sleep 0.1; done' file "$T/top.prom" \
        '^nagleshim_stalled_requests_total{process="queue_put\\"\\\\",role="client",port="[0-9]*"} [1-9]'
    [[ $(grep -c '^nagleshim_requests_total' "$T/top.prom") -eq 102 ]]
}
