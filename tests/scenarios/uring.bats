# SPDX-License-Identifier: MIT
# Promise: Programs that use io_uring write without stalls, and their reads by a ring wait at most for a limited delayed ACK.
# Parts: 2
# The library sees that liburing is loaded, or that a ring is made by syscall(), and no request. The peer is a program without
# the library that also writes in two pieces.

load ../helpers/common
load ../helpers/matrix
load ../helpers/rounds

setup() {
    ns_setup
    # io_uring_setup without arguments fails with EFAULT if it is permitted.
    python3 -c 'import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
raise SystemExit(libc.syscall(425, 1, None) == 0 or ctypes.get_errno() != errno.EFAULT)' ||
        ns_skip 'io_uring is not permitted'
}

# uring END VERDICT "CONNECT WRITE READ" PIECES: END uses a ring, and the other end writes in PIECES pieces.
uring() {
    local server=(server write read "$4") client=(write read "$4") server_program client_program how
    read -ra how <<<"$3"
    if [[ $1 == client ]]; then
        client_program=uring_rounds client=("${how[@]}" 2)
    else
        server_program=uring_rounds server=(server "${how[@]}" 2)
    fi
    shim_on none stalls
    shim_on "$1" "$2" "${@:5}"
}

# mixes END VERDICT "CONNECT WRITE READ"...
mixes() {
    local mix
    for mix in "${@:3}"; do
        uring "$1" "$2" "$mix" "$pieces"
    done
}

@test "a program that writes with liburing does not stall, also mixed with libc's calls" {
    local pieces=1
    mixes client flows 'libc ring ring' 'ring ring ring' 'libc libc ring' 'ring libc libc'
    mixes server flows 'libc ring ring' 'ring ring ring' 'ring file file' 'libc ring libc'
}

@test "if both ends write in two pieces, a program that reads with liburing waits for a limited delayed ACK, with libc's calls it does not" {
    local pieces=2
    mixes client late 'libc ring ring' 'ring ring ring' 'libc libc ring'
    mixes server late 'libc ring ring' 'ring file file'
    mixes client flows 'ring libc libc'
    mixes server flows 'libc ring libc'
}

@test "a program with liburing that uses its connection by libc's calls joins long bursts like any other" {
    ns_serve server "$EXAMPLES/tcp_nodelay_server" 0 0
    LD_PRELOAD="$LIBRARY liburing.so.2" NAGLESHIM_LOG=info run "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 4
    [[ $status -eq 0 && $output =~ 'bursts joined '([1-9]) ]]
}

@test "a program that enters its ring by syscall() writes without stalls, and its reads wait for a limited delayed ACK" {
    export URING_ENTER=syscall
    uring client flows 'ring ring ring' 1
    uring client late 'ring ring ring' 2
    uring client late 'ring libc ring' 2
    uring server late 'ring ring ring' 2
}

@test "liburing is noticed however it is loaded, and two plugins with a liburing of their own keep it" {
    local how
    # A socket of such a process has TCP_NODELAY from socket() on, as the kernel tells.
    cat >"$T/host.c" <<'END'
#include "raw.h"
#include <netinet/tcp.h>
int main(int argc, char **argv)
{
    int nodelay = -1, fd;
    socklen_t len = sizeof nodelay;
    for (int i = 1; i < argc; i++)
        if (dlopen(argv[i], RTLD_NOW) == NULL)
            return fprintf(stderr, "%s\n", dlerror()), 1;
    fd = socket(AF_INET, SOCK_STREAM, 0);
    raw(SYS_getsockopt, fd, IPPROTO_TCP, TCP_NODELAY, (long)&nodelay, (long)&len, 0);
    int (*asks)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "io_uring_submit_and_wait_min_timeout");
    printf("%d %d\n", nodelay, asks != NULL);
    return 0;
}
END
    gcc -w -D_GNU_SOURCE -Itests/probes -o "$T/host" "$T/host.c" -ldl
    gcc -w -D_GNU_SOURCE -Itests/probes -o "$T/linked" "$T/host.c" -ldl -Wl,--no-as-needed -luring
    echo 'int nothing;' | gcc -shared -fPIC -o "$T/plugin.so" -x c - -Wl,--no-as-needed -luring
    echo 'int nothing;' | gcc -shared -fPIC -o "$T/other.so" -x c -
    [[ $("$T/linked") == "0 "* && $(LD_PRELOAD=$LIBRARY "$T/host" "$T/other.so") == '0 0' ]]
    for how in "$T/linked" "$T/host liburing.so.2" "$T/host $T/plugin.so"; do
        # shellcheck disable=SC2086 # a program and its arguments
        run env LD_PRELOAD="$LIBRARY" $how
        [[ $output == '1 '* ]] || wrong "$how: $output"
    done
}
