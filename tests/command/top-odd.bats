# SPDX-License-Identifier: MIT
# Promise: With any users, names, limits and namespaces, top works, prints what it cannot see, and does no harm to the terminal.
# Waits: it watches for seconds what top prints.

load ../helpers/common
load ../helpers/top

@test "top and diagnose do not hang at a network namespace that they may not enter" {
    two_users
    ns_start apart "${NET[@]}" "${AS[@]}" sleep 100
    ns_wait_for "/proc/${NS_PID[apart]}/comm" sleep
    run --separate-stderr timeout 10 "${AS[@]}" "$NS" top --once --interval 0.5
    [[ $status -eq 0 && ${lines[2]} == *PROCESS* ]]
    run --separate-stderr timeout 10 "${AS[@]}" "$NS" top --once --pid "${NS_PID[apart]}"
    [[ $status -eq 3 && $stderr == *"permission denied"* ]]
    run --separate-stderr timeout 10 "${AS[@]}" "$NS" diagnose --for 1 --pid "${NS_PID[apart]}"
    [[ $status -eq 3 && $stderr == *"permission denied"* ]]
}

@test "root of a user namespace gets neither the memory of a command that enters it, nor its time" {
    local apart child='' path writes
    two_users
    ns_needs_strace
    "${AS[@]}" unshare -Urn true 2>/dev/null || ns_skip "no user namespace"
    ns_start apart "${AS[@]}" unshare -Urn sleep 100
    apart=${NS_PID[apart]}
    ns_wait_for "/proc/$apart/comm" sleep
    # The second call enters the user namespace.
    ns_start top strace -f -qq -o /dev/null -e trace=setns -e inject=setns:delay_exit=2000000:when=2 \
        "${AS[@]}" "$NS" top --once --interval 0.5 --pid "$apart"
    until [[ -n $child ]]; do
        kill -0 "${NS_PID[top]}" || wrong "it has ended:" "$T/top.err" || return
        for path in /proc/[0-9]*; do
            [[ $path == "/proc/$apart" || $(readlink "$path/ns/user") != "$(readlink "/proc/$apart/ns/user")" ]] || child=${path#/proc/}
        done
    done
    writes=(nsenter --user --target "$apart" bash -c 'exec 5<>"/proc/$1/mem"' writes)
    "${writes[@]}" "$apart"
    run ! "${writes[@]}" "$child"
    nsenter --user --target "$apart" kill -STOP "$child"
    timeout 10 tail --pid="${NS_PID[top]}" -s 0.01 -f /dev/null || wrong "it waits for its child:" "$T/top.err"
}

@test "an ordinary user sees the number of other users' processes, without kernel threads" {
    local kernel others denied
    two_users
    # In the PID namespace of tests/run there are no kernel threads.
    kernel=0
    [[ $(cat /proc/2/comm 2>/dev/null) != kthreadd ]] || kernel=$(pgrep -c -P 2)
    others=$(pgrep -c .)
    run --separate-stderr "${AS[@]}" "$NS" top --once --interval 0.5
    printf '%s\n' "$output" "$kernel of $others"
    [[ $output =~ \;\ ([0-9]+)\ process(es)?\ could\ not\ be\ examined ]]
    denied=${BASH_REMATCH[1]}
    # Processes begin and end meanwhile.
    ((denied > 0 && denied <= others + 5 - kernel / 2))
}

@test "if sockets may not be listed, the message names that and no process 0" {
    ns_needs_strace
    run --separate-stderr strace -qq -o "$T/trace" -e trace=sendto -e inject=sendto:error=EACCES "$NS" top --once --interval 0.5
    [[ $status -eq 3 && -z $output && $stderr == "nagleshim top: cannot list TCP sockets: Permission denied" ]]
    # The control: a process that may not be examined is named.
    two_users
    run --separate-stderr "${AS[@]}" "$NS" top --once --interval 0.5 --pid 1
    [[ $status -eq 3 && $stderr == "nagleshim top: process 1: permission denied: run this command as root" ]]
}

@test "a kernel without INET_DIAG for TCP is named as the error" {
    # A request for an unknown protocol gets the answer of such a kernel.
    gcc -shared -fPIC -o "$T/lacks.so" -D_GNU_SOURCE -x c - <<'END'
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req request;
        struct nlattr attribute;
        unsigned protocol;
    } other = {.attribute = {8, INET_DIAG_REQ_PROTOCOL}, .protocol = 99};
    memcpy(&other, bytes, NLMSG_LENGTH(sizeof(other.request)));
    other.head.nlmsg_len = sizeof(other);
    return sendto(fd, &other, sizeof(other), flags, (struct sockaddr *)&(struct sockaddr_nl){.nl_family = AF_NETLINK}, sizeof(struct sockaddr_nl));
}
END
    run --separate-stderr env LD_PRELOAD="$T/lacks.so" "$NS" top --once --interval 0.5 --pid $$
    [[ $status -eq 2 && -z $output && $stderr == *"this kernel has no INET_DIAG for TCP"* ]]
}

@test "descriptors of ended namespaces are closed, and processes without a descriptor are tried again" {
    cat >"$T/crowded.sh" <<'END'
for ((i = 0; i < 12; i++)); do unshare -n sleep 100 & done
read -r _ <"$1"
kill $(jobs -p)
wait
shift
exec "$@"
END
    mkfifo "$T/go"
    ns_start crowded bash "$T/crowded.sh" "$T/go" "${NET[@]}" bash -c '
        ip link set lo up
        "$1/queue_server" --connections 1 7000 >"$2" &
        until grep -q port "$2"; do sleep 0.01; done
        exec "$1/queue_put" --warmup 20 127.0.0.1 7000 100000000' \
        client "$EXAMPLES" "$T/port"
    ns_start top bash -c 'ulimit -n 40; exec "$@"' limited "$NS" top --interval 0.5 --pid "${NS_PID[crowded]}"
    ns_wait_for "$T/top.out" 'processes could not be examined'
    echo >"$T/go"
    ns_wait_for "$T/top.out" '[1-9][0-9]*% queue_put '
    # Two for the namespace of the client, two for that of its parent, and one to the reader.
    timeout 10 bash -c 'until (($(find "/proc/$1/fd" -lname "socket:*" | wc -l) <= 5)); do sleep 0.05; done' \
        few "${NS_PID[top]}"
    # The next table counts no process that was not examined.
    timeout 10 bash -c 'while tail -n 5 "$1" | grep -q "could not be examined"; do sleep 0.05; done' later "$T/top.out"
    ns_stop top
    [[ ! -s $T/top.err ]]
}

@test "a process that reuses a pid has its own row" {
    cat >"$T/again.sh" <<'END'
ip link set lo up
"$1/queue_server" --connections 2 7000 >"$2/port" &
until grep -q port "$2/port"; do sleep 0.01; done
"$3" top --once --interval 4 >"$2/table" &
sleep 1
for name in alpha beta; do
    cp "$1/queue_put" "$2/$name"
    echo 4999 >/proc/sys/kernel/ns_last_pid
    "$2/$name" --warmup 5 127.0.0.1 7000 20 >/dev/null
done
wait %2
END
    unshare -fpn --mount-proc true 2>/dev/null || ns_skip "no process namespace"
    run timeout 20 unshare -fpn --mount-proc bash "$T/again.sh" "$EXAMPLES" "$T" "$NS"
    cat "$T/table"
    [[ $(awk '$3 == "alpha" || $3 == "beta" { print $3, $4 }' "$T/table" | sort | paste -sd ' ') == "alpha 5000 beta 5000" ]]
}

# pair NAME NAME: starts two clients with these names, each in its own network namespace, with the same port. $pid is their
# parent.
pair() {
    local name
    cat >"$T/pair.sh" <<'END'
for name in "${@:3}"; do
    unshare -n bash -c 'ip link set lo up
        "$1/queue_server" --connections 1 7000 >"$3.port" &
        until grep -q port "$3.port"; do sleep 0.01; done
        exec "$2/$3" --warmup 5 127.0.0.1 7000 100000000' client "$1" "$2" "$name" &
done
wait
END
    for name; do cp "$EXAMPLES/queue_put" "$T/$name"; done
    ns_start pair bash -c 'cd "$2" && exec bash pair.sh "$@"' pair "$EXAMPLES" "$T" "$@"
    pid=${NS_PID[pair]}
    sleep 2
}

@test "beside more rows than are kept, a process without a row is not examined at each interval" {
    local late reader
    ns_needs_strace
    ns_python
    (($(ulimit -Hn) >= 9000)) || ns_skip "too few descriptors"
    mkfifo "$T/go"
    ns_start many "$python" -c 'import os, resource, socket, sys, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
def connect():
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, socket.create_connection(listener.getsockname())
kept = [connect() for _ in range(4200)]
print("many", flush=True)
open(sys.argv[1]).read()
for _ in range(9):
    pid = os.fork()
    if pid == 0:
        kept.append(connect())
        time.sleep(100)
    print("late", pid, flush=True)
time.sleep(100)' "$T/go"
    ns_wait_for "$T/many.out" many
    ns_start top strace -I 2 -f -qq --seccomp-bpf -o "$T/calls" -e trace=openat "$NS" top --interval 1 --pid "${NS_PID[many]}"
    ns_until 20 "4200 connections" grep -qa ' 4200 connections' "$T/top.out"
    echo >"$T/go"
    ns_until 20 "4209 connections" grep -qa ' 4209 connections' "$T/top.out"
    : >"$T/top.out"
    ns_until 30 "four tables" eval '(($(grep -ac "nagleshim top" "$T/top.out") >= 4))'
    ns_stop top
    # The reader is the one that asks for mappings. The control: it has examined the parent.
    reader=$(awk '/, "maps", / { print $1; exit }' "$T/calls")
    grep -q "^$reader .*\"/proc/${NS_PID[many]}\"" "$T/calls"
    late=$(awk '$1 == "late" { printf "%s%s", sep, $2; sep = "|" }' "$T/many.out")
    [[ $(grep -cE "^$reader .*\"/proc/($late)\"" "$T/calls") -le 9 ]] || wrong "examinations:" "$T/calls"
}

@test "a long name is complete, and the screen cuts long lines" {
    local long=xäöüäöüäöüäöüäöü
    pair queue_put "$long"
    run --separate-stderr "$NS" top --once --interval 1 --pid "$pid"
    grep -qE "[%?] $long +[0-9]+ client " <<<"$output"
    grep -qE "[%?] queue_put {8} *[0-9]+ client " <<<"$output"
    command -v tmux >/dev/null || ns_skip "tmux is missing"
    LC_ALL=C.UTF-8 screen -u new-session -d -x 40 -y 16 "exec '$NS' top --interval 1 --pid $pid" 3>&-
    shows 'queue_put  '
    shows "$long "
    screen capture-pane -p
    # Three lines above the table, the title, and two rows at each end of the connections.
    [[ $(screen capture-pane -p | sed "/./!d" | wc -l) -eq 8 ]]
    screen kill-server
    kill $(pgrep -P "$pid")
}

# A letter may be two columns wide: 21 of them, and a row as wide as the screen, would begin a further line.
@test "names of wide letters move no line out of the screen" {
    type tmux >/dev/null || ns_skip "tmux is missing"
    local name
    name=$(printf '宽%.0s' {1..20})
    cp "$EXAMPLES/queue_put" "$T/$name"
    cat >"$T/many.sh" <<'END'
ip link set lo up
"$1/queue_server" --connections 20 0 >"$2.port" &
until grep -q port "$2.port"; do sleep 0.01; done
for i in {1..20}; do "$3" --pause 1000 127.0.0.1 "$(sed -nE '1s/.*port ([0-9]+).*/\1/p' "$2.port")" 100000 & done
wait
END
    ns_start many "${NET[@]}" bash "$T/many.sh" "$EXAMPLES" "$T/many" "$T/$name"
    sleep 1
    LC_ALL=C.UTF-8 screen -u new-session -d -x 80 -y 16 "exec '$NS' top --interval 1 --pid ${NS_PID[many]}" 3>&-
    shows '宽'
    screen capture-pane -p
    [[ $(screen capture-pane -p | head -1) == 'q ends, p pauses, '* ]]
}

@test "if memory may not be read, the absence of the library is uncertain" {
    gcc -shared -fPIC -o "$T/closed.so" -D_GNU_SOURCE -x c - <<'END'
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long n, const struct iovec *there,
                         unsigned long m, unsigned long flags)
{
    errno = EPERM;
    return -1;
}
int openat(int at, const char *name, int flags, ...)
{
    errno = EACCES;
    return strcmp(name, "mem") == 0 ? -1 : (int)syscall(SYS_openat, at, name, flags, 0);
}
int openat64(int at, const char *name, int flags, ...) __attribute__((alias("openat")));
END
    posts closed
    run --separate-stderr env LD_PRELOAD="$T/closed.so" "$NS" top --once --interval 0.5 --pid "$pid"
    [[ $(awk -v pid="$pid" '$4 == pid { print $6 }' <<<"$output") == "no?" ]]
}

@test "top ends if its lines cannot be written" {
    run --separate-stderr timeout 20 bash -c 'exec "$0" top --interval 0.5 --pid $$ >/dev/full' "$NS"
    [[ $status -eq 2 && $stderr == "nagleshim: cannot write to standard output" ]]
}

@test "SIGHUP does not end top if it was ignored before" {
    ns_start top bash -c 'trap "" HUP; exec "$@"' ignoring "$NS" top --interval 0.5 --pid $$
    ns_wait_for "$T/top.out" 'PROCESS .* PEER'
    kill -HUP "${NS_PID[top]}"
    sleep 1
    kill -0 "${NS_PID[top]}"
    ns_stop top
    ns_start top env --default-signal=HUP "$NS" top --interval 0.5 --pid $$
    ns_wait_for "$T/top.out" 'PROCESS .* PEER'
    ns_stop top HUP
}
