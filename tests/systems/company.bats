# SPDX-License-Identifier: MIT
# Promise: With other preloaded libraries, in sandboxes and in unusual programs the library works, or it disables itself.
# Each test shows first that the client of Red Hat's example stalls in the same situation without the library.

load ../helpers/common

setup() {
    ns_setup
    CLIENT=("$EXAMPLES/tcp_nodelay_client")
    CLIENT_LOG=$T/client.log
}

teardown() {
    ns_teardown
    [[ ! -e $T/on-machine ]] || rm -f "$(<"$T/on-machine")"
}

cork='{"version": 1, "rules": [{"send": "auto-cork"}]}'

# Sets object to the file that the dynamic loader finds by this name.
object_named() {
    object=$(ldconfig -p | awk -v name="$1" '$1 == name { print $NF; exit }')
    [[ -n $object ]] || object=$(find /usr/lib -name "$1" -print -quit) || true
    [[ -n $object ]] || ns_skip "$1 is not installed"
}

# packets ROUNDS WARMUP [VARIABLE=VALUE]...: the client, with these in its environment.
packets() {
    local rounds=$1 warmup=$2
    shift 2
    rm -f "$CLIENT_LOG"
    ns_serve server "$EXAMPLES/tcp_nodelay_server" 0 0
    timeout -s KILL 30 "${timed[@]}" env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/client.log" "$@" "${CLIENT[@]}" \
        --stats --warmup "$warmup" 127.0.0.1 "$port" "$rounds" >"$T/client.out" 2>"$T/client.err" 3>&- ||
        wrong "the client failed with $?: $*" "$T/client.err" || return
    ns_join server
    stalls=$(field stalls "$T/client.out")
}

# stalls [VARIABLE=VALUE]...: most packets stall, and the library was not loaded.
stalls() {
    local stalls
    packets 20 4 "$@"
    [[ $stalls -ge 12 && ! -e $CLIENT_LOG ]] || wrong "$stalls of 20 packets stalled: $*" "$CLIENT_LOG"
}

# flows_once [VARIABLE=VALUE]...: no packet stalls, because the library treated the socket.
flows_once() {
    local stalls median delayed before segments
    before=$(ns_delayed_acks)
    packets 100 10 "$@"
    delayed=$(($(ns_delayed_acks) - before))
    grep -qE '\bsockets [1-9]' "$CLIENT_LOG" ||
        wrong "the library did not treat the client's socket: $*" "$CLIENT_LOG" "$T/client.err" || return
    median=$(field median_us "$T/client.out")
    [[ $stalls -eq 0 ]] && holds "$median < 5000" || not_as_expected flows 100 || return
    # What has been held for long leaves at once.
    segments=$(field segments_per_round "$T/client.out")
    [[ "$*" != *"POLICY=$cork"* ]] || holds "$segments < 1.1" || is_late "4" "$segments segments for each packet"
}

flows() {
    in_time flows_once "$@"
}

# flows_both [VARIABLE=VALUE]...: the same, and under auto-cork with one segment for each packet.
flows_both() {
    flows "$@"
    flows "$@" NAGLESHIM_POLICY="$cork"
}

@test "it works with LD_BIND_NOW=1, if listed twice, and as two copies" {
    stalls LD_BIND_NOW=1
    flows_both LD_BIND_NOW=1 LD_PRELOAD="$LIBRARY"
    flows_both LD_PRELOAD="$LIBRARY $LIBRARY"
    ln -s "$LIBRARY" "$T/link.so"
    flows_both LD_PRELOAD="$LIBRARY $T/link.so"
    [[ $(wc -l <"$CLIENT_LOG") -eq 1 ]]
    cp "$LIBRARY" "$T/copy.so"
    flows_both LD_PRELOAD="$LIBRARY $T/copy.so"
    # Each copy writes its line.
    [[ $(wc -l <"$CLIENT_LOG") -eq 2 ]]
}

@test "it works before and after jemalloc" {
    local object
    object_named libjemalloc.so.2
    stalls LD_PRELOAD="$object"
    flows_both LD_PRELOAD="$object $LIBRARY"
    flows_both LD_PRELOAD="$LIBRARY $object"
}

@test "it works after libasan in a program that is built with it" {
    gcc -O1 -fsanitize=address,undefined -o "$T/client" examples/tcp_nodelay_client.c -lrt || ns_skip "no libasan"
    CLIENT=("$T/client")
    local asan
    asan=$(gcc -print-file-name=libasan.so)
    # libasan reports an error on stderr, and the program fails.
    export ASAN_OPTIONS=detect_leaks=0 # the client's own
    stalls LD_PRELOAD="$asan"
    flows_both LD_PRELOAD="$asan $LIBRARY"
    [[ ! -s $T/client.err ]]
    # If libasan is linked statically, nothing is preloaded before the library.
    gcc -O1 -fsanitize=address -static-libasan -o "$T/client" examples/tcp_nodelay_client.c -lrt
    flows_both LD_PRELOAD="$LIBRARY"
    [[ ! -s $T/client.err ]]
}

@test "it works if preloaded before socket_wrapper; after it, or with its sockets, nothing breaks" {
    local object order stalls
    object_named libsocket_wrapper.so
    stalls LD_PRELOAD="$object"
    flows_both LD_PRELOAD="$LIBRARY $object"
    # socket_wrapper calls libc directly.
    packets 20 4 LD_PRELOAD="$object $LIBRARY" NAGLESHIM_LOG=debug
    [[ $stalls -ge 12 ]]
    grep -q ': no TCP socket$' "$CLIENT_LOG"
    # Now TCP sockets are really UNIX sockets, and the address is socket_wrapper's name for this machine. The programs
    # check every byte.
    mkdir "$T/wrapped"
    export SOCKET_WRAPPER_DIR=$T/wrapped SOCKET_WRAPPER_DEFAULT_IFACE=1 NAGLESHIM_LOG=debug
    for order in "$object" "$object $LIBRARY" "$LIBRARY $object"; do
        for policy in '{"version": 1, "rules": [{}]}' "$cork"; do
            rm -f "$T/log"
            ns_start server env LD_PRELOAD="$order" NAGLESHIM_POLICY="$policy" \
                "$EXAMPLES/queue_server" --connections 1 7000
            ns_wait_for "$T/server.out" '^listening'
            LD_PRELOAD=$order NAGLESHIM_POLICY=$policy NAGLESHIM_LOG_FILE=$T/log timeout 20 \
                "$EXAMPLES/queue_put" fd00::5357:5f01 7000 50 >"$T/put.out"
            ns_join server
            [[ $(field rounds "$T/put.out") -eq 50 ]]
            [[ $order == "$object" || -s $T/log ]]
        done
    done
}

@test "it does not call a preloaded library's getpeername and getsockname, nor by its syscall, as tsocks's read and torsocks's crash" {
    gcc -shared -fPIC -D_GNU_SOURCE -o "$T/proxy.so" -x c - <<'END'
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
long syscall(long number, ...)
{
    if (number == SYS_getpeername || number == SYS_getsockname)
        abort();
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
int getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
    char byte;
    return (int)recv(fd, &byte, 1, 0);
}
int getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    return getpeername(fd, address, length);
}
END
    local order
    stalls LD_PRELOAD="$T/proxy.so"
    # With the second policy the library also asks for the local address.
    for order in "$T/proxy.so $LIBRARY" "$LIBRARY $T/proxy.so"; do
        flows LD_PRELOAD="$order"
        flows LD_PRELOAD="$order" NAGLESHIM_POLICY='{"version": 1, "rules": [{"match": {"local": "10.0.0.0/8"}}, {}]}'
    done
}

@test "it works with libfaketime, before and after it" {
    local object when
    object_named libfaketime.so.1
    stalls LD_PRELOAD="$object" FAKETIME=-1d
    for when in -1d +1d; do
        flows_both LD_PRELOAD="$object $LIBRARY" FAKETIME="$when"
        flows_both LD_PRELOAD="$LIBRARY $object" FAKETIME="$when"
    done
}

@test "a program without libc runs, static or dynamic" {
    cat >"$T/bare.c" <<'END'
#include "life.h"
void begin(void);
void begin(void)
{
    static char text[4096];
    long fd = RAW(openat, AT_FDCWD, "/proc/self/maps", O_RDONLY, 0), size;
    while ((size = RAW(read, fd, text, sizeof text, 0)) > 0)
        RAW(write, 1, text, size, 0);
    RAW(exit_group, 7, 0, 0, 0);
}
END
    local interpreter build=(gcc -O1 -w -D_GNU_SOURCE -I tests/probes -nostdlib -fno-stack-protector
        "-Wl,--entry=begin" -ffunction-sections "-Wl,--gc-sections")
    "${build[@]}" -static -o "$T/static" "$T/bare.c"
    interpreter=$(readelf -lW "$EXAMPLES/queue_put" | sed -nE 's/.*interpreter: (.*)\]/\1/p')
    "${build[@]}" -fPIE -pie "-Wl,--dynamic-linker=$interpreter" -o "$T/dynamic" "$T/bare.c"
    [[ $(readelf -dW "$T/dynamic") != *NEEDED* ]]
    run env LD_PRELOAD="$LIBRARY" "$T/static"
    [[ $status -eq 7 && $output == */static* && $output != *libnagleshim* ]]
    run env LD_PRELOAD="$LIBRARY" "$T/dynamic"
    [[ $status -eq 7 && $output == */dynamic* && $output == *libnagleshim* ]]
}

@test "a set-group-ID program is left alone even if the loader trusts the library" {
    # ld.so preloads libraries from its own directories if the name has no slash and the file is set-user-ID.
    local mounts trusted name program
    trusted=$(gcc -print-file-name=libc.so.6)
    trusted=${trusted%/*}
    cp "$EXAMPLES/tcp_nodelay_server" "$T/plain"
    cp "$T/plain" "$T/secure"
    chgrp 65534 "$T/secure" 2>/dev/null || ns_skip "no second group"
    chmod g+s "$T/secure"
    [[ ,$(findmnt -no OPTIONS -T "$T"), != *,nosuid,* ]] || ns_skip "the file system has no set-group-ID"
    install -m 4755 "$LIBRARY" "$T/trusted.so"
    ns_mount_namespace
    # Mounted over a library that nothing here needs, or copied to that directory.
    name=libanl.so.1
    if [[ ${#mounts[@]} -eq 0 ]]; then
        name=nagleshim-trusted.so # not lib: ldconfig would make a link to it
        echo "$trusted/$name" >"$T/on-machine"
        install -m 4755 "$LIBRARY" "$trusted/$name"
    fi
    for program in secure plain; do
        ns_start server "${mounts[@]}" sh -c '[ -z "$5" ] || mount --bind "$1" "$2" || exit 1
            export LD_PRELOAD="$3" && exec "$4" 0 0' \
            sh "$T/trusted.so" "$trusted/$name" "$name" "$T/$program" "${mounts[*]}"
        ns_port server
        grep -q "$name" "/proc/${NS_PID[server]}/maps"
        timeout 30 "$EXAMPLES/tcp_nodelay_client" --stats --warmup 4 127.0.0.1 "$port" 20 >"$T/$program.out"
        ns_join server
    done
    cat "$T/secure.out" "$T/plain.out"
    [[ $(field stalls "$T/secure.out") -ge 12 && $(field stalls "$T/plain.out") -le 1 ]]
}

# A directory with the client, the library and what both need, and nothing else: no /proc, no /etc.
make_root() {
    mkdir -p "$1$T"
    cp --parents -t "$1" "$EXAMPLES/tcp_nodelay_client" "$LIBRARY"
    add_libraries "$1" "$EXAMPLES/tcp_nodelay_client" "$LIBRARY"
}

@test "in a chroot without /proc and without policy files the built-in policy works" {
    [[ $EUID -eq 0 ]] || ns_skip "only root may chroot"
    make_root "$T/root"
    CLIENT=(chroot "$T/root" "${CLIENT[@]}")
    CLIENT_LOG=$T/root$T/client.log
    stalls
    flows LD_PRELOAD="$LIBRARY"
    [[ ! -s $T/client.err ]]
}

# crowded LIMIT NUMBER COMMAND...: sets the array "command" to run with all descriptors below NUMBER open, and with this
# limit of descriptors, or the highest possible.
crowded() {
    ns_python
    command=("$python" -c 'import fcntl, os, resource, sys
most, number = int(sys.argv[1]), int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
for limit in (most, 1 << 20, hard):
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        break
    except (OSError, ValueError):
        pass
null = os.open("/dev/null", os.O_RDONLY)
os.set_inheritable(null, True)
while fcntl.fcntl(null, fcntl.F_DUPFD, 0) < number - 1:
    pass
os.execv(sys.argv[3], sys.argv[3:])' "$@")
}

@test "it works with the highest descriptor limit and a high descriptor" {
    local command
    # The limit of some containers, if this user may set it.
    crowded 1000000000 3000 "${CLIENT[@]}"
    CLIENT=("${command[@]}")
    stalls
    flows_both LD_PRELOAD="$LIBRARY"
}

@test "closed descriptors 0 to 2 stay free for the program, and the stall is cured" {
    local policy
    ns_python
    cat >"$T/closed.py" <<'END'
import os, socket, sys, time
assert [*map(os.memfd_create, "abc")] == [0, 1, 2]  # nobody has them
os.closerange(0, 3)
near = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
stalls = 0
for _ in range(20):
    begin = time.monotonic()
    for _ in range(3):
        near.send(b"0123456789")
    assert len(near.recv(30, socket.MSG_WAITALL)) == 30
    stalls += time.monotonic() - begin > 0.02
results = os.memfd_create("free"), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
assert (near.fileno(), *results) == (0, 1, 2)
os.write(2, b"stalls %d\n" % stalls)
END
    for policy in '' '{"version": 1, "rules": [{}]}' "$cork"; do
        rm -f "$T/closed" "$T/log"
        ns_serve server "$python" tests/probes/turns.py server 0 20 1 : r30 w30
        if [[ -n $policy ]]; then
            echo "$policy" >"$T/policy.json"
            export LD_PRELOAD=$LIBRARY NAGLESHIM_POLICY=$T/policy.json NAGLESHIM_LOG=debug \
                NAGLESHIM_LOG_FILE=$T/log
        fi
        # timeout would open them.
        "$python" "$T/closed.py" "$port" "$T/closed" <&- >&- 2>&- 3>&-
        unset LD_PRELOAD
        ns_join server
        cat "$T/closed"
        if [[ -z $policy ]]; then
            [[ $(field stalls "$T/closed") -ge 8 && ! -e $T/log ]]
        else
            [[ $(field stalls "$T/closed") -le 2 ]]
            grep -qE 'sockets [1-9]' "$T/log"
        fi
    done
}

@test "a program whose seccomp filter allows only read and write does not stall before it installs the filter, and is not killed" {
    local how policy took without
    # takes [PRELOAD POLICY]: how long the bursts take, in us.
    takes() {
        local begin=${EPOCHREALTIME/./}
        LD_PRELOAD=${1-} NAGLESHIM_POLICY=${2-} "$PROBES/report" joins talks talks talks
        took=$((${EPOCHREALTIME/./} - begin))
    }
    takes
    without=$took
    [[ $without -ge 400000 ]]
    for policy in '{"version": 1, "rules": [{}]}' "$cork"; do
        takes "$LIBRARY" "$policy"
        [[ $took -lt $((without / 2)) ]]
        for how in filter-reads filter-reads-by-number; do
            LD_PRELOAD=$LIBRARY NAGLESHIM_POLICY=$policy "$PROBES/report" joins talks "$how" talks _exit
        done
    done
    MISTAKE=option LD_PRELOAD=$PROBES/mistakes.so run ! "$PROBES/report" joins talks filter-reads talks _exit
}

# start_sshd PRELOAD POLICY: on a port that was free a moment ago, because sshd cannot choose one.
start_sshd() {
    port=$(free_port)
    printf '%s\n' "Port $port" 'ListenAddress 127.0.0.1' "HostKey $T/host_key" \
        "AuthorizedKeysFile $T/key.pub" 'StrictModes no' 'UsePAM no' 'PermitRootLogin yes' \
        'PidFile none' >"$T/sshd_config"
    rm -f "$T/sshd.err"
    # sshd needs /run/sshd, which is a temporary file system here if there is a mount namespace.
    ns_start sshd "${mounts[@]}" sh -c '[ -z "$1" ] || mount -t tmpfs none /run || exit 1
        mkdir -p -m 755 /run/sshd && shift && exec "$@"' sh "${mounts[*]}" env LD_PRELOAD="$1" \
        NAGLESHIM_POLICY="$2" NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/sshd.log" \
        "$(PATH=$PATH:/usr/sbin type -P sshd)" -D -e -f "$T/sshd_config"
    ns_wait_for "$T/sshd.err" 'Server listening on 127.0.0.1'
}

# login [PRELOAD]: prints the output of a command on the server.
login() {
    LD_PRELOAD=${1-} timeout 30 ssh -F none -i "$T/key" -p "$port" -o BatchMode=yes -o IdentitiesOnly=yes \
        -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
        root@127.0.0.1 'echo here; head -c 100000 /dev/zero | cksum' 2>"$T/ssh.err" </dev/null 3>&-
}

@test "logins to OpenSSH's server, whose filter kills on setsockopt, work" {
    local mounts expected policy
    [[ $EUID -eq 0 ]] || ns_skip "only root may serve logins"
    PATH=$PATH:/usr/sbin type -P sshd >/dev/null || ns_skip "sshd is not installed"
    ns_mount_namespace
    ssh-keygen -q -t ed25519 -N '' -f "$T/host_key"
    ssh-keygen -q -t ed25519 -N '' -f "$T/key"
    expected=here$'\n'$(head -c 100000 /dev/zero | cksum)
    # On i386 libc makes it with socketcall, which fails there instead.
    if [[ $(uname -m) != i?86 ]]; then
        MISTAKE=option start_sshd "$PROBES/mistakes.so" ''
        run ! login
        ns_stop sshd
    fi
    for policy in '{"version": 1, "rules": [{}]}' "$cork"; do
        rm -f "$T/sshd.log"
        start_sshd "$LIBRARY" "$policy"
        mapped sshd
        NAGLESHIM_POLICY=$policy run login "$LIBRARY"
        [[ $status -eq 0 && $output == "$expected" ]] || wrong "$output" "$T/sshd.err" "$T/ssh.err"
        ns_stop sshd
        grep -qE 'sockets [1-9]' "$T/sshd.log"
    done
}

@test "a program's own functions called access, open, readlink, getenv or clock_gettime are not called" {
    local name policy
    cat >"$T/owner.c" <<'END'
#include "loopback.h"
#define NAMED_(name) static int calls; long own_##name(long *object) __asm__(#name); long own_##name(long *object) { calls++; return *object; }
#define NAMED(name) NAMED_(name)
NAMED(NAME)
int main(void)
{
    struct sockaddr_in address;
    loopback_listener(&address);
    int fd = loopback_connect(&address);
    if (send(fd, "head", 4, 0) != 4 || send(fd, "body", 4, 0) != 4)
        return 1;
    printf("called %d times\n", calls);
    return 0;
}
END
    echo '{"version": 1, "rules": [{"send": "auto-cork"}]}' >"$T/owner.json"
    for name in access open readlink getenv clock_gettime; do
        gcc -w -fno-builtin -Itests/probes -DNAME="$name" -o "$T/owner" "$T/owner.c"
        nm -D "$T/owner" | grep -q " T $name\$" # the linker exports it, because libc has the name, too
        for policy in NAGLESHIM_POLICY= NAGLESHIM_POLICY="$T/owner.json" NAGLESHIM_POLICY_DIR="$T"; do
            echo "$name $policy"
            [[ $(env "$policy" "$T/owner") == 'called 0 times' ]]
            [[ $(env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/log" "$policy" LD_PRELOAD="$LIBRARY" "$T/owner") == 'called 0 times' ]]
            grep -q 'sockets [1-9]' "$T/log"
            rm "$T/log"
        done
    done
}
