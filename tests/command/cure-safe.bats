# SPDX-License-Identifier: MIT
# Promise: Another user's directories, links, locks, control groups and program names do not mislead root's `nagleshim cure`.

load ../helpers/groups

names=/sys/fs/bpf/nagleshim

# other COMMAND...: as another user, where the BPF file system is writable for everybody, as the kernel makes it.
other() {
    "${inside[@]}" "${as_other[@]}" "$@"
}

@test "names in the BPF file system are used only in a directory of root's: another user's link, directory or file is refused" {
    local why="$names is not a directory of root's that nobody else may write to"
    mkdir -p "$T/victim/12345" "$T/victim/777"
    touch "$T"/victim/{12345,777}/{connections,options}
    chmod 755 "$T"
    # Root's own link is followed whatever fs.protected_symlinks says.
    "${inside[@]}" ln -s "$T/victim" $names
    cure --cgroup "$group"
    expect 1 output is '' stderr is "nagleshim cure: the kernel does not cure new connections by this policy: $why"
    cure --undo --all
    expect 1 output is '' stderr is "nagleshim cure: what the kernel does with new connections stays as it is: $why"
    cure --list
    expect 1 stderr is "nagleshim cure: it is not known which control groups are cured: $why"
    [[ $(find "$T/victim" -mindepth 1 | wc -l) -eq 6 ]]
    "${inside[@]}" rm $names
    other mkdir -m 755 $names
    cure --cgroup "$group"
    expect 1 output is '' stderr is "nagleshim cure: the kernel does not cure new connections by this policy: $why"
    "${inside[@]}" chown root $names
    "${inside[@]}" chmod 777 $names
    cure --cgroup "$group" --dry-run
    expect 1 output is '' stderr has "$why"
    programs_are 0
    "${inside[@]}" chmod 700 $names
    cure --cgroup "$group"
    expect 0 output has "$group: the kernel will "
    programs_are 1
    cure --undo --cgroup "$group"
    programs_are 0
    # A cure that is killed may leave the directory empty. That counts as no cure.
    "${inside[@]}" mkdir -m 700 $names
    run "${inside[@]}" "$NS" host status # it names the cured groups of all others, too
    [[ $output != *"$group"* && $output != *'did not finish'* ]]
    cure --cgroup "$group"
    cure --undo --cgroup "$group"
    expect 0 stderr is ''
    "${inside[@]}" test ! -e $names
}

@test "a lock that somebody holds is waited for some seconds only, and an undo goes on later" {
    cure --cgroup "$group"
    ns_start lock "${inside[@]}" flock -o $names sh -c 'echo locked; exec sleep 60'
    ns_wait_for "$T/lock.out" locked
    run --separate-stderr timeout 20 "${inside[@]}" "$NS" cure --undo --all
    expect 1 output is '' stderr is "nagleshim cure: what the kernel does with new connections stays as it is: another cure or undo, or \
the process that /proc/locks shows, has the lock of $names"
    programs_are 1
    ns_stop lock
    cure --undo --all
    expect_status 0
    programs_are 0
}

@test "if the kernel cures one group of several and not another, each is named, and the status is 1" {
    local name same=${group##*/}-same
    mkdir -p "$group"/{one,two,three}/"$same"
    "$python" tests/helpers/bpf.py only "$group/two/$same"
    cure --cgroup "$same"
    expect 1 output has "$group/one/$same: the kernel will " output has "$group/three/$same: the kernel will " output lacks "two/$same" \
        stderr is "nagleshim cure: $group/two/$same: the kernel does not cure new connections by this policy: a program of the group, or of one above it, allows no other"
    for name in one three; do
        [[ $("$python" tests/helpers/bpf.py count "$group/$name/$same") == '1 '* ]]
    done
    cure --undo --all
}

@test "a word selects groups of exactly this name, or by at least twelve digits of an id" {
    local id=0123456789abcdef0123456789abcdef
    mkdir "$group/docker-$id.scope" "$group/kubepods-pod01234567_89ab_4def_8123_456789abcdef.slice"
    cure --cgroup "${group##*/}" --dry-run
    expect_part output "$group: the kernel would "
    for word in "${id:0:12}" "docker-$id.scope"; do
        cure --cgroup "$word" --dry-run
        expect_part output "docker-$id.scope: the kernel would "
    done
    for word in 01234567-89ab-4def-8123-456789abcdef 01234567_89ab; do
        cure --cgroup "$word" --dry-run
        expect_part output "456789abcdef.slice: the kernel would "
    done
    for word in "${id:0:11}" docker nagleshim "docker-$id" 1; do
        cure --cgroup "$word" --dry-run
        expect 2 output is '' stderr is "nagleshim cure: there is no control group '$word'"
    done
}

@test "a group is found below groups that a user nests very deep" {
    local word=${group##*/}-wanted
    (
        cd "$group"
        for _ in {1..150}; do
            mkdir d && cd d
        done
        mkdir "$word"
    )
    run --separate-stderr "${inside[@]}" prlimit --nofile=64:64 "$NS" cure --cgroup "$word" --dry-run
    expect 0 stderr is '' output has "/d/$word: the kernel would "
}

@test "a cure of another group leaves one in force whose path is too long to be opened" {
    local id
    mkdir "$group/other"
    id=$(
        cd "$group" || exit
        for _ in {1..25}; do
            mkdir "$(printf 'd%.0s' {1..200})" && cd d*
        done
        "${inside[@]:0:3}" "--wd=." -- "$NS" cure --cgroup ./ >&2
        stat -c %i .
    )
    # The processes there may have connections that an undo would restore.
    cure --undo --cgroup "$group" --dry-run
    expect 1 output is '' stderr has 'the processes of 1 control group, and of all below, could not be examined: File name too long'
    [[ $("${inside[@]}" ls /sys/fs/bpf/nagleshim) == "$id" ]]
    cure --cgroup "$group/other"
    "${inside[@]}" test -e "/sys/fs/bpf/nagleshim/$id/connections"
    cure --undo --all
    "${inside[@]}" test ! -e /sys/fs/bpf/nagleshim
}

@test "processes of a group that the command cannot see are counted: of a threaded group, and outside of its PID namespace" {
    start_options
    cure --cgroup "$group"
    run --separate-stderr "${inside[@]}" unshare --pid --fork --kill-child --mount-proc "$NS" cure --undo --cgroup "$group"
    expect 1 stderr has 'nagleshim cure: 1 process of the control groups could not be examined: another PID namespace is needed'
    cure --undo --cgroup "$group"
    expect 0 output has TCP_NODELAY
    mkdir "$group/threads"
    echo threaded >"$group/threads/cgroup.type"
    echo "${NS_PID[options]}" >"$group/threads/cgroup.threads"
    cure --undo --cgroup "$group/threads"
    expect 1 stderr has 'nagleshim cure: the processes of 1 control group, and of all below, could not be examined: Operation not supported'
    doctor --cgroup "$group/threads"
    expect 2 stderr is 'nagleshim doctor: the processes of 1 control group, and of all below, could not be examined: Operation not supported'
}

@test "a process that gets the number of a group's process while the group is read is left alone" {
    ns_needs_strace
    cat >"$T/again.py" <<'END'
import glob, os, signal, socket, subprocess, sys, time

def start(number, group):
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write(str(number - 1))
    pid = os.fork()
    if pid == 0:
        connection = socket.create_connection(listener.getsockname())
        signal.pause()
    if group:
        with open(group + "/cgroup.procs", "w") as processes:
            processes.write(str(pid))
    return pid

def is_read():
    for name in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(name).endswith("/cgroup.procs"):
                return True
        except OSError:
            pass
    return False

listener = socket.create_server(("127.0.0.1", 0), backlog=9)
command, group = sys.argv[1:]
child = start(5000, group)
start(6000, group)
time.sleep(0.1)
cure = subprocess.Popen(["strace", "-qq", "-o", "/dev/null", "-P", group + "/cgroup.procs", "-e",
                         "inject=read:delay_exit=1500000:when=1", command, "cure", "--cgroup", group, "--dry-run"])
while not is_read():
    pass
time.sleep(0.3)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
start(5000, None)
cure.wait()
END
    unshare -fpn --mount-proc true 2>/dev/null || ns_skip "no process namespace"
    run timeout 20 unshare -fpn --mount-proc sh -c 'ip link set lo up; "$@"' again "$python" "$T/again.py" "$NS" "$group"
    expect 0 output has '(pid 6000): would change' output lacks '(pid 5000)'
}

@test "with --follow, programs with very many names take a bounded part of the memory" {
    local n
    printf '%s\n' '#include <arpa/inet.h>' '#include <stdlib.h>' '#include <unistd.h>' 'int main(int n, char **words) {
        struct sockaddr_in a = {AF_INET, htons(atoi(words[1])), {htonl(INADDR_LOOPBACK)}};
        if (connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&a, sizeof a) != 0) return 1;
        return pause(); }' | gcc -O2 -static -w -x c -o "$T/program" -
    ns_serve echo "$python" -c 'import socket, time
listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
print("listening on port", listener.getsockname()[1], flush=True)
time.sleep(100)'
    for n in {1..300}; do
        ln "$T/program" "$T/p$n"
        "$T/p$n" "$port" 3>&- &
        NS_STARTED+=("$!")
    done
    ns_start follow "$NS" cure --port "$port" --follow
    ns_wait_for "$T/follow.out" '^other programs: .*TCP_NODELAY set on [0-9]+' 20
    ns_stop follow
    sed '1,/^In all:/d' "$T/follow.out" >"$T/all.out"
    holds "$(grep -c 'TCP_NODELAY set' "$T/all.out") <= 256 && $(sed -n 's/^other programs: \([0-9]*\) connections.*/\1/p' "$T/all.out") > 40"
}

@test "sockets that no process shows are counted: of a thread that outlives the main one, or has a descriptor table of its own" {
    local kind
    printf '%s\n' '#define _GNU_SOURCE' '#include <arpa/inet.h>' '#include <pthread.h>' '#include <sched.h>' '#include <stdio.h>' \
        '#include <unistd.h>' 'static int own;
    static void *go(void *unused) {
        if (own) unshare(CLONE_FILES);
        listen(socket(AF_INET, SOCK_STREAM, 0), 5);
        puts("listens"); fflush(stdout);
        pause(); return unused; }
    int main(int n, char **words) {
        pthread_t thread;
        own = n > 1 && *words[1] == 116;
        pthread_create(&thread, NULL, go, NULL);
        if (!own) pthread_exit(NULL);
        pause(); }' | gcc -O2 -w -pthread -x c -o "$T/program" -
    chmod 755 "$T"
    for kind in main table; do
        ns_start $kind "${as_other[@]}" "$T/program" $kind
        ns_wait_for "$T/$kind.out" listens
        cure --undo --all --dry-run
        expect 1 stderr has 'nagleshim cure: 1 socket belongs to no process that could be examined'
        [[ $kind == table ]] || cure --pid "${NS_PID[$kind]}"
        expect 1 stderr has 'nagleshim cure: 1 socket belongs to no process that could be examined'
        ns_stop $kind
    done
}

@test "without the child that examines processes, as where no more may be started, nothing is treated, and that is said" {
    ns_needs_strace
    victim
    ns_start client env LD_PRELOAD="$LIBRARY" "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 1000000
    client_has_a_socket() {
        cure --pid "${NS_PID[client]}" --dry-run
        [[ $output == *'the library works in this process' ]]
    }
    ns_until 5 "the client's connection" client_has_a_socket
    run --separate-stderr "${inside[@]}" strace -qqo "$T/trace" -e inject=clone,clone3,fork:error=EAGAIN "$NS" cure --pid "${NS_PID[client]}"
    expect 1 output is '' stderr is 'nagleshim cure: 1 socket belongs to no process that could be examined'
}

@test "a cure that is killed between the two options of a listener sets both, and an undo restores them" {
    ns_needs_strace
    ns_start server "$python" -c 'import socket, time
s = socket.create_server(("127.0.0.1", 0))
while True:
    print("mark", s.getsockopt(6, 27), "nodelay", s.getsockopt(6, 1), flush=True)
    time.sleep(0.02)'
    ns_start cure strace -f -qq -e trace=setsockopt -e inject=setsockopt:delay_exit=3000000:when=1 -o "$T/calls" "$NS" cure --pid "${NS_PID[server]}"
    ns_wait_for "$T/server.out" '^mark 2 nodelay 0' 30
    kill -KILL "$(pgrep -P "${NS_PID[cure]}")"
    ns_join cure || true # its reader has ended, too
    sleep 0.1
    has_line <(tail -n 1 "$T/server.out") 'mark 2 nodelay 1' || wrong "half of it is set:" "$T/server.out"
    cure --undo --pid "${NS_PID[server]}"
    expect 0 output has "1 listener: TCP_NODELAY restored on 1"
    sleep 0.1
    has_line <(tail -n 1 "$T/server.out") 'mark 0 nodelay 0' || wrong "not restored:" "$T/server.out"
}
