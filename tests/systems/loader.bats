#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Plugins opened with RTLD_DEEPBIND are cured where a policy asks for it, and opened as ever where not.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and exports for itself
# Programs that open plugins with RTLD_DEEPBIND, as PHP opens its extensions: the plugin finds libc's functions before
# the shim's. "rtld_deepbind": "ignore" leaves the flag out, and everything else of dlopen is as it was: the rest of
# the mode, and where the loader looks, which depends on who calls it.

bats_require_minimum_version 1.5.0
load ../helpers/common

IGNORE='{"version": 1, "rtld_deepbind": "ignore", "rules": [{}]}'

setup() {
    ns_setup
    mkdir "$T/plugins"
    cat >"$T/plugin.c" <<'END'
#include "raw.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
int has_nodelay_after_two_writes(int fd)
{
    int value = -1;
    socklen_t len = sizeof value;
    if (write(fd, "head", 4) != 4 || write(fd, "body", 4) != 4)
        return -1;
    raw(SYS_getsockopt, fd, IPPROTO_TCP, TCP_NODELAY, (long)&value, (long)&len, 0);
    return value;
}
int shared_by_plugins = 7;
END
    gcc -shared -fPIC -D_GNU_SOURCE -I"$BATS_TEST_DIRNAME/../probes" -o "$T/plugins/plugin.so" "$T/plugin.c"
    # Needs a symbol of the first one, which only RTLD_GLOBAL gives it.
    echo 'extern int shared_by_plugins; int other(void) { return shared_by_plugins; }' |
        gcc -shared -fPIC -o "$T/plugins/other.so" -x c -
    cat >"$T/host.c" <<'END'
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
int main(int argc, char **argv)
{
    int mode = RTLD_LAZY, listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    for (int i = 1; i < argc; i++)
        mode |= !strcmp(argv[i], "deep") ? RTLD_DEEPBIND : !strcmp(argv[i], "global") ? RTLD_GLOBAL : 0;
    /* By its name alone: DT_RUNPATH of this program says where it is. */
    void *plugin = dlopen("plugin.so", mode);
    if (!plugin || listen(listener, 1) || getsockname(listener, (struct sockaddr *)&address, &len) ||
        connect(fd, (struct sockaddr *)&address, len))
        return fprintf(stderr, "%s\n", plugin ? "no connection" : dlerror()), 1;
    int (*asks)(int);
    *(void **)&asks = dlsym(plugin, "has_nodelay_after_two_writes");
    printf("nodelay %d ", asks(fd));
    void *other = dlopen("other.so", RTLD_NOW);
    printf("global %d ", other != NULL);
    printf("loaded %d\n", dlopen("plugin.so", RTLD_LAZY | RTLD_NOLOAD) == plugin &&
                              dlopen("absent.so", RTLD_LAZY | RTLD_NOLOAD) == NULL);
    return 0;
}
END
    gcc -o "$T/host" "$T/host.c" -ldl -Wl,--enable-new-dtags -Wl,-rpath,"$T/plugins"
}

# hosts EXPECTED [ARGUMENT]...: what the program says, with the policy in NAGLESHIM_POLICY.
hosts() {
    local expected=$1
    shift
    run env LD_PRELOAD="$LIBRARY" "$T/host" "$@"
    [[ $output == "$expected" ]] || {
        echo "expected: $expected"
        echo "$output"
        return 1
    }
}

# The modes with which libc's dlopen was called, as a library between it and the shim has seen them.
modes() {
    cat >"$T/sees.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
void *dlopen(const char *name, int mode)
{
    void *(*next)(const char *, int);
    *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
    fprintf(stderr, "%s %#x\n", name ? name : "NULL", mode);
    return next(name, mode);
}
END
    gcc -shared -fPIC -D_GNU_SOURCE -o "$T/sees.so" "$T/sees.c" -ldl
    LD_LIBRARY_PATH=$T/plugins LD_PRELOAD="$LIBRARY $T/sees.so" "$T/host" "$@" 2>&1 >/dev/null | grep -E '^(plugin|other).so'
}

@test "without the library a plugin opened with RTLD_DEEPBIND stalls like any program" {
    run "$T/host" deep
    [[ $output == 'nodelay 0 global 0 loaded 1' ]]
    run "$T/host" global
    [[ $output == 'nodelay 0 global 1 loaded 1' ]]
}

@test "without rtld_deepbind the library does not see such a plugin, and sees any other" {
    hosts 'nodelay 0 global 0 loaded 1' deep
    hosts 'nodelay 1 global 0 loaded 1'
    hosts 'nodelay 1 global 1 loaded 1' global
    [[ $(modes deep global) == $'plugin.so 0x109\nother.so 0x2\nplugin.so 0x5' ]]
    [[ $(modes) == $'plugin.so 0x1\nother.so 0x2\nplugin.so 0x5' ]]
}

@test "with \"rtld_deepbind\": \"ignore\" the library sees such a plugin, and other dlopen flags still work" {
    export NAGLESHIM_POLICY=$IGNORE
    hosts 'nodelay 1 global 0 loaded 1' deep
    hosts 'nodelay 1 global 1 loaded 1' deep global
    [[ $(modes deep global) == $'plugin.so 0x101\nother.so 0x2\nplugin.so 0x5' ]]
    NAGLESHIM_POLICY=${IGNORE/ignore/pass} hosts 'nodelay 0 global 0 loaded 1' deep
}

@test "a plugin of a program without a rule is opened as the program asked" {
    export NAGLESHIM_POLICY='{"version": 1, "rtld_deepbind": "ignore", "rules": [{"match": {"process": "other"}}]}'
    hosts 'nodelay 0 global 0 loaded 1' deep
    [[ $(modes deep) == $'plugin.so 0x9\nother.so 0x2\nplugin.so 0x5' ]]
    NAGLESHIM_OFF=1 hosts 'nodelay 0 global 0 loaded 1' deep
}
