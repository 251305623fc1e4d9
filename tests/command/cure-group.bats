# SPDX-License-Identifier: MIT
# Promise: The kernel cures the new connections of a control group, whatever program it is, until `nagleshim cure --undo`.

load ../helpers/groups

# median_is WORD, with the kernel's delayed ACK "stalls", and with a limited one "waits". With TCP_NODELAY, "flows", there were
# hardly any delayed ACKs since the last call; otherwise each of at least 30 requests waits for one.
median_is() {
    local before=${counted-0} delayed
    counted=$(ns_delayed_acks) delayed=$((counted - before))
    case $1 in
    stalls) holds "$median > 30 && $delayed >= 20" ;;
    waits) holds "$median < 25 && $delayed >= 20" ;;
    flows) holds "$delayed <= 3" ;;
    esac || wrong "the median of $median ms with $delayed delayed ACKs is not: $1"
}

# rounds WORD WHO SERVER CLIENT: 20 requests, whose median (ms) is WORD. SERVER and CLIENT are "READ PIECES" of uring_rounds; WHO,
# "server", "client" or "none", is in the group.
rounds() {
    local end how command
    for end in server client; do
        [[ $end == server ]] && read -ra how <<<"$3" || read -ra how <<<"$4"
        command=("$PROBES/uring_rounds" "$end" libc libc "${how[@]}")
        [[ $2 != "$end" ]] || command=("${in_group[@]}" "${command[@]}")
        if [[ $end == server ]]; then
            ns_serve server "${command[@]}" 0
        else
            "${command[@]}" --warmup 20 127.0.0.1 "$port" 20 >"$T/client.out"
        fi
    done
    ns_join server
    median=$(awk -v us="$(field median_us "$T/client.out")" 'BEGIN { print us / 1000 }')
    echo "$* takes $median ms"
    median_is "$1"
}

@test "new connections of a group: two writes flow, answers in two writes wait for a limited ACK, until the undo" {
    local flows=flows
    sets_nodelay || flows=stalls
    rounds stalls client 'libc 1' 'libc 2'
    rounds stalls client 'libc 2' 'libc 1'
    cure --cgroup "$group"
    expect_status 0
    [[ $flows == stalls ]] || expect_part output "$group: the kernel will cure new connections, until --undo or the end of the group"
    programs_are 1
    rounds $flows client 'libc 1' 'libc 2'
    rounds waits client 'libc 2' 'libc 1'
    rounds $flows server 'libc 2' 'libc 1'
    rounds stalls none 'libc 1' 'libc 2'
    rounds waits client 'libc 2' 'ring 1'
    cure --undo --all
    expect 0 output has "$group: the kernel will no longer "
    programs_are 0
    run ! "${inside[@]}" ls /sys/fs/bpf/nagleshim
    rounds stalls client 'libc 1' 'libc 2'
}

@test "removing the package ends every cure, and an upgrade or a removal in a chroot does not" {
    mkdir -p "$T"/{commands,other/root}
    printf '#!/bin/sh\n' >"$T/commands/systemctl"
    ln -s "$(readlink -f "$NS")" "$T/commands/nagleshim"
    sed 's,#LIBRARY#,/no/such/libnagleshim.so,' config/debian/nagleshim.prerm >"$T/prerm"
    chmod +x "$T"/{prerm,commands/systemctl}
    cure --cgroup "$group"
    in_package=("${inside[@]}" env PATH="$T/commands:$PATH" sh)
    "${in_package[@]}" "$T/prerm" upgrade
    # The root of process 1 is another directory.
    "${in_package[@]}" -c 'mount --bind "$1" /proc/1 && exec sh "$2" remove' sh "$T/other" "$T/prerm"
    programs_are 1
    "${inside[@]}" umount /proc/1
    run -0 "${in_package[@]}" "$T/prerm" remove
    expect_part output "$group: the kernel will no longer "
    programs_are 0
}

@test "static programs in Go and C, and one of 32 bits, are cured like others" {
    needs_nodelay
    command -v go >/dev/null || cannot_here 'go is not installed'
    # Go's own packages are compiled once for a user, or for a tree.
    local cache
    cache=$(go env GOCACHE) && mkdir -p "$cache" && [[ -w $cache ]] || cache=$PWD/build/go
    cat >"$T/client.go" <<'END'
package main

import ("fmt"; "io"; "net"; "os"; "sort"; "time")

func main() {
	c, err := net.Dial("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil { panic(err) }
	c.(*net.TCPConn).SetNoDelay(false)
	var ms []float64
	packet := make([]byte, 64)
	for i := 0; i < 40; i++ {
		begin := time.Now()
		c.Write(packet[:1])
		c.Write(packet[1:])
		io.ReadFull(c, packet)
		ms = append(ms, time.Since(begin).Seconds()*1000)
	}
	sort.Float64s(ms)
	fmt.Println("median", ms[20])
}
END
    (cd "$T" && HOME=$BATS_FILE_TMPDIR GOCACHE=$cache CGO_ENABLED=0 GOFLAGS=-mod=mod \
        go build -gcflags='all=-N -l' -o go client.go)
    gcc -O2 -static -w -o "$T/static" examples/tcp_nodelay_client.c -lrt -pthread
    [[ $(uname -m) != x86_64 ]] || i686-linux-gnu-gcc -O2 -static -w -o "$T/narrow" examples/tcp_nodelay_client.c -lrt -pthread
    ns_serve echo "$python" tests/probes/turns.py server 0 0 0 : all64 w64
    local way go=$port packets
    ns_serve packets "$EXAMPLES/tcp_nodelay_server" --connections 0 0 0
    packets=$port
    for way in stalls flows; do
        [[ $way == stalls ]] || cure --cgroup "$group"
        median=$("${in_group[@]}" "$T/go" "$go" | sed 's/median //')
        median_is $way
        for packets_of in static narrow; do
            [[ -e $T/$packets_of ]] || continue
            "${in_group[@]}" "$T/$packets_of" --stats --warmup 20 127.0.0.1 "$packets" 20 >"$T/client.out"
            median=$(($(field median_us "$T/client.out" | cut -d. -f1) / 1000))
            median_is $way
        done
    done
}

# short_connections N: five requests on each, in two pieces. Prints the number of delayed ACKs.
short_connections() {
    local before
    before=$(ns_delayed_acks)
    "${in_group[@]}" "$python" - "$port" "$1" <<'END'
import socket, sys
for _ in range(int(sys.argv[2])):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
        for _ in range(5):
            s.sendall(b"a")
            s.sendall(b"b" * 29)
            s.recv(30, socket.MSG_WAITALL)
END
    echo $(($(ns_delayed_acks) - before))
}

@test "a thousand connections of five requests each: all are cured before their first byte" {
    sets_nodelay || cannot_here 'the kernel sets no TCP_NODELAY'
    local without with
    ns_serve echo "$python" -c 'import socket
listener = socket.create_server(("127.0.0.1", 0), backlog=100)
print("listening on port", listener.getsockname()[1], flush=True)
while True:
    with listener.accept()[0] as s:
        while data := s.recv(30, socket.MSG_WAITALL):
            s.sendall(data)'
    without=$(short_connections 20)
    cure --cgroup "$group"
    with=$(short_connections 1000)
    echo "delayed ACKs of 100 requests without: $without, of 5000 with: $with"
    holds "$without > 15 && $with <= 10"
}

@test "connections that exist are cured, too, and the undo restores what the program itself asked for" {
    needs_nodelay
    local changed=4
    start_options
    options_are 'client 0' 'server 0' 'nodelay 1' 'other 0'
    # The cure of a group that they are not in changes nothing for them.
    mkdir "$group/inner"
    cure --cgroup "$group/inner"
    cure --pid "${NS_PID[options]}" --dry-run
    # The fourth has TCP_NODELAY already. Linux before 6.15 would change nothing of it.
    [[ $output != *'this kernel limits the delay of ACKs only with '* ]] || changed=3
    expect_part output "would change $changed connections and 1 listener"
    cure --undo --all
    cure --cgroup "$group" --dry-run
    expect 0 output has "would change 4 connections" output has "$group: the kernel would cure new connections"
    programs_are 0
    options_are 'client 0'
    cure --cgroup "$group"
    expect 0 output has ": 4 connections" output has 'not changed: the kernel treats the connections that a listener accepts' output lacks MPTCP
    words=connect options_are 'client 1' 'server 1' 'nodelay 1' 'other 1' 'later 1' 'accepted 1'
    run "${inside[@]}" "$NS" doctor --pid "${NS_PID[options]}"
    expect_part output "cured by the kernel: connections of the control group $group ('nagleshim cure')"
    run "${inside[@]}" "$NS" host status
    expect 1 output has "$group: the kernel is set to cure new connections, until --undo or the end of the group; policy: built in" \
        output has 'the library is not enabled'
    # Programs may set it after they have connected.
    words='server 0' options_are 'server 1'
    words='nodelay 0' options_are 'nodelay 1'
    words='other 1' options_are 'other 1'
    cure --undo --all
    expect 0 output has ': 6 connections' output has ': TCP_NODELAY restored on ' output lacks ' not changed'
    options_are 'client 0' 'server 0' 'nodelay 0' 'other 1' 'later 0' 'accepted 0'
    # Both do all of it, too, if nobody reads what they say.
    { sleep 0.3; "${inside[@]}" "$NS" cure --cgroup "$group" || echo $? >"$T/status"; } | true
    options_are 'client 1' 'server 1' 'later 1' 'accepted 1'
    [[ $(cat "$T/status") -eq 2 ]]
    { sleep 0.3; "${inside[@]}" "$NS" cure --undo --all || echo $? >"$T/status"; } | true
    programs_are 0
    options_are 'client 0' 'server 0' 'nodelay 0' 'other 1' 'later 0' 'accepted 0'
    words='other 0' options_are 'other 0'
    cure --undo --all
    expect 0 stderr is "nagleshim cure: no socket was restored"
}

@test "the rules decide by role, address and port, and a second policy replaces the first one" {
    needs_nodelay
    start_options
    cure --cgroup "$group" --policy "$(policy server '{"match": {"role": "server", "local": "127.0.0.1"}}')"
    words=connect options_are 'server 1' 'client 0' 'accepted 1' 'later 0'
    cure --cgroup "$group" --policy "$(policy client "{\"match\": {\"remote\": \"127.0.0.1:$port\"}}")"
    programs_are 1
    words=connect options_are 'server 0' 'client 1' 'accepted 0' 'later 1'
    cure --cgroup "$group" --policy "$(policy named '{"match": {"process": "other"}}')"
    expect 1 stderr has 'by this policy: rule 1 asks for a process'
    words=connect options_are 'later 1'
    cure --cgroup "$group" --policy "$(policy other '{"match": {"remote": "[::1]:1-65535"}}, {"match": {"local": "1"}}')"
    words=connect options_are 'server 0' 'client 0' 'accepted 0' 'later 0'
    cure --undo --all
    programs_are 0
}

@test "somebody else's programs of the group stay in force" {
    "$python" tests/helpers/bpf.py add "$group"
    programs_are 1
    cure --cgroup "$group"
    programs_are 2
    cure --cgroup "$group"
    programs_are 2
    cure --undo --cgroup "$group"
    programs_are 1
    mkdir "$group/inner"
    "$python" tests/helpers/bpf.py only "$group/inner"
    cure --cgroup "$group/inner"
    rmdir "$group/inner"
    expect 1 stderr has "$group/inner: the kernel does not cure new connections by this policy: a program of the group, or of one above it, allows no other"
    run ! "${inside[@]}" ls /sys/fs/bpf/nagleshim
}

@test "--list names each group and its policy, and --for cures a group until its time has passed" {
    needs_nodelay
    local file
    file=$(policy mine '{"match": {"role": "client"}}')
    cure --cgroup "$group" --policy "$file"
    cure --list
    expect 0 output has "$group: the kernel is set to cure new connections, until --undo or the end of the group; policy: $file"
    cure --cgroup "$group"
    cure --list --json
    printf '%s\n' "$output" >"$T/o.json"
    says "$T/o.json" "[(one['policy'], one['kept']) for one in o['groups'] if one['path'] == '$group'] == [('built in', True)]"
    cure --undo --cgroup "$group"
    cure --list
    expect_no_part output "$group"
    start_options
    ns_start cure "${inside[@]}" "$NS" cure --cgroup "$group" --for 3
    ns_wait_for "$T/cure.out" "$group: the kernel will cure new connections, until this command or the group ends"
    ns_wait_for "$T/cure.out" 'TCP_NODELAY set on'
    programs_are 1
    words=connect options_are 'client 1' 'later 1' 'accepted 1'
    ns_join cure
    programs_are 0
    grep -q "$group: the kernel will no longer cure new connections" "$T/cure.out"
    options_are 'client 0' 'nodelay 1' 'later 0' 'accepted 0'
    cure --cgroup "$group" --for 1 --json
    printf '%s\n' "$output" >"$T/o.json"
    says "$T/o.json" "[one['path'] for one in o['groups']] == ['$group'] and o['undo'] is False"
    # In a cured group, an inner one's undo leaves the outer one's cure.
    mkdir "$group/inner"
    cure --cgroup "$group"
    cure --cgroup "$group/inner"
    cure --undo --cgroup "$group/./inner"
    expect 0 output has "$group/inner: the cure of $group, above it, goes on there"
    cure --undo --cgroup "$group"
    expect 0 output lacks "goes on there"
}

@test "--for cures a group and leaves the sockets that an earlier cure of a process has set" {
    sees_setsockopt
    start_options
    cure --pid "${NS_PID[options]}"
    words=connect options_are 'client 1' 'nodelay 1'
    cure --cgroup "$group" --for 1
    expect 0 output has 'not changed: another cure has set the options' output has "$group: the kernel will no longer "
    options_are 'client 1' 'later 0'
    programs_are 0
    cure --undo --all
    options_are 'client 0' 'nodelay 1'
}

@test "a trial leaves the cure of its group that was in force: one that the kernel refuses, and one of a single process" {
    needs_nodelay
    start_options
    cure --cgroup "$group"
    cure --cgroup "$group" --for 0.5 --policy "$(policy app '{"match": {"process": "app"}}')"
    expect 1 stderr has 'by this policy: rule 1 asks for a process'
    programs_are 1
    ns_start trial "${inside[@]}" "$NS" cure --pid "${NS_PID[options]}" --for 5
    ns_wait_for "$T/trial.out" 'not changed: another cure has set the options'
    words=connect options_are 'later 1' 'accepted 1'
    ns_join trial
    grep -q ': 6 sockets not changed: another cure has set the options' "$T/trial.out"
    options_are 'client 1' 'later 1' 'accepted 1'
    cure --undo --cgroup "$group"
    options_are 'client 0' 'later 0' 'accepted 0'
}

@test "a trial that adds a limited delayed ACK to the cure of its group takes only that back" {
    needs_nodelay
    start_options
    cure --cgroup "$group" --policy "$(policy send '{"ack": "app"}')"
    ns_start trial "${inside[@]}" "$NS" cure --pid "${NS_PID[options]}" --for 2
    ns_wait_for "$T/trial.out" 'not changed: another cure has set the options'
    words=connect options_are 'later 1'
    ns_join trial
    options_are 'later 1'
    cure --undo --cgroup "$group"
    options_are 'later 0'
}

@test "a trial in a cured group leaves no mark on a connection whose program has set TCP_NODELAY" {
    needs_nodelay
    cure --cgroup "$group" --policy "$(policy app '{"send": "app", "ack": "before-wait"}')"
    ns_start own "${in_group[@]}" "$python" -c 'import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
own = socket.socket()
own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
own.connect(listener.getsockname())
accepted = listener.accept()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
print("mark", own.getsockopt(socket.IPPROTO_TCP, 27))' "$T/began" "$T/over"
    ns_wait_for "$T/own.out" ready
    ns_start trial "${inside[@]}" "$NS" cure --pid "${NS_PID[own]}" --for 2
    ns_wait_for "$T/trial.out" 'not changed: the kernel treats the connections'
    touch "$T/began"
    ns_join trial
    touch "$T/over"
    ns_join own
    grep -qx 'mark 0' "$T/own.out" || wrong 'a mark is left' "$T/own.out"
}

@test "with --follow, new connections of a group that the kernel does not cure are treated beside those of one that it cures" {
    local same=${group##*/}-same
    mkdir -p "$group"/{one,two}/"$same"
    "$python" tests/helpers/bpf.py only "$group/two/$same"
    options_in=(sh -c "echo \$\$ >'$group/two/$same/cgroup.procs' && exec \"\$@\"" sh)
    start_options
    ns_start follow "${inside[@]}" "$NS" cure --cgroup "$same" --follow
    ns_wait_for "$T/follow.out" 'python.*TCP_NODELAY set'
    grep -q "$group/one/$same: the kernel will " "$T/follow.out"
    words=connect options_are 'later .*'
    is_treated() {
        options_are && [[ $output == *'later 1 '* ]]
    }
    ns_until 20 'the new connection' is_treated
}

@test "if the kernel or a security module refuses the programs or a socket, root is not told that it lacks rights" {
    ns_needs_strace
    start_options
    run --separate-stderr "${inside[@]}" strace -qqo "$T/trace" -e inject=bpf:error=EACCES "$NS" cure --cgroup "$group" --follow --dry-run
    expect 1 stderr is 'nagleshim cure: the kernel does not cure new connections by this policy: this kernel, or a security module, refuses the programs'
    run --separate-stderr "${inside[@]}" strace -qqfo "$T/trace" -e inject=pidfd_getfd:error=EPERM "$NS" cure --pid "${NS_PID[options]}"
    expect 3 output has 'not changed: this command lacks CAP_SYS_PTRACE, or a security module protects it'
}

@test "the readiness probe of the DaemonSet succeeds only if the kernel would cure, with the rights of its pod" {
    local rights probe words
    rights=$(sed -nE 's/.*drop: \[ALL\], add: \[([A-Z_, ]*)\].*/\1/p' config/kubernetes/cure.yaml)
    rights=$(sed 's/, /,+/g' <<<"${rights,,}")
    # As in the pod: without a BPF file system.
    inside=("${inside[@]}" unshare --mount sh -c 'while umount /sys/fs/bpf 2>/dev/null; do :; done; exec "$@"' sh)
    probe=$(sed -nE 's/.*exec: \{command: \[\/nagleshim, (.*)\]\}.*/\1/p' config/kubernetes/cure.yaml)
    read -ra words <<<"${probe//,/}"
    words=("${words[@]/#\/policy/$T}")
    policy cure '{"match": {"remote": "50051"}}' >/dev/null
    "${inside[@]}" setpriv --bounding-set="-all,+$rights" "$NS" "${words[@]}"
    run -3 "${inside[@]}" setpriv --bounding-set=-all "$NS" "${words[@]}"
    run -1 "${inside[@]}" unshare --mount sh -c 'umount -a -t cgroup2; exec "$@"' sh "$NS" "${words[@]}"
    policy cure '{"match": {"process": "app"}}' >/dev/null
    run -1 "${inside[@]}" "$NS" "${words[@]}"
    expect_part output 'rule 1 asks for a process'
}

@test "a program that somebody else lets inner groups replace is not replaced there, except with --force" {
    mkdir "$group/inner"
    "$python" tests/helpers/bpf.py override "$group"
    cure --cgroup "$group/inner"
    expect 1 stderr has "$group/inner: the kernel does not cure new connections by this policy: it would end a program of a group above it; --force does so"
    [[ $("$python" tests/helpers/bpf.py count "$group/inner") == '0 0' ]]
    cure --cgroup "$group/inner" --force
    expect 0 output has "$group/inner: the kernel will "
    cure --undo --cgroup "$group/inner"
    # Where a program of that group allows others beside it, the outer one runs no more already.
    "$python" tests/helpers/bpf.py add "$group/inner"
    cure --cgroup "$group/inner"
    expect 0 output has "$group/inner: the kernel will "
    cure --undo --cgroup "$group/inner"
}

@test "connections that exist, too, are treated by the cure of the innermost group, and only its undo restores them" {
    needs_nodelay
    [[ -n ${limit:=$("$NS" cure --all --dry-run --json | jq .least_delayed_ack_us)} && $limit -gt 0 ]] || cannot_here 'no TCP_DELACK_MAX_US'
    mkdir "$group/inner"
    in_group=(sh -c "echo \$\$ >'$group/inner/cgroup.procs' && exec \"\$@\"" sh)
    options_in=("${in_group[@]}")
    start_options
    cure --cgroup "$group/inner" --policy "$(policy ack '{"send": "app"}')"
    options_are "client 0" "server 0"
    [[ $output == *"client 0 $limit"* ]]
    cure --cgroup "$group" --policy "$(policy send '{"ack": "app"}')"
    expect 0 output has ': another cure of the control group is in force'
    words=connect options_are "client 0" "server 0" "later 0" "accepted 0"
    cure --undo --cgroup "$group"
    options_are "client 0" "later 0"
    [[ $output == *" $limit"* ]]
    cure --undo --cgroup "$group/inner"
    options_are 'client 0' 'later 0'
    [[ $output != *" $limit"* ]]
}

@test "the inner group's policy decides for new connections, also if somebody else's program writes where the kernel passes it on" {
    sets_nodelay || cannot_here 'the kernel sets no TCP_NODELAY'
    mkdir "$group/inner"
    in_group=(sh -c "echo \$\$ >'$group/inner/cgroup.procs' && exec \"\$@\"" sh)
    cure --cgroup "$group/inner" --policy "$(policy ack '{"send": "app"}')"
    "$python" tests/helpers/bpf.py reply "$group/inner"
    cure --cgroup "$group" --policy "$(policy send '{"ack": "app"}')"
    rounds stalls client 'libc 1' 'libc 2'
    # An inner group without a rule for the connection leaves it to the outer one.
    cure --cgroup "$group/inner" --policy "$(policy none '{"match": {"local": "1"}}')"
    rounds flows client 'libc 1' 'libc 2'
}

@test "a program's own TCP_SAVE_SYN and the TCP_NODELAY of its listeners and of unconnected sockets stay as they are" {
    sees_setsockopt
    cat >"$T/own.py" <<'END'
import socket
TCP = socket.IPPROTO_TCP
for own in 1, 2:
    listener = socket.socket()
    listener.setsockopt(TCP, 27, own)
    listener.setsockopt(TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(TCP, socket.TCP_NODELAY, 0)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    client = socket.create_connection(listener.getsockname())
    server = listener.accept()[0]
    listener.setsockopt(TCP, socket.TCP_NODELAY, 0)
    print(*(listener.getsockopt(TCP, option) for option in (27, socket.TCP_NODELAY)), server.getsockopt(TCP, 28, 200)[:1])
END
    "$python" "$T/own.py" >"$T/without"
    cure --cgroup "$group"
    "${in_group[@]}" "$python" "$T/own.py" >"$T/with"
    diff "$T/without" "$T/with"
    # Where no rule matches, what they accept is the program's, too.
    cure --cgroup "$group" --policy "$(policy none '{"match": {"local": "1"}}')"
    run "${in_group[@]}" "$python" -c 'import socket
listener = socket.create_server(("127.0.0.1", 0))
listener.setsockopt(6, 27, 1)
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
for value in 1, 0: server.setsockopt(6, 1, value)
print(server.getsockopt(6, 1))'
    expect 0 output is 0
}

@test "an MPTCP connection that turns TCP_NODELAY off flows, and its listener is said to be treated" {
    needs_nodelay
    cat >"$T/mptcp.py" <<'END'
import socket, statistics, sys, time
server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
server.bind(("127.0.0.1", 0))
server.listen()
client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
client.connect(server.getsockname())
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
import threading
def answer(peer):
    while peer.recv(2, socket.MSG_WAITALL):
        peer.sendall(b"x")
threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
times = []
for _ in range(30):
    begin = time.monotonic()
    client.sendall(b"a")
    client.sendall(b"b")
    client.recv(1)
    times.append((time.monotonic() - begin) * 1000)
print("median", statistics.median(times), flush=True)
if sys.argv[1:]:
    time.sleep(60)
END
    "$python" "$T/mptcp.py" >"$T/without" || cannot_here 'the kernel has no MPTCP'
    median=$(field median "$T/without")
    median_is stalls
    cure --cgroup "$group"
    ns_start mptcp "${in_group[@]}" "$python" "$T/mptcp.py" stay
    ns_wait_for "$T/mptcp.out" median
    median=$(field median "$T/mptcp.out")
    median_is flows
    cure --cgroup "$group"
    expect 0 output has '1 socket not changed: the kernel treats the connections that a listener accepts'
    # The rules' addresses decide.
    cure --cgroup "$group" --policy "$(policy none '{"match": {"remote": "127.0.0.2"}}')"
    "${in_group[@]}" "$python" "$T/mptcp.py" >"$T/none"
    median=$(field median "$T/none")
    median_is stalls
    cure --cgroup "$group" --policy "$(policy some '{"match": {"remote": "127.0.0.1"}}')"
    "${in_group[@]}" "$python" "$T/mptcp.py" >"$T/some"
    median=$(field median "$T/some")
    median_is flows
}

@test "each reason is the true one: no rule, too many programs of others, nothing to undo, a hidden mount, missing rights" {
    local n
    start_options
    cure --cgroup "$group" --policy "$(policy none '{"match": {"local": "1"}}')"
    expect 0 output has 'not changed: no rule of the policy matches' output lacks already
    cure --undo --cgroup "$group"
    cure --undo --cgroup "$group"
    expect 0 output is '' stderr is 'nagleshim cure: no socket was restored'
    for n in {1..64}; do "$python" tests/helpers/bpf.py add "$group"; done
    cure --cgroup "$group" --dry-run
    expect 1 stderr is "nagleshim cure: $group: the kernel does not cure new connections by this policy: the group has as many programs as the kernel allows"
    mkdir "$group/inner" "$T/first"
    run --separate-stderr "${inside[@]}" unshare --mount sh -c 'mount -t cgroup2 none "$1/first" && mount -t tmpfs none "$1/first" &&
        mount -t cgroup2 none /mnt && umount /sys/fs/cgroup/unified /sys/fs/cgroup 2>/dev/null; shift; exec "$@"' sh "$T" \
        "$NS" cure --cgroup "${group##*/}" --dry-run
    expect 1 stderr has "${group##*/}: the kernel does not cure new connections by this policy: the group has as many programs as"
    run --separate-stderr "${inside[@]}" setpriv --reuid=65534 --clear-groups --bounding-set=-all "$NS" cure --cgroup "$group/inner"
    expect 3 output is ''
}

@test "if a group ends while several are cured, it is named, and the others are cured" {
    ns_needs_strace
    local word=${group##*/}-word second
    mkdir -p "$group"/{1,2,3}/"$word"
    cure --cgroup "$word" --dry-run
    second=$(sed -n '2s/: the kernel.*//p' <<<"$output")
    # Its programs are loaded, and the first group is cured.
    ns_start cure "${inside[@]}" strace -qq -o "$T/trace" -e trace=bpf -e inject=bpf:delay_exit=100000 "$NS" cure --cgroup "$word"
    ns_wait_for "$T/trace" PROG_LOAD 60 # it first asks about each program of the system
    rmdir "$second"
    ns_join cure
    grep -qF "$second: the kernel does not cure new connections by this policy: the group has ended" "$T/cure.err"
    [[ $(grep -c 'the kernel will' "$T/cure.out") -eq 2 ]]
    cure --undo --all
}

# only_group_is_named: another cure leaves no names but those of the group.
only_group_is_named() {
    cure --cgroup "$group"
    [[ $("${inside[@]}" ls /sys/fs/bpf/nagleshim) == "$(stat -c %i "$group")" ]]
}

@test "cures and undos at the same moment do not disturb each other, and a cure removes the names of groups that are gone" {
    local i pid most=8
    [[ -z ${NS_KERNEL-} ]] || most=3 # an emulated processor is slow, and each waits for the lock for five seconds
    mkdir "$group/gone"
    cure --cgroup "$group/gone"
    rmdir "$group/gone"
    ns_until 10 "the end of the names" only_group_is_named
    for ((i = 0; i < most; i++)); do
        "${inside[@]}" "$NS" cure --cgroup "$group" >/dev/null 2>>"$T/errors" &
        NS_STARTED+=("$!")
        "${inside[@]}" "$NS" cure --undo --all >/dev/null 2>>"$T/errors" &
        NS_STARTED+=("$!")
    done
    for pid in "${NS_STARTED[@]: -2 * most}"; do wait "$pid" || wrong "$(cat "$T/errors")"; done
    run ! grep -v 'no socket was restored' "$T/errors"
    cure --cgroup "$group"
    programs_are 1
    run -3 "${inside[@]}" setpriv --reuid=65534 --clear-groups --bounding-set=-all "$NS" cure --undo --all
    expect_part output 'what the kernel does with new connections stays as it is: no permission to use /sys/fs/bpf/nagleshim'
    programs_are 1
    # What it leaves, a dry run does not touch; who may not read it is told so.
    run --separate-stderr "${inside[@]}" "${as_other[@]}" "$NS" cure --list
    expect 3 output is '' stderr is "nagleshim cure: it is not known which control groups are cured: no permission to use /sys/fs/bpf/nagleshim"
    run --separate-stderr "${inside[@]}" "${as_other[@]}" "$NS" host status
    expect_part output "the library is not enabled"
    expect_part stderr "nagleshim host: it is not known which control groups are cured: no permission to use /sys/fs/bpf/nagleshim"
    "${inside[@]}" find /sys/fs/bpf/nagleshim -name '*connections*' -delete
    left=$("${inside[@]}" find /sys/fs/bpf/nagleshim)
    cure --dry-run --cgroup "$group"
    [[ $left == *options* || ${NS_KERNEL-} == 5.10.* ]] # it has no such program
    [[ $("${inside[@]}" find /sys/fs/bpf/nagleshim) == "$left" ]]
    cure --cgroup "$group"
    # An undo that was killed half-way.
    ! command -v strace || "${inside[@]}" strace -qqo "$T/trace" -e inject=unlink,unlinkat:signal=KILL "$NS" cure --undo --all || true
    cure --cgroup "$group"
    expect 0 stderr is ''
    programs_are 1
    run "${inside[@]}" ls /sys/fs/bpf/nagleshim
    expect 0 output is "$(stat -c %i "$group")"
}

@test "an undo that did not reach every socket can be repeated, also after the cure of another group" {
    local id
    id=$(stat -c %i "$group")
    mkdir "$group/other"
    start_options
    cure --cgroup "$group"
    # Without the right to examine a process that has more capabilities.
    run --separate-stderr "${inside[@]}" setpriv --bounding-set=-sys_ptrace,-dac_override,-dac_read_search "$NS" cure --undo --cgroup "$group"
    expect 1 output has "$group: the kernel will no longer " stderr has ' could not be examined: ' stderr has ': this command lacks CAP_SYS_PTRACE'
    [[ $(programs_seen) == '0 '* ]]
    "${inside[@]}" test ! -e "/sys/fs/bpf/nagleshim/$id/connections"
    ! sets_nodelay || options_are 'client 1'
    if [[ ${NS_KERNEL-} != 5.10.* ]]; then
        "${inside[@]}" test -e "/sys/fs/bpf/nagleshim/$id/options"
        cure --list
        expect_part stderr "$group: a cure or an undo did not finish; repeat the undo"
        run "${inside[@]}" "$NS" host status
        expect 1 output has "$group: a cure or an undo did not finish" output lacks "$group: the kernel is set to"
        run "${inside[@]}" "$NS" doctor --pid "${NS_PID[options]}"
        [[ $output != *'cured by the kernel'* ]]
        cure --cgroup "$group/other"
        expect_status 0
        "${inside[@]}" test -e "/sys/fs/bpf/nagleshim/$id/options"
    fi
    cure --undo --all
    expect_status 0
    options_are 'client 0'
    programs_are 0
    run ! "${inside[@]}" ls /sys/fs/bpf/nagleshim
    # What is left of a cure that was killed is removed.
    cure --cgroup "$group"
    "${inside[@]}" rm "/sys/fs/bpf/nagleshim/$id/connections" "/sys/fs/bpf/nagleshim/$id/policy"
    cure --cgroup "$group/other"
    "${inside[@]}" test ! -e "/sys/fs/bpf/nagleshim/$id"
}

@test "an undo of a group stays incomplete until a waiting connection is accepted and restored" {
    needs_nodelay
    ns_start server "${in_group[@]}" "$python" -c 'import signal, socket, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
s = socket.create_server(("127.0.0.1", 0))
print("listening on port", s.getsockname()[1], flush=True)
signal.sigwait([signal.SIGUSR1])
c = s.accept()[0]
while True:
    print("nodelay", c.getsockopt(6, 1), "mark", c.getsockopt(6, 27), flush=True)
    time.sleep(0.02)'
    ns_port server
    cure --cgroup "$group"
    expect_status 0
    idle_client
    cure --undo --cgroup "$group"
    expect 1 stderr is "nagleshim cure: 1 connection was not restored: the program has not accepted it yet"
    cure --list
    expect_part stderr "$group: a cure or an undo did not finish; repeat the undo"
    kill -USR1 "${NS_PID[server]}"
    ns_wait_for "$T/server.out" "nodelay 1 mark 2"
    cure --undo --cgroup "$group"
    expect 0 output has "1 connection: TCP_NODELAY restored on 1"
    ns_wait_for "$T/server.out" 'nodelay 0 mark 0'
    cure --list
    expect 0 output is "nothing is cured"
}

@test "no undo that has too few descriptors to see the group's processes is said to be complete" {
    local n
    start_options
    for n in {6..14}; do
        cure --cgroup "$group"
        run --separate-stderr "${inside[@]}" prlimit --nofile="$n:$n" "$NS" cure --undo --cgroup "$group"
        [[ $status -ne 0 ]] || options_are 'client 0' 'server 0' 'nodelay 1'
        run --separate-stderr "${inside[@]}" prlimit --nofile="$n:$n" "$NS" cure --cgroup "$group"
        expect_no_part stderr 'the group has ended'
    done
    cure --undo --cgroup "$group"
    expect_status 0
    options_are 'client 0' 'server 0' 'nodelay 1'
}

@test "a group in which an undo did not finish has the cure of the group above it" {
    mkdir "$group/inner"
    options_in=(sh -c "echo \$\$ >'$group/inner/cgroup.procs' && exec \"\$@\"" sh)
    start_options
    cure --cgroup "$group"
    cure --cgroup "$group/inner"
    "${inside[@]}" rm "/sys/fs/bpf/nagleshim/$(stat -c %i "$group/inner")/connections"
    run "${inside[@]}" "$NS" doctor --pid "${NS_PID[options]}"
    expect_part output "connections of the control group $group ("
    cure --undo --cgroup "$group"
    expect 0 output lacks 'another cure of the control group'
    options_are 'client 0'
    cure --undo --all
}

@test "no advice is printed for a group that has ended while --follow ran" {
    local end
    mkdir "$group/inner"
    options_in=(sh -c "echo \$\$ >'$group/inner/cgroup.procs' && exec \"\$@\"" sh)
    for end in goes-on ends; do
        start_options
        ns_start follow "${inside[@]}" "$NS" cure --cgroup "$group/inner" --follow
        ns_wait_for "$T/follow.out" 'python.*(TCP_NODELAY|delayed ACK)'
        ns_stop options
        exec 7>&-
        rm "$T/words"
        [[ $end == goes-on ]] || rmdir "$group/inner"
        ns_stop follow
        cat "$T/follow.out"
        if [[ $end == goes-on ]]; then
            grep -q 'To restore the options' "$T/follow.out"
        else
            run ! grep 'To restore the options' "$T/follow.out"
        fi
    done
}

@test "the undo that is printed restores the options when it is typed, whatever the name of the group" {
    local undo
    mkdir "$group/a\\x2d b"
    options_in=(sh -c "echo \$\$ >'$group/a\\x2d b/cgroup.procs' && exec \"\$@\"" sh)
    start_options
    cure --cgroup 'a\x2d b'
    expect_status 0
    undo=$(sed -n 's/^To restore the options: //p' <<<"$output")
    options_are 'client 1'
    "${inside[@]}" bash -c "$undo"
    options_are 'client 0'
    # A narrow terminal does not break it.
    "$python" -c 'import pty, sys; pty.spawn(["sh", "-c", "stty cols 40; exec \"$@\"", "sh", *sys.argv[1:]])' \
        "${inside[@]}" "$NS" cure --cgroup 'a\x2d b' >"$T/seen" </dev/null
    grep -qxF "To restore the options: $undo" <(tr -d '\r' <"$T/seen")
}

# A user may make very many groups.
@test "top finds the cure of a group above a process, and opens no group in which it shows none" {
    ns_needs_strace
    mkdir -p "$group/in/inner" "$group/other/inner"
    options_in=(sh -c "echo \$\$ >'$group/in/inner/cgroup.procs' && exec \"\$@\"" sh)
    start_options
    run "${inside[@]}" "$NS" top --once --interval 0.5 --pid "${NS_PID[options]}"
    expect 0 output lacks ' cured '
    cure --cgroup "$group"
    expect_status 0
    run "${inside[@]}" strace -qq -o "$T/calls" -e trace=open,openat "$NS" top --once --interval 0.5 --pid "${NS_PID[options]}"
    expect 0 output has ' cured '
    grep -q 'inner' "$T/calls"
    run ! grep "$group/other" "$T/calls"
    cure --undo --cgroup "$group"
    run "${inside[@]}" "$NS" top --once --interval 0.5 --pid "${NS_PID[options]}"
    expect 0 output lacks ' cured '
}

@test "a running --follow is seen by host status, doctor and the undo, and decides alone in its group" {
    local other
    start_options
    ns_start follow "${inside[@]}" "$NS" cure --cgroup "$group" --follow
    ns_wait_for "$T/follow.out" 'python.*(TCP_NODELAY|delayed ACK)'
    run "${inside[@]}" "$NS" host status
    expect_part output "$group: the kernel is set to "
    run "${inside[@]}" "$NS" doctor --pid "${NS_PID[options]}"
    expect_part output "cured by the kernel: connections of the control group $group"
    run "${inside[@]}" "$NS" top --once --interval 0.5 --pid "${NS_PID[options]}"
    expect_part output ' cured '
    run "${inside[@]}" "$NS" top --once --interval 0.5 --pid "${NS_PID[options]}" --prometheus -
    [[ $output =~ nagleshim_processes\{process=\"[^\"]*\",library=\"cured\"\}\ 1 ]] || unexpected
    cure --list
    expect 0 output has "$group: the kernel is set to " output has "new connections, until a running 'nagleshim cure --follow' ends" \
        output has "(pid ${NS_PID[options]}): " output lacks 'goes on'
    cure --undo --all
    expect 0 output has "$group: a running 'nagleshim cure --follow' goes on" output lacks TCP_NODELAY
    for other in --follow --dry-run --force; do
        cure --cgroup "$group" $other
        expect 1 output is '' stderr is "nagleshim cure: $group: the kernel does not cure new connections by this policy: another cure is in force there: \
end it by --undo, or end the 'nagleshim cure --follow'"
    done
    programs_are 1
    ns_stop follow
    cure --cgroup "$group"
    programs_are 1
    cure --cgroup "$group" --follow
    expect 1 output is '' stderr has 'another cure is in force there'
    cure --undo --cgroup "$group"
    programs_are 0
}

@test "with --follow the programs end with the command, however that ends, and it wakes up for nothing" {
    sets_nodelay || cannot_here 'the kernel sets no TCP_NODELAY'
    local signal switches
    for signal in TERM KILL; do
        start_options
        ns_start follow "${inside[@]}" "$NS" cure --cgroup "$group" --follow
        ns_wait_for "$T/follow.out" 'python.*TCP_NODELAY set'
        programs_are 1
        words=connect options_are 'later 1' 'client 1'
        switches=$(awk '/^voluntary/ { n += $2 } END { print n }' "/proc/${NS_PID[follow]}/status")
        sleep 1
        holds "$(awk '/^voluntary/ { n += $2 } END { print n }' "/proc/${NS_PID[follow]}/status") - $switches <= 2"
        ns_stop follow $signal
        programs_are 0
        ns_stop options
        exec 7>&-
        rm "$T/words"
    done
    run ! "${inside[@]}" ls /sys/fs/bpf/nagleshim
}

@test "a signal to --follow in the midst of very many connections calls none of them one of no process" {
    needs_nodelay
    local most tried treated
    ns_start program "${in_group[@]}" "$python" -c 'import resource, socket, time
most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 8000)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
listener = socket.create_server(("127.0.0.1", 0))
pairs = [(socket.create_connection(listener.getsockname()), listener.accept()[0]) for _ in range(most // 2 - 50)]
print("connections", 2 * len(pairs), flush=True)
time.sleep(100)'
    ns_wait_for "$T/program.out" connections 20
    most=$(field connections "$T/program.out")
    for tried in {1..9}; do
        ns_start follow "${inside[@]}" "$NS" cure --cgroup "$group" --follow
        ns_until 10 "the command's child" grep -q . "/proc/${NS_PID[follow]}/task/${NS_PID[follow]}/children"
        sleep "0.00$tried"
        ns_stop follow
        [[ ! -s $T/follow.err ]] || wrong "on stderr:" "$T/follow.err"
        treated=$(sed -n 's/.*TCP_NODELAY set on \([0-9]*\).*/\1/p' "$T/follow.out" | tail -n 1)
        [[ -z $treated || $treated -eq $most ]] || return 0
        cure --undo --cgroup "$group"
    done
    cannot_here 'the command is too fast for a signal in between'
}

@test "a connection that is accepted while the existing ones are treated is treated, too, also with --follow" {
    ns_needs_strace
    needs_nodelay
    ns_start program "${in_group[@]}" "$python" -c 'import socket, time
listener = socket.create_server(("127.0.0.1", 0))
pairs = [(socket.create_connection(listener.getsockname()), listener.accept()[0]) for _ in range(5)]
client = socket.create_connection(listener.getsockname())
def nodelay(end):
    return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
print("ready", flush=True)
while not any(nodelay(end) for pair in pairs for end in pair):
    time.sleep(0.01)
server = listener.accept()[0]
print("accepted", flush=True)
while not nodelay(server):
    time.sleep(0.01)
print("treated", flush=True)
time.sleep(60)'
    ns_wait_for "$T/program.out" ready
    # The first list is treated slowly.
    ns_start follow "${inside[@]}" strace -qqfo "$T/trace" -e trace=pidfd_getfd -e inject=pidfd_getfd:delay_exit=100000 \
        "$NS" cure --cgroup "$group" --follow
    ns_wait_for "$T/program.out" accepted
    ns_wait_for "$T/program.out" treated
}

@test "groups are found where the file system is mounted; in a control group namespace, --all is not the whole system" {
    mkdir "$T/a b"
    run --separate-stderr "${inside[@]}" unshare --mount sh -c 'umount -a -t cgroup2; mount -t cgroup2 none "$1/a b" && shift && exec "$@"' sh "$T" \
        "$NS" cure --cgroup "${group##*/}" --dry-run
    expect 0 stderr is '' output has "$T/a b/${group##*/}: the kernel would "
    run --separate-stderr "${in_group[@]}" unshare --mount --cgroup sh -c 'umount -a -t cgroup2; mount -t cgroup2 none /sys/fs/cgroup &&
        exec "$@"' sh "$NS" cure --all --dry-run
    expect 1 stderr has 'the kernel does not cure new connections by this policy: the root of the control groups is not visible here'
}

@test "what the kernel cannot do is said in one line, and the options are set on what exists" {
    local why big
    start_options
    big=$("$python" -c 'print(", ".join("{\"match\": {\"remote\": \"%d\"}}" % n for n in range(1, 700)))')
    cure --cgroup "$group" --policy "$(policy app '{"match": {"process": "python3*"}}')"
    expect 1 stderr is "nagleshim cure: the kernel does not cure new connections by this policy: rule 1 asks for a process, which the kernel does not know; name its group instead"
    expect_part output 'TCP_NODELAY set on '
    expect_part output 'For connections that are opened later, add --follow.'
    # That is what is to be mended first.
    run --separate-stderr "${inside[@]}" unshare --mount sh -c 'umount /sys/fs/bpf && exec "$@"' sh \
        "$NS" cure --cgroup "$group" --policy "$(policy app '{"match": {"process": "python3*"}}')"
    expect 1 stderr has 'by this policy: rule 1 asks for a process'
    cure --undo --all
    # The largest policy, with different addresses.
    cure --dry-run --cgroup "$group" --policy "$(policy most "{\"match\": {\"remote\": [$("$python" -c \
        'print(", ".join("\"[fd00::%x]:%d-%d\"" % (n, n, n + 1) for n in range(1, 1300)))')]}}")"
    expect 0 stderr is '' output has "$group: the kernel would "
    cure --cgroup "$group" --policy "$(policy big "$big")"
    expect 1 stderr is "nagleshim cure: the kernel does not cure new connections by this policy: the policy has more than 1300 rules and addresses"
    run --separate-stderr "${inside[@]}" unshare --mount sh -c 'while umount /sys/fs/bpf 2>/dev/null; do :; done; exec "$@"' sh "$NS" cure --cgroup "$group"
    expect 1 stderr is "nagleshim cure: the kernel does not cure new connections by this policy: no BPF file system is mounted at /sys/fs/bpf"
    cure --undo --all
    run --separate-stderr "${inside[@]}" setpriv --bounding-set=-bpf,-sys_admin,-net_admin "$NS" cure --cgroup "$group"
    expect 1 stderr is "nagleshim cure: the kernel does not cure new connections by this policy: CAP_BPF and CAP_NET_ADMIN are needed"
    cure --undo --all
    run --separate-stderr "${inside[@]}" unshare --mount sh -c 'umount -a -t cgroup2 && exec "$@"' sh "$NS" cure --cgroup "$group"
    expect 2 stderr is "nagleshim cure: there is no control group '$group': no cgroup2 file system is mounted"
    run --separate-stderr "${inside[@]}" unshare --mount sh -c 'umount -a -t cgroup2 && exec "$@"' sh "$NS" diagnose --cgroup "$group"
    expect 2 stderr is "nagleshim diagnose: there is no control group '$group': no cgroup2 file system is mounted"
    run --separate-stderr "${inside[@]}" unshare --mount sh -c 'umount -a -t cgroup2 && exec "$@"' sh "$NS" cure --all --dry-run
    expect 1 stderr is "nagleshim cure: the kernel does not cure new connections by this policy: no cgroup2 file system is mounted"
    cure --cgroup /tmp
    expect 2 stderr is "nagleshim cure: there is no control group '/tmp'"
    programs_are 0
}
