#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Programs that use io_uring with liburing do not stall; without liburing they wait at most for a limited delayed ACK.
# The library intercepts liburing's functions and sees each request. If a program enters a ring by syscall(), the library
# sees only that it does. The peer is a program without the library that also writes in two pieces.

bats_require_minimum_version 1.5.0
load ../helpers/common
load ../helpers/matrix
load ../helpers/rounds

setup() {
    ns_setup
    "$PROBES/life_uring" || ns_skip 'io_uring is not permitted'
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

@test "a client that uses liburing, also mixed with libc's calls, stalls without the library, and not with it" {
    uring client flows 'libc ring ring' 2
    uring client flows 'ring ring ring' 2
    uring client flows 'libc libc ring' 2
    uring client flows 'ring libc libc' 2
}

@test "a server that uses liburing, also mixed with libc's calls, stalls without the library, and not with it" {
    uring server flows 'libc ring ring' 2
    uring server flows 'ring ring ring' 2
    uring server flows 'ring file file' 2
    uring server flows 'libc ring libc' 2
}

@test "a connection that liburing makes gets the rule for its address" {
    local policy='NAGLESHIM_POLICY={"version": 1, "rules": [{"match": {"remote": "127.0.0.%d", "role": "client"}}]}'
    # shellcheck disable=SC2059 # the format is the policy
    uring client flows 'ring ring ring' 2 "$(printf "$policy" 1)"
}

@test "a program that enters its ring by syscall() writes without stalls, and its reads wait for a limited delayed ACK" {
    export URING_ENTER=syscall
    uring client flows 'ring ring ring' 1
    uring client late 'ring ring ring' 2
    uring client late 'ring libc ring' 2
    uring server late 'ring ring ring' 2
}

@test "a plugin with liburing may be closed, and opened again at another address" {
    gcc -shared -fPIC -o "$T/plugin.so" -x c - -luring <<'END'
#include <liburing.h>
int one_request(void)
{
    struct io_uring ring;
    int result = io_uring_queue_init(8, &ring, 0);
    if (result < 0)
        return result;
    io_uring_prep_nop(io_uring_get_sqe(&ring));
    result = io_uring_submit_and_wait(&ring, 1);
    io_uring_queue_exit(&ring);
    return result;
}
END
    gcc -o "$T/host" -x c - -ldl <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
    void *before = NULL;
    for (int i = 1; i <= 2; i++) {
        void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
        int (*one_request)(void);
        if (!plugin)
            return 2;
        *(void **)&one_request = dlsym(plugin, "one_request");
        printf("%d %s ", one_request(), dlsym(plugin, "io_uring_submit") == before ? "again" : "new");
        fflush(stdout);
        before = dlsym(plugin, "io_uring_submit");
        dlclose(plugin);
        for (int pages = 1; pages < 100; pages++)
            mmap(NULL, pages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    return 0;
}
END
    [[ $("$T/host" "$T/plugin.so") == '1 new 1 new ' ]]
    [[ $(LD_PRELOAD=$LIBRARY "$T/host" "$T/plugin.so") == '1 new 1 new ' ]]
}
