# SPDX-License-Identifier: MIT
# Promise: What a hostile process or file shows does not hang the command, and the command opens nothing that could do harm.
# Waits: the command gives each stuck process a second.
# Parts: 3

load ../helpers/doctor

setup() {
    ns_setup
    ns_python
    has_ptrace || cannot_here "CAP_SYS_PTRACE is missing"
    program ordinary "$T/ordinary"
}

# within SECONDS COMMAND...: it ends by itself in that time.
within() {
    local seconds=$1
    shift
    run --separate-stderr timeout -s KILL "$seconds" "$@"
    [[ $status -lt 124 ]] || unexpected "it did not end within $seconds s: $*"
}

# only_looked_at NAME COMMAND...: makes a device of that name in the root of a process that the command starts. doctor finds it,
# and opens it only by a descriptor that cannot read.
only_looked_at() {
    local name=$1
    shift
    patient=/patient patient p pause "$@" "${enter[@]}" "$root"
    mknod "$root/$name" c 1 3 || mkfifo "$root/$name"
    run -1 --separate-stderr strace -f -qq -y -e trace=openat,openat2,open -o "$T/calls" "$NS" doctor --pid "${NS_PID[p]}"
    grep "$name" "$T/calls" | grep ' = [0-9]' >"$T/opened" || wrong "it was not found:" "$T/calls" || return
    [[ $(grep -vc O_PATH "$T/opened") -eq 0 ]] || wrong "it was opened:" "$T/opened"
}

@test "doctor does not open a device that a container has as its ld.so.preload, or as the library" {
    make_root
    unset NAGLESHIM_POLICY_DIR
    only_looked_at etc/ld.so.preload env
    only_looked_at opt/libnagleshim.so env LD_PRELOAD=/opt/libnagleshim.so
    expect_part output "reason: /opt/libnagleshim.so is not a regular file"
}

@test "a file system that denies a file after the look at it, and has exchanged it, has no device opened" {
    ns_needs_strace
    cp "$(type -P true)" "$T/program"
    ln -s /dev/zero "$T/link"
    gcc -D_FILE_OFFSET_BITS=64 -x c -shared -fPIC -o "$T/denies.so" - <<'C'
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int open(const char *path, int flags, ...)
{
    char to[4096] = "";
    if (strncmp(path, "/proc/self/fd/", 14) != 0 || readlink(path, to, sizeof to - 1) < 0 ||
        !strstr(to, "/program"))
        return openat(AT_FDCWD, path, flags, 0600);
    rename(getenv("LINK"), to);
    errno = ENOENT;
    return -1;
}
C
    strace -f -qq -y -E LD_PRELOAD="$T/denies.so" -E LINK="$T/link" -e trace=openat,open -o "$T/calls" "$NS" doctor "$T/program" || true
    [[ -L $T/program ]] || cannot_here "a library cannot replace open"
    [[ $(grep '</dev/zero>' "$T/calls" | grep -vc O_PATH) -eq 0 ]] || wrong "it was opened:" "$T/calls"
}

in_box=()

# stuck NAME FORM [USER [NAMESPACE]]: starts a process that makes others wait (tests/helpers/stuck.py).
stuck() {
    [[ -w /dev/fuse ]] && unshare --mount true 2>/dev/null || cannot_here "no /dev/fuse, or no mount namespace can be made"
    mkdir "$T/$1"
    ns_start "$1" "${in_box[@]}" unshare --mount "$python" tests/helpers/stuck.py "$T/$1" "${@:2}"
}

# are_stuck NAME...: waits until these are, and sets pids to the processes that make others wait.
are_stuck() {
    local name
    pids=()
    for name; do
        ns_wait_for "$T/$name.out" '^stuck '
        pids+=("$(field stuck "$T/$name.out")")
        also "$name itself" "${pids[-1]}"
    done
}

# children PID: how many it has, with zombies.
children() {
    wc -w <"/proc/$1/task/$1/children"
}

@test "no command waits for a process that makes it wait, by a FIFO, a page of a dead file system or a lock" {
    local form words status running=() pids
    for form in fifo page lock; do
        stuck "$form" "$form"
    done
    are_stuck fifo page lock
    # The control: reading the arguments of the last one does not end.
    run -124 timeout 1 cat "/proc/${pids[2]}/cmdline"
    for form in fifo page lock; do
        for words in "doctor --pid" "diagnose --for 0.5 --pid" "cure --dry-run --pid" "top --once --interval 0.5 --pid"; do
            # shellcheck disable=SC2086 # words
            ns_start "$form: $words" timeout -s KILL 10 "$NS" $words "${NS_PID[$form itself]}"
            running+=("$form: $words")
        done
    done
    ns_start "stuck: all" timeout -s KILL 10 "$NS" doctor --all
    for words in "${running[@]}" "stuck: all"; do
        status=0
        ns_join "$words" || status=$?
        [[ $status -lt 124 ]] || wrong "it did not end within 10 s: $words" "$T/$words.err" || return
        [[ $words == fifo* ]] || grep -q stuck "$T/$words.out" "$T/$words.err" || wrong "$words:" "$T/$words.out" "$T/$words.err" || return
    done
    # What the kernel says without waiting is known.
    grep -qE "stuck: process [0-9]+ \\($(cat "/proc/${NS_PID[lock itself]}/comm")\\): " "$T/stuck: all.out"
}

@test "a signal ends a command at once, however many processes make it wait one after the other" {
    local name start words pids
    for name in s{1..6}; do
        stuck "$name" lock
    done
    are_stuck s{1..6}
    for words in "top --interval 0.5" diagnose "cure --follow"; do
        # shellcheck disable=SC2086 # words
        ns_start command "$NS" $words "${pids[@]/#/--pid=}"
        while [[ $(children "${NS_PID[command]}") -eq 0 ]]; do sleep 0.01; done
        sleep 0.3 # of the second that it waits for each
        start=$EPOCHREALTIME
        ns_stop command
        holds "$EPOCHREALTIME - $start < 2.5" || unexpected "$words: $start to $EPOCHREALTIME"
    done
}

@test "of many processes of a user that make the command wait, only the first ones cost as much as a second, and all are one note" {
    local name start pids
    for name in s{1..14}; do
        stuck "$name" lock
    done
    are_stuck s{1..14}
    start=$EPOCHREALTIME
    run --separate-stderr "$NS" doctor --json "${pids[@]/#/--pid=}"
    holds "$EPOCHREALTIME - $start < 8" || unexpected "$start to $EPOCHREALTIME"
    # Nothing is known of them.
    jq -e '.counts.stuck == 14 and .works == "unknown" and .verdict == "no process could be read"' <<<"$output"
    # They leave room for other notes.
    run --separate-stderr "$NS" diagnose --for 0.2 "${pids[@]/#/--pid=}"
    expect_part stderr "note: 14 processes could not be examined: the last, "
    expect_part stderr ": it, or another process of its user, is stuck in the kernel"
}

@test "what the processes of one user cost takes no time from those of another user" {
    local name start pids
    for name in s{1..5}; do
        stuck "$name" lock 65533
    done
    stuck other lock $((65533 - 64))
    are_stuck s{1..5} other
    start=$EPOCHREALTIME
    run -2 --separate-stderr "$NS" doctor "${pids[@]/#/--pid=}"
    # One second, a half, a quarter, an eighth and a sixteenth; and one second.
    holds "$EPOCHREALTIME - $start >= 2.9" || unexpected "$start to $EPOCHREALTIME"
}

@test "cure does not wait for a socket that its process keeps locked, and changes the others" {
    local pids
    stuck send send
    are_stuck send
    within 5 "$NS" cure --pid "${pids[0]}"
    expect 1 output has ' listener: TCP_NODELAY set' output has '1 socket not changed: it, or another process of its user, is stuck in the kernel'
}

@test "--for restores the sockets of a process beside stuck ones of the same user" {
    local pids
    stuck send1 send
    stuck send2 send
    ns_start free "$python" -c 'import socket, time
listener = socket.create_server(("127.0.0.1", 0))
ends = [(socket.create_connection(listener.getsockname()), listener.accept()[0]) for _ in range(20)]
print("ready", flush=True)
time.sleep(60)'
    ns_wait_for "$T/free.out" ready
    are_stuck send1 send2
    within 20 "$NS" cure --for 1 "${pids[@]/#/--pid=}" --pid "${NS_PID[free]}"
    expect 0 output has 'TCP_NODELAY set on ' output has 'TCP_NODELAY restored on '
    within 5 "$NS" cure --undo --dry-run --pid "${NS_PID[free]}"
    expect 0 stderr has 'no socket was restored'
}

# Two children of the command wait in the kernel.
two_wait() {
    local child waiting=0
    # shellcheck disable=SC2013 # numbers
    for child in $(cat "/proc/${NS_PID[cure]}/task/${NS_PID[cure]}/children"); do
        ! grep -q ') D ' "/proc/$child/stat" 2>/dev/null || waiting=$((waiting + 1))
    done
    ((waiting == 2))
}

@test "cure --follow treats the sockets of a user whose processes held readers, when they do not any more" {
    local pids
    stuck send1 send
    stuck send2 send
    ns_start free "$python" -c 'import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
print("ready", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
client = socket.create_connection(listener.getsockname())
print("connected", flush=True)
while not client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY): time.sleep(0.05)
print("treated", flush=True)
time.sleep(60)' "$T/more"
    ns_wait_for "$T/free.out" ready
    are_stuck send1 send2
    ns_start cure "$NS" cure --follow "${pids[@]/#/--pid=}" --pid "${NS_PID[free]}"
    ns_until 20 "two that wait" two_wait
    touch "$T/more"
    ns_wait_for "$T/free.out" connected
    sleep 2 # it sees the connection
    ns_stop send1
    ns_stop send2
    ns_wait_for "$T/free.out" treated 20
    ns_stop cure
}

@test "a signal ends cure --follow at once while it reads the descriptors of many processes" {
    local start
    ns_start many "$python" -c 'import os, resource, socket, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
most = min(most, 20000) if most > 0 else 20000
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
listener = socket.create_server(("127.0.0.1", 0))
for _ in range(most - 100):
    os.dup(listener.fileno())
parent = os.getpid()
for _ in range(3000000 // most):
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(0)
print("ready", flush=True)
time.sleep(60)'
    ns_wait_for "$T/many.out" ready 60
    ns_start cure "$NS" cure --follow --pid "${NS_PID[many]}"
    sleep 1
    start=$EPOCHREALTIME
    ns_stop cure
    holds "$EPOCHREALTIME - $start < 2" || unexpected "$start to $EPOCHREALTIME"
}

@test "an undo or a list that cannot treat the sockets of a stuck process ends with status 1" {
    local pids
    stuck lock lock
    are_stuck lock
    within 5 "$NS" cure --undo --pid "${pids[0]}"
    expect 1 output has 'sockets not changed: it, or another process of its user, is stuck in the kernel'
    within 5 "$NS" cure --list
    expect 1 output has 'sockets not changed: it, or another process of its user, is stuck in the kernel'
}

@test "if something kills the reader, the next question starts another one" {
    local reader
    # In a process group of its own: its child must not live on beside the next test.
    ns_start server setsid "$python" -c 'import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
def connect():
    return socket.create_connection(listener.getsockname()), listener.accept()[0]
ends = connect()
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
if os.fork() == 0:
    ends = connect()
time.sleep(100)' "$T/more"
    ns_wait_for "$T/server.out" ready
    ns_start top "$NS" top --pid "${NS_PID[server]}" --prometheus "$T/metrics" --interval 0.5
    ns_wait_for "$T/metrics" 'library="no"} 1'
    reader=$(cat "/proc/${NS_PID[top]}/task/${NS_PID[top]}/children")
    kill -KILL "${reader% }"
    touch "$T/more"
    ns_wait_for "$T/metrics" 'library="(no"} 2|[^n])'
    has_line "$T/metrics" 'library="no"} 2' || wrong "the child was not examined at once:" "$T/metrics"
}

@test "what reads other processes has the rights to read, and no others" {
    local reader
    ns_start server "$python" -c 'import socket, time
listener = socket.create_server(("127.0.0.1", 0))
ends = socket.create_connection(listener.getsockname()), listener.accept()[0]
print("ready", flush=True)
time.sleep(100)'
    ns_wait_for "$T/server.out" ready
    ns_start top "$NS" top --pid "${NS_PID[server]}" --interval 0.5
    while [[ $(children "${NS_PID[top]}") -eq 0 ]]; do sleep 0.01; done
    reader=$(cat "/proc/${NS_PID[top]}/task/${NS_PID[top]}/children")
    reader=${reader% }
    ns_wait_for "$T/top.out" "server no "
    grep -E '^(Uid|Cap(Inh|Prm|Eff|Amb)|NoNewPrivs):' "/proc/$reader/status" >"$T/rights"
    if [[ $(grep CapEff /proc/self/status) == *ffff ]] && (($(stat -c %u /proc/self) == 0)); then
        # CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH
        # A user that nobody is.
        [[ $(sed -E 's/\b213[0-9]{7}\b/N/g' "$T/rights") == "Uid:	N	N	N	N
CapInh:	0000000000000000
CapPrm:	0000000000080004
CapEff:	0000000000080004
CapAmb:	0000000000000000
NoNewPrivs:	1" ]] || wrong "these are its rights:" "$T/rights"
    fi
    # It keeps nothing open but the command's end of its questions.
    [[ $(ls -A "/proc/$reader/fd") == 0 ]]
    kill -KILL "${NS_PID[top]}"
    timeout 10 tail --pid="$reader" -s 0.01 -f /dev/null
}

@test "beside twelve processes that are stuck, a service of metrics has no child left but its reader" {
    local name pids
    for name in s{1..12}; do
        stuck "$name" lock
    done
    are_stuck s{1..12}
    ns_start top "$NS" top --prometheus "$T/metrics" --interval 1
    timeout 60 bash -c 'until grep -q "library=\"stuck\"} 12" "$1" 2>/dev/null; do sleep 0.2; done' first "$T/metrics" ||
        wrong "no process is stuck:" "$T/metrics" "$T/top.err" || return
    [[ $(children "${NS_PID[top]}") -le 1 ]] || unexpected "$(ps --ppid "${NS_PID[top]}" -o pid,stat,comm)"
}

@test "of readers that even SIGKILL does not end, eight are kept, and none is started after them" {
    local user most=0 n pids end
    for user in {70000..70010}; do
        stuck "$user" page "$user"
    done
    are_stuck {70000..70010}
    ns_start top "$NS" top --prometheus "$T/metrics" --interval 1
    end=$((SECONDS + 50))
    until grep -q 'library="stuck"} 11' "$T/metrics" 2>/dev/null; do
        ((SECONDS < end)) || wrong "not all are stuck:" "$T/metrics" "$T/top.err" || return
        n=$(children "${NS_PID[top]}") || wrong "top has ended:" "$T/top.err" || return
        most=$((n > most ? n : most))
        sleep 0.1
    done
    n=$(children "${NS_PID[top]}")
    # The file system of each has a read request, and answers no interrupt.
    [[ $n -eq 8 && $most -le 9 ]] || unexpected "children: $n, at most $most"
    ns_stop top
}

# Starts a client and a server of this user.
other_user() {
    victim
    "${stalling[@]:0:3}" 127.0.0.1 "$port" 100000 >/dev/null &
    NS_STARTED+=("$!")
}

# Processes of $users hold readers, and one of another user is examined.
hides_nobody() {
    local i n pids
    for i in "${!users[@]}"; do
        # shellcheck disable=SC2086 # words
        stuck "p$i" page ${users[i]}
    done
    are_stuck p{0..8}
    ns_start top "$NS" top --prometheus "$T/metrics" --interval 1
    ns_wait_for "$T/metrics" 'library="stuck"} 9' 20
    n=$(children "${NS_PID[top]}")
    [[ $n -le 3 ]] || unexpected "children: $n"
    other_user
    ns_wait_for "$T/metrics" 'library="no"} [1-9]' || wrong "no process was examined:" "$T/metrics"
}

@test "a user whose processes hold readers hides no process of another user" {
    local users=(70000 70000 70000 70000 70000 70000 70000 70000 70000)
    hides_nobody
}

@test "nor does one whose processes have many user ids, in user namespaces that he has made" {
    local users=({1..9})
    setpriv --reuid=70000 --clear-groups unshare --user true || ns_skip "no user namespace for an ordinary user"
    ns_start owner setpriv --reuid=70000 --clear-groups unshare --user sleep 100
    ns_wait_for "/proc/${NS_PID[owner]}/comm" sleep
    echo '0 80000 100' >"/proc/${NS_PID[owner]}/uid_map"
    users=("${users[@]/%/ /proc/${NS_PID[owner]}/ns/user}")
    hides_nobody
}

@test "nor does root of a container that has no user namespace" {
    local users=(0 0 0 0 0 0 0 0 0)
    ns_start box unshare --pid --fork --kill-child sleep 100
    ns_until 5 "its process" pgrep -P "${NS_PID[box]}"
    in_box=(nsenter --target "$(pgrep -P "${NS_PID[box]}")" --pid --)
    hides_nobody
}

@test "nor does one whose processes end while they hold readers" {
    local ended='' i pids reader readers
    for i in 1 2; do stuck "p$i" page 70000; done
    are_stuck p1 p2
    ns_start top "$NS" top --prometheus "$T/metrics" --interval 1
    until [[ $(wc -w <<<"$ended") -eq 2 ]]; do
        read -ra readers <"/proc/${NS_PID[top]}/task/${NS_PID[top]}/children" || true
        for reader in "${readers[@]}"; do
            [[ $(cat "/proc/$reader/stat") != *') D '* ]] || for i in 1 2; do
                [[ " $ended " == *" $i "* || $(readlink "/proc/$reader"/fd/*) != *"/proc/${NS_PID[p$i itself]}"$'\n'* ]] ||
                    { kill -KILL "${NS_PID[p$i itself]}" && ended+=" $i"; }
            done
        done
        sleep 0.01
    done
    ns_wait_for "$T/metrics" nagleshim # after a second for each
    other_user
    ns_wait_for "$T/metrics" 'library="no"} [1-9]'
}

# sparse FILE PART [BYTES]: makes a program of $T/ordinary whose notes, or whose table of symbols, fill a hole of a terabyte.
sparse() {
    "$python" - "$T/ordinary" "$@" <<'PYTHON'
import os, struct, sys
source, target, part, *most = sys.argv[1:]
data = bytearray(open(source, "rb").read())
assert data[4] == 2, "64-bit only"
size, huge = len(data), int(most[0]) if most else 1 << 40
table, step, count = (*struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)) if part == "notes" else (
    *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58))
for at in range(table, table + step * count, step):
    if part == "notes" and struct.unpack_from("<I", data, at)[0] == 4:
        struct.pack_into("<Q", data, at + 8, size)
        struct.pack_into("<Q", data, at + 32, huge)
    if part == "symbols" and struct.unpack_from("<I", data, at + 4)[0] == 11:
        struct.pack_into("<QQ", data, at + 24, size, huge)
with open(target, "wb") as file:
    file.write(data)
    file.truncate(size + huge)
os.chmod(target, 0o755)
PYTHON
}

@test "an ELF file with a terabyte of notes, or of symbols, is read in a moment" {
    local part
    for part in notes symbols; do
        sparse "$T/$part" "$part" || cannot_here "no such file can be made"
        within 5 "$NS" doctor "$T/$part"
        expect_status 0
    done
}

@test "a process with hundreds of libraries, all with a million symbols, is examined, and is not called stuck" {
    sparse "$T/library" symbols $((15 << 20)) || cannot_here "no such file can be made"
    gcc -w -x c -o "$T/libraries" - <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **words)
{
    syscall(SYS_socket, 2, 1, 0); /* not by libc */
    for (int i = 0, file; i < 400; i++) {
        file = open(words[count - 1], O_RDONLY);
        mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
        close(file);
    }
    puts("ready");
    fflush(stdout);
    return pause();
}
END
    ns_start libraries "$T/libraries" "$T/library"
    ns_wait_for "$T/libraries.out" ready
    run --separate-stderr "$NS" doctor --pid "${NS_PID[libraries]}"
    expect 1 stderr lacks stuck output has "reason: LD_PRELOAD was not set"
}

# The kernel maps new files below the libraries, and lists them first.
@test "the library is found in a process that has mapped thousands of other files" {
    gcc -w -x c -o "$T/database" - <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **words)
{
    int file = open(words[0], O_RDONLY);
    listen(socket(AF_INET, SOCK_STREAM, 0), 1);
    for (int i = 0; i < 9000; i++)
        mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    puts("ready");
    fflush(stdout);
    return pause();
}
END
    ns_start with env LD_PRELOAD="$LIBRARY" "$T/database"
    ns_start without "$T/database"
    ns_wait_for "$T/with.out" ready
    ns_wait_for "$T/without.out" ready
    run --separate-stderr "$NS" doctor --pid "${NS_PID[with]}"
    expect 0 output has "verdict: the library works in process"
    run --separate-stderr "$NS" doctor --json --pid "${NS_PID[without]}"
    [[ $(jq -r '.processes[0].library' <<<"$output") == 'no?' ]] || unexpected
    expect 1 output has 'or has too many files: the library was searched for by its name'
}

@test "root without CAP_SYS_PTRACE, as in a container, examines processes that have no more rights" {
    local other=(setpriv '--bounding-set=-sys_ptrace,-dac_read_search' --inh-caps=-all)
    [[ $EUID -eq 0 ]] || ns_skip 'needs root'
    ns_start sleeper "${other[@]}" sleep 100
    run --separate-stderr "${other[@]}" "$NS" doctor --pid "${NS_PID[sleeper]}"
    [[ $output$stderr != *denied* && $output == *'LD_PRELOAD was not set'* ]] || unexpected 'is denied'
}

# While a command examines one process after the other, a user may start processes with ever greater numbers.
@test "the list of all processes is complete before the first one is examined, so that it has an end" {
    ns_needs_strace
    local words
    for words in 'doctor --all' 'cure --all --dry-run' 'top --once --interval 0.5'; do
        # shellcheck disable=SC2086 # several words
        run timeout 20 strace -qq -y -e trace=open,openat,getdents64 -o "$T/calls" "$NS" $words
        awk '/^getdents64\([0-9]+<\/proc>/ { lists += reads = !/ = 0$/ }
            reads && /^open.*"\/proc\/[0-9]/ { print; exit 1 }
            END { if (!lists) print "no list" }' "$T/calls" >"$T/early" || true
        [[ ! -s $T/early ]] || wrong "'$words' examines a process before it has the list:" "$T/early"
    done
}

# Each child starts the next one while the command, which is slow here, reads the one before.
@test "a chain of children of --pid's process has an end for the command" {
    ns_needs_strace
    gcc -x c -o "$T/chain" - <<'END'
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static void wait_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}
int main(void)
{
    int first = getpid();
    signal(SIGCHLD, SIG_IGN);
    for (int n = 0;; n++) {
        if (n == 5)
            puts("ready"), fflush(stdout);
        if (fork() > 0) {
            wait_ms(getpid() == first ? 600000 : 20000);
            return 0;
        }
        wait_ms(60);
    }
}
END
    local words
    ns_start chain "$T/chain"
    ns_wait_for "$T/chain.out" ready
    for words in 'cure --dry-run' 'top --once --interval 0.5'; do
        # shellcheck disable=SC2086 # several words
        run --separate-stderr timeout 20 strace -qq -e trace=getdents64 -e inject=getdents64:delay_enter=20000 -o "$T/calls" "$NS" $words --pid "${NS_PID[chain]}"
        expect_status 0
    done
}

@test "a lease that a file's owner takes keeps no command waiting" {
    cp /bin/true "$T/leased"
    ns_start owner "$python" -c 'import fcntl, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open(sys.argv[1], "rb+")
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("ready", flush=True)
time.sleep(100)' "$T/leased"
    ns_wait_for "$T/owner.out" ready
    within 5 "$NS" doctor "$T/leased"
}
