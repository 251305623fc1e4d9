# SPDX-License-Identifier: MIT
# Promise: `nagleshim cure` ends the stalls of running programs that no preload reaches, and can undo its changes.

load ../helpers/doctor
load ../helpers/options

setup() {
    ns_setup
    has_ptrace || cannot_here "CAP_SYS_PTRACE is missing"
    ns_python
}

cure() {
    run --separate-stderr "$NS" cure "$@"
}

# static_client ROUNDS: starts the stalling client, linked statically, as "client".
static_client() {
    [[ -e $T/client ]] || gcc -O2 -static -w -o "$T/client" examples/tcp_nodelay_client.c -lrt -pthread 2>/dev/null
    ns_start client "$T/client" --stats 127.0.0.1 "$port" "$1"
}

# after_stalls N: waits until N more delayed ACKs were sent.
after_stalls() {
    local wanted=$(($(ns_delayed_acks) + $1))
    timeout 20 bash -c "$(declare -f tcp_counter ns_delayed_acks)
        while ((\$(ns_delayed_acks) < $wanted)); do sleep 0.01; done"
}

# The lowest limit of this kernel, or the program's output without one.
limit() {
    "$NS" cure --all --dry-run --json | jq -r '.least_delayed_ack_us | if . > 0 then . else "none" end'
}

@test "a static client that stalls is cured while it runs, and a dry run changes nothing" {
    local before
    victim
    static_client 2000 # 80 s if nothing cures it
    after_stalls 5
    cure --pid "${NS_PID[client]}" --dry-run
    expect 0 output has "client (pid ${NS_PID[client]}): would change 1 connection: TCP_NODELAY set on 1"
    after_stalls 5
    cure --pid "${NS_PID[client]}"
    expect 0 output has "client (pid ${NS_PID[client]}): 1 connection: TCP_NODELAY set on 1"
    expect_part output "To restore the options: $NS cure --undo --pid ${NS_PID[client]}"
    # It has no listener whose connections could inherit the options.
    expect_part output "For connections that are opened later, add --follow."
    expect_no_part output "inherit"
    before=$(ns_delayed_acks)
    ns_join client
    holds "$(ns_delayed_acks) - $before <= 5"
}

@test "the connections that a listener accepts later have its options: a static server's peer waits no longer than the limit" {
    [[ $(limit) != none ]] || cannot_here "this kernel has no TCP_DELACK_MAX_US"
    victim
    static_client 10
    ns_join client
    holds "$(field stalls "$T/client.out") >= 8"
    cure --port "$port"
    expect 0 output has ": 1 listener: TCP_NODELAY set on 1, delayed ACK limited to two clock ticks on 1" output has "accepted by these listeners inherit"
    static_client 10
    ns_join client
    holds "$(field median_us "$T/client.out") < 30000"
}

# diagnose_inside [COMMAND]: started by it. On a busy machine, its samples may be too late for a verdict.
diagnose_inside() {
    run --separate-stderr nsenter --target "$inside" --pid --mount --root --wd "${timed[@]}" "$@" "$NS" diagnose --pid 1 --for 2
    maybe_late
}

@test "for an end that only reads, diagnose proposes what limits delayed ACKs on this kernel" {
    local inside words=('cure --cgroup /') way ways=("$T/older")
    # On a busy machine, the two ends would wait for a processor, too, and nobody could tell.
    ns_prompt
    [[ $(limit) == none ]] || words+=('cure --pid 1') ways+=(env)
    gcc -O2 -static -w -o "$T/server" examples/tcp_nodelay_server.c -lrt -pthread
    # As on a kernel without TCP_DELACK_MAX_US, no call can set option 46.
    gcc -D_GNU_SOURCE -Itests/probes -x c -o "$T/older" - <<'END'
#include "filter.h"
int main(int argc, char **argv)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 46, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 ? execvp(argv[1], argv + 1) : 1;
}
END
    # The other end is in no process that is visible there.
    ns_serve server unshare --pid --fork --mount-proc --kill-child "$T/server" --connections 0 0 0
    inside=$(pgrep -P "${NS_PID[server]}")
    ns_start client "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 1000000
    for way in "${!ways[@]}"; do
        in_time diagnose_inside "${ways[way]}"
        expect_part stderr "now, without a restart: $(realpath "$NS") ${words[way]}"
    done
}

@test "undo restores options; connections that were accepted in between keep TCP_NODELAY, as their program may have set it" {
    local limit mptcp=
    limit=$(limit)
    start_options "listener 0 .*" "client 0 .*" "server 0 .*" "nodelay 1 .*"
    ! grep -q ^mptcp <<<"$output" || mptcp=yes
    # An MPTCP socket is one, and not three, with its TCP subflow.
    cure --pid "${NS_PID[options]}" --policy "$(policy none '{"match": {"remote": "1"}}')"
    expect 0 output has ": $((${#mptcp} ? 6 : 5)) sockets not changed: no rule of the policy matches"
    cure --pid "${NS_PID[options]}"
    expect_status 0
    [[ -z $mptcp ]] || expect_part output '1 socket not changed: an undo could not restore the options of MPTCP sockets'
    options_are "listener 1 $limit" "client 1 $limit" "server 1 $limit" "nodelay 1 $limit" "other 1 $limit"
    words="server 0" options_are "server 0 $limit"
    words=connect options_are "accepted 1 $limit" 'later 0'
    cure --undo --all --dry-run
    expect_part output ": would change "
    cure --undo --all
    expect 0 output has ": TCP_NODELAY restored on "
    options_are 'listener 0' 'client 0' 'server 0' 'nodelay 1' 'accepted 1'
    [[ $limit == none || $output != *" $limit"* ]]
    cure --undo --all
    expect 0 stderr is "nagleshim cure: no socket was restored"
    # A program with TCP_SAVE_SYN of its own.
    local step
    for step in 'listener 1 27' 'listener 1' connect 'accepted 1'; do
        words=$step options_are
    done
    cure --undo --all
    expect 0 stderr is "nagleshim cure: no socket was restored"
    words='listener 0' options_are 'listener 0' 'accepted 1'
    cure --pid "${NS_PID[options]}"
    options_are 'listener 0' 'accepted 1'
}

@test "an undo counts the connections that wait to be accepted, and restores them when it is repeated" {
    local limit
    limit=$(limit)
    ns_start server "$python" -c 'import signal, socket, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
s = socket.create_server(("127.0.0.1", 0))
print("listening on port", s.getsockname()[1], flush=True)
signal.sigwait([signal.SIGUSR1])
c = s.accept()[0]
print("accepted", flush=True)
while True:
    try: print("limit", c.getsockopt(6, 46), flush=True)
    except OSError: print("limit none", flush=True)
    time.sleep(0.02)'
    ns_port server
    ns_start other "$python" -c 'import signal, socket
s = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(s.getsockname())
print("ready", flush=True)
signal.pause()'
    ns_wait_for "$T/other.out" ready
    cure --pid "${NS_PID[server]}"
    expect_status 0
    idle_client
    cure --undo --pid "${NS_PID[server]}"
    expect 1 output has "1 listener: TCP_NODELAY restored on 1" stderr is "nagleshim cure: 1 connection was not restored: the program has not accepted it yet"
    cure --undo --port "$port"
    expect 1 stderr has "1 connection was not restored"
    cure --undo --pid "${NS_PID[client]}" # it has no listener
    expect 0 stderr is "nagleshim cure: no socket was restored"
    kill -USR1 "${NS_PID[server]}"
    ns_wait_for "$T/server.out" "limit $limit"
    cure --undo --pid "${NS_PID[server]}"
    expect_status 0
    [[ $limit == none ]] || ns_wait_for "$T/server.out" 'limit 200000'
}

@test "an undo counts no waiting connection of a program that has the library, and --for none of one that was cured before" {
    local how preload
    for how in library earlier; do
        preload=
        [[ $how != library ]] || preload=$LIBRARY
        ns_start server env LD_PRELOAD="$preload" "$python" -c 'import signal, socket
s = socket.create_server(("127.0.0.1", 0))
print("listening on port", s.getsockname()[1], flush=True)
signal.pause()'
        ns_port server
        idle_client
        if [[ $how == library ]]; then
            cure --undo --pid "${NS_PID[server]}"
            expect 0 stderr is "nagleshim cure: no socket was restored"
        else
            cure --pid "${NS_PID[server]}"
            expect_status 0
            cure --pid "${NS_PID[server]}" --for 0.5
            expect 0 output has "another cure has set the options" stderr is "nagleshim cure: no socket was restored"
            cure --undo --pid "${NS_PID[server]}"
            expect 1 stderr has "1 connection was not restored"
            cure --undo --pid "${NS_PID[server]}" # the listener is restored
            expect 1 stderr has "1 connection was not restored"
        fi
        ns_stop server
        ns_stop client
    done
}

@test "if the command has the library, too, as with /etc/ld.so.preload, the library leaves the sockets of others alone" {
    local limit before
    limit=$(limit)
    start_options
    options_are
    before=$output
    run --separate-stderr env LD_PRELOAD="$LIBRARY" "$NS" cure --pid "${NS_PID[options]}" --dry-run
    options_are
    [[ $output == "$before" ]]
    run --separate-stderr env LD_PRELOAD="$LIBRARY" "$NS" cure --pid "${NS_PID[options]}"
    expect 0 output has ": TCP_NODELAY set on "
    options_are "listener 1 $limit" "client 1 $limit" "server 1 $limit" "nodelay 1 $limit" "other 1 $limit"
    run --separate-stderr env LD_PRELOAD="$LIBRARY" "$NS" cure --undo --pid "${NS_PID[options]}"
    expect 0 output has ": TCP_NODELAY restored on "
    options_are
    [[ $output == "$before" ]]
}

# refuse_option N COMMAND...: its Nth call of setsockopt fails.
refuse_option() {
    run --separate-stderr strace -qqfo "$T/trace" -e trace=setsockopt -e inject=setsockopt:error=EPERM:when="$1" "${@:2}"
}

@test "if an option cannot be set, as somebody's BPF program may have it, nothing is left behind that stops the next cure or undo" {
    ns_needs_strace
    local n
    start_options
    for n in {1..12}; do
        refuse_option "$n" "$NS" cure --pid "${NS_PID[options]}"
        cure --pid "${NS_PID[options]}"
        echo >&7
        expect_options "listener 1 .*" "client 1 .*" "server 1 .*"
        refuse_option "$n" "$NS" cure --undo --pid "${NS_PID[options]}"
        cure --undo --pid "${NS_PID[options]}"
        echo >&7
        expect_options "listener 0 .*" "client 0 .*" "server 0 .*"
    done
    cure --pid "${NS_PID[options]}"
    echo >&7
    expect_options "listener 1 .*" "client 1 .*" "server 1 .*"
}

@test "one undo reverts two runs with different policies" {
    local limit
    limit=$(limit)
    start_options
    cure --pid "${NS_PID[options]}" --policy "$(policy ack '{"match": {}, "send": "app", "ack": "before-wait"}')"
    cure --pid "${NS_PID[options]}"
    expect_status 0
    options_are "client 1 $limit"
    cure --undo --all
    options_are 'client 0' 'listener 0' 'nodelay 1'
    [[ $limit == none || $output != *" $limit"* ]]
}

@test "--for treats also connections that are opened meanwhile, and restores all options when its time has passed" {
    start_options
    ns_start cure "$NS" cure --pid "${NS_PID[options]}" --for 3
    ns_wait_for "$T/cure.out" 'python3?.*TCP_NODELAY set'
    options_are 'listener 1' 'client 1' 'server 1'
    words=connect options_are later
    ns_join cure
    grep -qE 'python3?.*: TCP_NODELAY restored on [0-9]' "$T/cure.out"
    options_are 'listener 0' 'client 0' 'server 0' 'nodelay 1' 'later 0'
    # A signal ends it earlier.
    ns_start cure "$NS" cure --pid "${NS_PID[options]}" --for 100
    ns_wait_for "$T/cure.out" 'python3?.*TCP_NODELAY set'
    ns_stop cure
    options_are 'listener 0' 'client 0'
    # If nobody reads its output, they are restored, too.
    "$NS" cure --pid "${NS_PID[options]}" --for 1 | true
    options_are 'listener 0' 'client 0'
    cure --list
    expect_no_part output "(pid ${NS_PID[options]})"
}

@test "--for leaves the sockets that an earlier cure has set, and restores the others" {
    start_options
    # This one sets nothing on the listener, so that what it accepts later is new.
    cure --pid "${NS_PID[options]}" --policy "$(policy client '{"match": {"role": "client"}}')"
    options_are 'listener 0' 'client 1' 'server 0'
    ns_start cure "$NS" cure --pid "${NS_PID[options]}" --for 2
    ns_wait_for "$T/cure.out" 'python3?.*TCP_NODELAY set'
    options_are 'listener 1' 'client 1' 'server 1'
    ns_join cure
    grep -qE 'python3?.*: [0-9] sockets not changed: another cure has set the options' "$T/cure.out"
    options_are 'listener 0' 'client 1' 'server 0'
    cure --pid "${NS_PID[options]}" --for 0.5 --json
    printf '%s\n' "$output" >"$T/o.json"
    says "$T/o.json" '[(one["earlier"], one["changed"]) for one in o["processes"]] == [(2, 3)]'
    cure --undo --pid "${NS_PID[options]}"
    options_are 'client 0' 'nodelay 1'
}

@test "--list shows the processes with options that a cure has set, and changes nothing" {
    start_options
    cure --list
    expect_no_part output "(pid ${NS_PID[options]})"
    cure --list --json
    jq -e --argjson pid "${NS_PID[options]}" '[.processes[] | select(.pid == $pid)] == []' <<<"$output"
    cure --pid "${NS_PID[options]}"
    cure --list
    expect 0 output has "(pid ${NS_PID[options]}): 4 connections and 1 listener: TCP_NODELAY set on 4" output lacks restore
    cure --list --json
    expect_status 0
    printf '%s\n' "$output" >"$T/o.json"
    says "$T/o.json" "[one['connections'] for one in o['processes'] if one['pid'] == ${NS_PID[options]}] == [4]"
    options_are 'listener 1' 'client 1'
    cure --undo --pid "${NS_PID[options]}"
}

@test "an undo of one process leaves what else was changed" {
    start_options
    ns_start other "$python" tests/helpers/tcp_options.py
    ns_wait_for "$T/other.out" '^end'
    cure --pid "${NS_PID[options]}"
    cure --pid "${NS_PID[other]}"
    cure --undo --pid "${NS_PID[other]}"
    expect 0 output has "(pid ${NS_PID[other]}): " output lacks "(pid ${NS_PID[options]}): "
    options_are 'listener 1' 'client 1'
    cure --undo --all
    expect 0 output has "(pid ${NS_PID[options]}): "
    options_are 'listener 0' 'client 0'
}

follow_options() {
    start_options
    ns_start cure "$NS" cure --pid "${NS_PID[options]}" --follow
    ns_wait_for "$T/cure.out" 'python3?.*TCP_NODELAY set'
    words=connect options_are
    for _ in {1..200}; do
        options_are
        ! grep -q '^later 1' <<<"$output" || break
        sleep 0.05
    done
    grep -q '^later 1' <<<"$output"
    words=close options_are 'closed after [0-9.]+ ms'
    took=$(sed -nE 's/^closed after ([0-9.]+) ms/\1/p' <<<"$output")
    holds "$took < 20" || is_late "$took - 20" "the close took $took ms"
    ns_stop cure
    grep -q '^In all:' "$T/cure.out"
    ns_stop options
    exec 7>&-
    rm "$T/words"
}

@test "--follow treats connections that are opened later, and does not delay their close" {
    local took
    in_time follow_options
}

@test "--follow treats a connection that another process hands to the one of --pid after some time" {
    ns_start hands "$python" -c 'import os, socket, time
listener = socket.create_server(("127.0.0.1", 0))
here, there = socket.socketpair()
if os.fork() == 0:
    listener.close()
    print("receiver", os.getpid(), flush=True)
    end = socket.socket(fileno=socket.recv_fds(there, 1, 1)[1][0])
    print("received", flush=True)
    while not end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY): time.sleep(0.01)
    print("treated", flush=True)
    os._exit(0)
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
time.sleep(2)
socket.send_fds(here, [b"x"], [server.fileno()])
os.wait()'
    ns_wait_for "$T/hands.out" '^receiver'
    ns_start cure "$NS" cure --follow --pid "$(field receiver "$T/hands.out")"
    ns_wait_for "$T/hands.out" treated
    ns_join cure
    [[ ! -s $T/cure.err ]] || wrong "it says:" "$T/cure.err"
}

@test "--follow ends when the last process of --pid has ended, and proposes an undo only for those that have not" {
    local name
    start_options
    ns_start other "$python" tests/helpers/tcp_options.py
    ns_wait_for "$T/other.out" '^end'
    for name in stopped cure; do
        ns_start $name "$NS" cure --pid "${NS_PID[options]}" --pid "${NS_PID[other]}" --follow
        ns_wait_for "$T/$name.out" 'TCP_NODELAY set|already'
    done
    ns_stop other
    # It looks for ended processes once per second.
    sleep 2
    kill -0 "${NS_PID[cure]}"
    ns_stop stopped
    grep -qx "To restore the options: $NS cure --undo --pid ${NS_PID[options]}" "$T/stopped.out"
    ns_stop options
    ns_join cure
    grep -q '^In all:' "$T/cure.out"
    # Nobody has the options now.
    run ! grep 'To restore the options' "$T/cure.out"
}

@test "a list for which the kernel has no memory is made again, by --follow and by top, and diagnose has a note of it" {
    local without
    # The kernel begins no list while this one was not read.
    gcc -shared -fPIC -o "$T/memory.so" -D_GNU_SOURCE -x c - <<'END'
#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    static int lists;
    int domain;
    socklen_t size = sizeof domain;
    if (n <= 16384 || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_NETLINK)
        return recvfrom(fd, bytes, n, flags, NULL, NULL);
    if (++lists == atoi(getenv("WITHOUT"))) {
        write(STDERR_FILENO, "without memory\n", 15);
        errno = ENOBUFS;
        return -1;
    }
    ssize_t result = recvfrom(fd, bytes, n, flags, NULL, NULL);
    /* The next list that is asked for is refused. */
    if (lists == atoi(getenv("WITHOUT")) + 1) {
        ((struct nlmsghdr *)bytes)->nlmsg_type = NLMSG_ERROR;
        *(struct nlmsgerr *)NLMSG_DATA(bytes) = (struct nlmsgerr){.error = -EBUSY};
    }
    return result;
}
END
    without=(env LD_PRELOAD="$T/memory.so" WITHOUT=3)
    ns_start late "$python" -c 'import signal, socket, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
listener = socket.create_server(("127.0.0.1", 0))
print("ready", flush=True)
signal.sigwait([signal.SIGUSR1])
client = socket.create_connection(listener.getsockname())
while not client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY): time.sleep(0.01)
print("treated", flush=True)'
    ns_wait_for "$T/late.out" ready
    run --separate-stderr "${without[@]}" "$NS" top --once --interval 0.5
    [[ $status -eq 0 && $output == *PROCESS* && $stderr == "without memory" ]]
    run --separate-stderr "${without[@]}" "$NS" diagnose --for 2 --pid "${NS_PID[late]}"
    expect 0 stderr has $'without memory\n' stderr has 'note: TCP sockets could not be listed at some time, and some may be missing: No buffer space available'
    run --separate-stderr "${without[@]}" WITHOUT=0 "$NS" diagnose --for 2 --pid "${NS_PID[late]}"
    expect 0 stderr lacks 'could not be listed'
    run --separate-stderr "${without[@]}" "$NS" cure --pid "${NS_PID[late]}"
    expect 2 stderr is $'without memory\nnagleshim cure: cannot list TCP sockets: No buffer space available'
    ns_start cure "${without[@]}" "$NS" cure --follow --pid "${NS_PID[late]}"
    ns_wait_for "$T/cure.err" 'without memory'
    kill -USR1 "${NS_PID[late]}"
    ns_wait_for "$T/late.out" treated
}

@test "a lasting lack of memory for lists is said by --follow, and its end; the revert of --for waits for memory" {
    # While the file exists, the kernel has no memory for lists.
    gcc -shared -fPIC -o "$T/memory.so" -D_GNU_SOURCE -x c - <<'END'
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    int domain;
    socklen_t size = sizeof domain;
    if (n > 16384 && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_NETLINK && access(getenv("LACKING"), F_OK) == 0) {
        errno = ENOBUFS;
        return -1;
    }
    return recvfrom(fd, bytes, n, flags, NULL, NULL);
}
END
    local lacking=(env LD_PRELOAD="$T/memory.so" LACKING="$T/lacking") how
    start_options
    for how in --follow '--for 600'; do
        # shellcheck disable=SC2086 # several words
        ns_start cure "${lacking[@]}" "$NS" cure $how --pid "${NS_PID[options]}"
        ns_wait_for "$T/cure.out" 'TCP_NODELAY set on'
        touch "$T/lacking"
        [[ $how == --follow ]] || kill "${NS_PID[cure]}"
        ns_wait_for "$T/cure.err" '^nagleshim cure: cannot list TCP sockets: No buffer space available; it is tried again$'
        rm "$T/lacking"
        ns_wait_for "$T/cure.err" '^nagleshim cure: TCP sockets are listed again$'
        [[ $how != --follow ]] || kill "${NS_PID[cure]}"
        ns_join cure
        [[ $(wc -l <"$T/cure.err") -eq 2 ]] || wrong 'more than two lines:' "$T/cure.err"
        [[ $how != --follow ]] || cure --undo --pid "${NS_PID[options]}"
        options_are 'client 0' 'server 0'
    done
}

@test "a process that gets the number of an ended child of --pid's process is left alone" {
    cat >"$T/again.py" <<'END'
import os, signal, socket, subprocess, sys, time

def start(number, function):
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write(str(number - 1))
    pid = os.fork()
    if pid == 0:
        function()
        os._exit(0)
    return pid

def connect():
    return socket.create_connection(("127.0.0.1", 7000))

def nodelay(connection):
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

def parent():
    mine = [connect()]
    # The other one may begin in the same tick of the clock by which /proc says when a process was started.
    while time.clock_gettime_ns(time.CLOCK_BOOTTIME) % 10000000 > 100000:
        pass
    child = start(5000, signal.pause)
    there.send(b"1")
    there.recv(1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    there.send(b"2")
    there.recv(1)
    mine.append(connect())
    while not nodelay(mine[1]):
        time.sleep(0.01)
    there.send(b"3")
    signal.pause()

def another():
    connection = connect()
    here.send(b"1")
    here.recv(1)
    time.sleep(1)
    print(os.getpid(), "has", nodelay(connection), flush=True)

listener = socket.create_server(("127.0.0.1", 7000), backlog=9)
here, there = socket.socketpair()
pid = start(4000, parent)
here.recv(1)
cure = subprocess.Popen([sys.argv[1], "cure", "--pid", str(pid), "--follow"], stdout=subprocess.PIPE)
cure.stdout.readline()
here.send(b"1")
here.recv(1)
os.waitpid(start(5000, another), 0)
END
    unshare -fpn --mount-proc true 2>/dev/null || ns_skip "no process namespace"
    run timeout 20 unshare -fpn --mount-proc sh -c 'ip link set lo up; "$@"' again "$python" "$T/again.py" "$NS"
    expect 0 output is '5000 has 0'
}

@test "--follow follows thousands of connections a second without an error on them" {
    ns_start churn "$python" -c '
import socket, time
def wait_for_nodelay(sock):
    while not sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY):
        time.sleep(0.01)
s = socket.create_server(("127.0.0.1", 0))
print("listening on port", s.getsockname()[1], flush=True)
wait_for_nodelay(s)
for _ in range(4000):
    c = socket.create_connection(s.getsockname())
    a = s.accept()[0]
    c.sendall(b"x")
    assert a.recv(1) == b"x"
    a.close()
    assert c.recv(1) == b""
    c.close()
    time.sleep(0.0003)
# After them it still follows: this end inherits nothing from the listener.
wait_for_nodelay(socket.create_connection(s.getsockname()))'
    ns_port churn
    ns_start cure "$NS" cure --port "$port" --follow
    ns_join churn || wrong "the program:" "$T/churn.err"
    ns_stop cure
    grep -qE '1 listener' "$T/cure.out"
}

@test "a process that may not be examined is not said to have no socket" {
    "${as_other[@]}" true 2>/dev/null || cannot_here "only root can be another user"
    start_options
    cp "$NS" "$T"
    let_others_in "$T"
    run --separate-stderr "${as_other[@]}" "$T/nagleshim" cure --dry-run --pid "${NS_PID[options]}"
    expect 3 output is '' stderr has "1 process could not be examined: process ${NS_PID[options]} (" stderr lacks 'no TCP socket'
}

@test "a process in other namespaces, as in a container, is cured from the host" {
    ns_start box unshare --net --pid --fork --kill-child sh -c "ip link set lo up; exec $python tests/helpers/tcp_options.py"
    ns_wait_for "$T/box.out" '^end'
    cure --pid "${NS_PID[box]}"
    expect 0 output has "4 connections and "
}

@test "sockets that have the library, the options or no rule are left alone, and the reason is printed" {
    local policy
    victim
    ns_start client env LD_PRELOAD="$LIBRARY" "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 1000000
    ns_start plain "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 1000000
    local name
    for name in client plain; do # until it has connected
        for _ in {1..500}; do
            cure --pid "${NS_PID[$name]}" --dry-run
            [[ -z $output ]] || break
            sleep 0.01
        done
    done
    cure --pid "${NS_PID[client]}"
    expect 0 output is "tcp_nodelay_client (pid ${NS_PID[client]}): 1 socket not changed: the library works in this process"
    policy=$(policy none '{"match": {"remote": "1"}}')
    cure --pid "${NS_PID[plain]}" --policy "$policy"
    expect_whole output "tcp_nodelay_client (pid ${NS_PID[plain]}): 1 socket not changed: no rule of the policy matches"
    cure --pid "${NS_PID[plain]}" --policy "$(policy app '{"match": {"process": "tcp_nodelay_client"}, "send": "app", "ack": "app"}')"
    expect_whole output "tcp_nodelay_client (pid ${NS_PID[plain]}): 1 socket not changed: the options are set already"
    cure --pid "${NS_PID[plain]}"
    cure --pid "${NS_PID[plain]}" --json
    expect_status 0
    printf '%s\n' "$output" >"$T/o.json"
    says "$T/o.json" 'o["command"] == "cure" and o["status"] == 0 and not o["dry_run"] and len(o["processes"]) == 1
        and [o["processes"][0][name] for name in ("unchanged", "changed", "connections")] == [1, 0, 0]'
}

@test "without permission the exit status is 3, and nothing is changed" {
    install -m 755 "$NS" "$T/nagleshim"
    chmod 755 "$T"
    start_options
    run -3 --separate-stderr "${as_other[@]}" "$T/nagleshim" cure --pid "${NS_PID[options]}"
    options_are 'listener 0' 'client 0'
}

@test "an undo that lacks the permission for one of two processes restores the other one, and is no success" {
    [[ $(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0) == 0 ]] || cannot_here "kernel.yama.ptrace_scope is not 0"
    install -m 755 "$NS" "$T/nagleshim"
    chmod 755 "$T"
    start_options
    ns_start other "${as_other[@]}" "$python" -c "$(<tests/helpers/tcp_options.py)"
    ns_wait_for "$T/other.out" '^end'
    cure --pid "${NS_PID[options]}" --pid "${NS_PID[other]}"
    expect_status 0
    run --separate-stderr "${as_other[@]}" "$T/nagleshim" cure --undo --pid "${NS_PID[options]}" --pid "${NS_PID[other]}"
    expect 1 output has "(pid ${NS_PID[other]}): 4 connections and 1 listener: TCP_NODELAY restored on 4" \
        stderr has "nagleshim cure: 1 process could not be examined: process ${NS_PID[options]} (python"
    options_are 'listener 1' 'client 1'
    cure --undo --pid "${NS_PID[options]}" --pid "${NS_PID[other]}"
    expect 0 stderr is ''
    options_are 'listener 0' 'client 0'
}

@test "processes for whose network namespaces there are too few descriptors are counted, and the status is 1" {
    for i in {1..16}; do
        ns_start "sleep$i" unshare -n sh -c 'echo inside; exec sleep 60'
        ns_wait_for "$T/sleep$i.out" inside
    done
    run --separate-stderr prlimit --nofile=32:32 "$NS" cure --undo --all
    expect 1 stderr has ' processes could not be examined: the last, ' stderr has ': more descriptors are needed (ulimit -Hn)'
}

@test "a port without sockets, the number of a thread and a missing policy are named" {
    cure --port 1
    expect 0 stderr is "nagleshim cure: no TCP socket with port 1 was found"
    "$python" -c 'import threading, time
threading.Thread(target=lambda: (print("thread", threading.get_native_id(), flush=True), time.sleep(60))).start()' >"$T/thread.out" &
    NS_STARTED+=("$!")
    ns_wait_for "$T/thread.out" '^thread'
    cure --pid "$(field thread "$T/thread.out")"
    expect 2 stderr is "nagleshim cure: there is no process $(field thread "$T/thread.out")"
    cure --all --policy "$T/none.json"
    expect 2 stderr has "$T/none.json: "
}
