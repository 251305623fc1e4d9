# SPDX-License-Identifier: MIT
# Promise: Calls reach a library that is preloaded after nagleshim, whatever the format of its symbol table.

load ../helpers/common

setup() {
    ns_setup
    cat >"$T/behind.c" <<'END'
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
static ssize_t say(const char *text, int fd, const void *data, size_t size)
{
    syscall(SYS_write, 2, text, 7);
    return syscall(SYS_write, fd, data, size);
}
ssize_t newest(int fd, const void *data, size_t size) { return say("behind\n", fd, data, size); }
ssize_t oldest(int fd, const void *data, size_t size) { return say("oldest\n", fd, data, size); }
#ifdef INDIRECT
static ssize_t (*choose(void))(int, const void *, size_t) { return newest; }
ssize_t write(int fd, const void *data, size_t size) __attribute__((ifunc("choose")));
#elif defined VERSIONS
__asm__(".symver oldest, write@OLD");
__asm__(".symver newest, write@@NEW");
#else
ssize_t write(int fd, const void *data, size_t size) { return newest(fd, data, size); }
#endif
END
    cat >"$T/writes.c" <<'END'
#include <unistd.h>
int main(void) { return write(1, "text\n", 5) != 5; }
END
    gcc -o "$T/writes" "$T/writes.c"
}

# behind FLAG...: with a library that was built with these flags and is preloaded after nagleshim, the program prints "behind".
behind() {
    gcc -shared -fPIC -o "$T/behind.so" "$T/behind.c" "$@"
    run --separate-stderr env LD_PRELOAD="$LIBRARY" "$T/writes"
    [[ $status -eq 0 && $output == text && -z $stderr ]]
    run --separate-stderr env LD_PRELOAD="$LIBRARY $T/behind.so" NAGLESHIM_LOG=debug "$T/writes"
    [[ $status -eq 0 && $output == text && $stderr == *nagleshim* && $stderr == *behind* && $stderr != *oldest* ]] ||
        wrong "$output"$'\n'"$stderr"
}

@test "a library preloaded after nagleshim is called, with a GNU hash table" {
    behind -Wl,--hash-style=gnu
}

@test "a library preloaded after nagleshim is called, with a System V hash table" {
    behind -Wl,--hash-style=sysv
}

@test "a library preloaded after nagleshim is called, with a function that it selects at start-up (IFUNC)" {
    behind -DINDIRECT
}

@test "if a function has several versions, the library calls the one that programs link with" {
    printf 'OLD { local: newest; oldest; };\nNEW { } OLD;\n' >"$T/map"
    behind -DVERSIONS -Wl,--version-script="$T/map" -Wl,--hash-style=gnu
    behind -DVERSIONS -Wl,--version-script="$T/map" -Wl,--hash-style=sysv
}

@test "programs linked with an older glibc get libc's older function, if it means something else" {
    [[ $(uname -m) == x86_64 ]] || skip "other machines have other versions"
    cat >"$T/versions.c" <<'END'
#define EACH(_) _(posix_spawn, 2.2.5, 2.15) _(posix_spawnp, 2.2.5, 2.15) _(quick_exit, 2.10, 2.24) \
    _(pthread_cond_wait, 2.2.5, 2.3.2) _(pthread_cond_timedwait, 2.2.5, 2.3.2)
#define NAME(name, old, now) \
    extern char old_##name[], now_##name[], name[]; \
    __asm__(".symver old_" #name ", " #name "@GLIBC_" #old "\n.symver now_" #name ", " #name "@GLIBC_" #now);
EACH(NAME)
#ifdef WITHOUT_VERSION
#define ROW(name, old, now) name,
void *without[] = {EACH(ROW)};
#else
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
static int shims(void *address)
{
    Dl_info info;
    return dladdr(address, &info) && strstr(info.dli_fname, "nagleshim") != NULL;
}
extern void *without[];
int main(void)
{
    int i = 0;
#define ROW(name, old, now) printf("%d%d%d ", shims(old_##name), shims(now_##name), shims(without[i++]));
    EACH(ROW)
    return 0;
}
#endif
END
    gcc -w -shared -fPIC -nostdlib -DWITHOUT_VERSION -o "$T/without.so" "$T/versions.c"
    gcc -w -fPIC -D_GNU_SOURCE -o "$T/versions" "$T/versions.c" "$T/without.so" -Wl,-rpath,"$T"
    [[ $("$T/versions") == '000 000 000 000 000 ' ]]
    [[ $(LD_PRELOAD=$LIBRARY "$T/versions") == '011 011 011 011 011 ' ]]
}

@test "a program that loads the library itself can still write" {
    cat >"$T/opens.c" <<'END'
#include "system.h"
int main(int argc, char **argv)
{
    void *shim = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    ssize_t (*put)(int, const void *, size_t) = shim ? dlsym(shim, "write") : NULL;
    return put == NULL || put(1, "text\n", 5) != 5;
}
END
    gcc -D_GNU_SOURCE -Itests/probes -o "$T/opens" "$T/opens.c" -ldl
    run "$T/opens" "$LIBRARY"
    [[ $status -eq 0 && $output == text ]]
}

@test "a library preloaded before nagleshim, whose calls on options are made by number, passes on the program's own options" {
    cat >"$T/front.c" <<'END'
#define _GNU_SOURCE
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
int getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
    return syscall(SYS_getsockopt, fd, level, option, value, len);
}
int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    return syscall(SYS_setsockopt, fd, level, option, value, len);
}
END
    gcc -shared -fPIC -o "$T/front.so" "$T/front.c"
    cat >"$T/options.py" <<'END'
import socket
NODELAY = socket.IPPROTO_TCP, socket.TCP_NODELAY
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
seen = []
for mine in 0, 1, 0:
    if seen:
        client.setsockopt(*NODELAY, mine)
    client.send(b"x")
    client.send(b"x")
    seen.append(client.getsockopt(*NODELAY))
print(seen)
END
    [[ $(NAGLESHIM_POLICY='{"version": 1, "rules": [{"send": "nodelay"}]}' LD_PRELOAD="$T/front.so $LIBRARY" \
        python3 "$T/options.py") == '[0, 1, 0]' ]]
}

@test "if the library is opened after libc and closed again, the program goes on, and so does its thread that has used it" {
    python3 - "$LIBRARY" <<'EOF'
import _ctypes, ctypes, socket, sys, threading
shim = ctypes.CDLL(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
def writes_and_closes():
    assert shim.write(client.fileno(), b"x", 1) == 1
    _ctypes.dlclose(shim._handle)
thread = threading.Thread(target=writes_and_closes)
thread.start()
thread.join()
EOF
}
