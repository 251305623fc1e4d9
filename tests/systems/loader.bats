# SPDX-License-Identifier: MIT
# Promise: Libraries opened with RTLD_DEEPBIND, such as PHP's extensions, are cured like the rest of the program; no other memory changes.
# A library that is opened with RTLD_DEEPBIND finds libc's functions before nagleshim's, so its calls are redirected.
# Everything else, such as the mode of dlopen and the loader's search path, must be as without nagleshim.

load ../helpers/common

setup() {
    ns_setup
    mkdir "$T/plugins"
    cat >"$T/plugin.c" <<'END'
#include "raw.h"
#include <netinet/tcp.h>
int has_nodelay_after_two_writes(int fd)
{
    int value = -1;
    socklen_t len = sizeof value;
    if (WRITE(fd, "head", 4) != 4 || WRITE(fd, "body", 4) != 4)
        return -1;
    /* The library answers what the program has set. */
    raw(SYS_getsockopt, fd, IPPROTO_TCP, TCP_NODELAY, (long)&value, (long)&len, 0);
    return value;
}
int shared_by_plugins = 7;
END
    # Another definition of write, which sends nothing.
    echo 'long write(int fd, const void *data, unsigned long size) { return (long)size; }' >"$T/own.c"
    gcc -shared -fPIC -o "$T/plugins/own.so" "$T/own.c"
    plugin
    # This plugin needs a symbol of the first one, which it finds only with RTLD_GLOBAL.
    echo 'extern int shared_by_plugins; int other(void) { return shared_by_plugins; }' |
        gcc -shared -fPIC -o "$T/plugins/other.so" -x c -
    cat >"$T/host.c" <<'END'
#include "loopback.h"
int main(int argc, char **argv)
{
    int mode = RTLD_LAZY;
    struct sockaddr_in address;
    for (int i = 1; i < argc; i++)
        mode |= !strcmp(argv[i], "deep") ? RTLD_DEEPBIND : !strcmp(argv[i], "global") ? RTLD_GLOBAL : 0;
    /* The loader finds the plugin by DT_RUNPATH of this program. */
    void *plugin = dlopen("plugin.so", mode);
    if (!plugin)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    loopback_listener(&address);
    int (*asks)(int);
    *(void **)&asks = dlsym(plugin, "has_nodelay_after_two_writes");
    printf("nodelay %d ", asks(loopback_connect(&address)));
    void *other = dlopen("other.so", RTLD_NOW);
    printf("global %d ", other != NULL);
    printf("loaded %d\n", dlopen("plugin.so", RTLD_LAZY | RTLD_NOLOAD) == plugin &&
                              dlopen("absent.so", RTLD_LAZY | RTLD_NOLOAD) == NULL);
    char line[512];
    for (FILE *maps = fopen("/proc/self/maps", "r"); maps && fgets(line, sizeof line, maps);)
        if (argc > 1 && !strcmp(argv[argc - 1], "maps") && strstr(line, "plugin.so"))
            printf("%.4s ", strchr(line, ' ') + 1);
    return 0;
}
END
    gcc -w -D_GNU_SOURCE -Itests/probes -o "$T/host" "$T/host.c" -ldl -Wl,--enable-new-dtags -Wl,-rpath,"$T/plugins"
}

# plugin [OPTION]...: builds the plugin with these options.
plugin() {
    gcc -shared -fPIC -D_GNU_SOURCE -DWRITE=write -Itests/probes -o "$T/plugins/plugin.so" "$T/plugin.c" "$@"
}

# hosts EXPECTED [ARGUMENT]...: with the policy in NAGLESHIM_POLICY, the program prints EXPECTED.
hosts() {
    local expected=$1
    shift
    run env LD_PRELOAD="$LIBRARY" "$T/host" "$@"
    [[ $output == "$expected" ]] || wrong "expected: $expected"$'\n'"$output"
}

# Prints the modes with which libc's dlopen was called, as seen by a library between nagleshim and libc, which is linked with $options.
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
    # shellcheck disable=SC2086 # none, or one
    gcc -shared -fPIC -D_GNU_SOURCE -o "$T/sees.so" $options "$T/sees.c" -ldl
    LD_LIBRARY_PATH=$T/plugins LD_PRELOAD="$LIBRARY $T/sees.so" "$T/host" "$@" 2>&1 >/dev/null | grep -E '^(plugin|other).so'
}

@test "a plugin opened with RTLD_DEEPBIND stalls without the library, and is cured with it" {
    run "$T/host" deep
    [[ $output == 'nodelay 0 global 0 loaded 1' ]]
    hosts 'nodelay 1 global 0 loaded 1' deep
    run "$T/host" deep global
    [[ $output == 'nodelay 0 global 1 loaded 1' ]]
    hosts 'nodelay 1 global 1 loaded 1' deep global
    hosts 'nodelay 1 global 1 loaded 1' global
}

@test "the observing library sees the writes of such a plugin" {
    mkdir -m 700 "$T/record"
    LD_PRELOAD="$OBSERVER" NAGLESHIM_RECORD="$T/record" "$T/host" deep
    build/unit/show_record "$T/record" | grep 'calls 2 '
}

@test "dlopen is called with the program's own mode, also that of a library between with a hash table of either style" {
    local options
    for options in '' -Wl,--hash-style=sysv; do
        [[ $(modes deep global) == $'plugin.so 0x109\nother.so 0x2\nplugin.so 0x5' ]]
        [[ $(modes) == $'plugin.so 0x1\nother.so 0x2\nplugin.so 0x5' ]]
    done
    hosts 'nodelay 1 global 1 loaded 1' deep global # the library is at work there
}

@test "such a plugin is cured however its calls are linked, and its read-only memory stays read-only" {
    local options
    for options in '-Wl,-z,lazy' '-Wl,-z,now,-z,relro' '-fno-plt' '-Wl,--hash-style=sysv' '-Wl,-z,now,-z,pack-relative-relocs'; do
        plugin $options
        run "$T/host" deep maps
        [[ $output == 'nodelay 0 '* ]]
        hosts "nodelay 1 ${output#nodelay 0 }" deep maps
    done
}

@test "a plugin keeps its own definition of a function, or that of a library that it needs" {
    plugin -Wl,-z,lazy "$T/own.c"
    hosts 'nodelay 0 global 0 loaded 1' deep
    plugin -Wl,-z,lazy -Wl,--no-as-needed "$T/plugins/own.so" -Wl,-rpath,"$T/plugins"
    hosts 'nodelay 0 global 0 loaded 1' deep
    hosts 'nodelay 1 global 0 loaded 1' # without the flag, nagleshim's definition is the first
}

@test "a library whose name begins like that of a library of glibc is not taken for it" {
    local name link
    for name in libutil.so libutil.so.2 librt.so.10 libc.so.60; do
        gcc -shared -fPIC -Wl,-soname,"$name" -o "$T/plugins/$name" "$T/own.c"
        for link in lazy now; do
            echo "$name $link"
            plugin -Wl,-z,$link -Wl,--no-as-needed "$T/plugins/$name" -Wl,-rpath,"$T/plugins"
            # The write of that library sends nothing, and the library that cures does not see it.
            run "$T/host" deep
            [[ $output == 'nodelay 0 global 0 loaded 1' ]]
            hosts "$output" deep
        done
    done
    plugin
    hosts 'nodelay 1 global 0 loaded 1' deep # of libc itself it is
}

@test "a plugin whose memory cannot be made writable is opened, but not cured" {
    echo '#include <errno.h>
int mprotect(void *at, unsigned long size, int how) { errno = EACCES; return -1; }' | gcc -shared -fPIC -o "$T/sealed.so" -x c -
    plugin -Wl,-z,now,-z,relro
    LIBRARY="$LIBRARY $T/sealed.so" hosts 'nodelay 0 global 0 loaded 1' deep
    plugin -Wl,-z,lazy
    LIBRARY="$LIBRARY $T/sealed.so" hosts 'nodelay 1 global 0 loaded 1' deep
}

@test "a plugin of a program without a rule is left alone" {
    export NAGLESHIM_POLICY='{"version": 1, "rules": [{"match": {"process": "other"}}]}'
    hosts 'nodelay 0 global 0 loaded 1' deep
    [[ $(modes deep) == $'plugin.so 0x9\nother.so 0x2\nplugin.so 0x5' ]]
    NAGLESHIM_OFF=1 hosts 'nodelay 0 global 0 loaded 1' deep
    NAGLESHIM_POLICY='' hosts 'nodelay 1 global 0 loaded 1' deep
}

@test "a plugin with text relocations works" {
    [[ $(uname -m) == x86_64 ]] || skip "the flags are for x86-64"
    gcc -w -shared -fno-pic -mcmodel=large -Wl,-z,notext -D_GNU_SOURCE -DWRITE=write -Itests/probes -o "$T/plugins/plugin.so" "$T/plugin.c"
    readelf -d "$T/plugins/plugin.so" | grep -q TEXTREL
    run "$T/host" deep
    [[ $output == 'nodelay 0 global 0 loaded 1' ]]
    hosts "$output" deep
    plugin
    hosts 'nodelay 1 global 0 loaded 1' deep # one without is cured
}

@test "opening 300 plugins with RTLD_DEEPBIND takes about as long as with libc alone" {
    local i
    cat >"$T/opens.c" <<'END'
#include "system.h"
int main(int argc, char **argv)
{
    struct timespec a, b;
    void *plugin = NULL;
    Dl_info info;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (int i = 1; i < argc; i++)
        if (!(plugin = dlopen(argv[i], RTLD_NOW | RTLD_DEEPBIND)))
            return 1;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    char *(*calls)(void) = (char *(*)(void))dlsym(plugin, "my_write");
    if (!calls || !dladdr(calls(), &info))
        return 1;
    printf("ms %g write is in %s\n", (b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) / 1e6, info.dli_fname);
    return 0;
}
END
    sed -i '1i #include <dlfcn.h>' "$T/opens.c"
    gcc -w -D_GNU_SOURCE -Itests/probes -o "$T/opens" "$T/opens.c" -ldl
    # The plugins refer to every intercepted function, weakly, because some libcs lack some.
    gcc -E -P -x c -D'NS_CALL(result, name, parameters, failure)=extern char name[] WEAK; char *my_##name(void) { return name; }' \
        shim/base/calls.def | gcc -w -fno-builtin -D'WEAK=__attribute__((weak))' -shared -fPIC -o "$T/every.so" -x c -
    for ((i = 0; i < 300; i++)); do cp "$T/every.so" "$T/plugins/$i.so"; done
    # Twice as long is far from the 30 times that a search through all objects for each function takes.
    for i in 1 2 3 4 5; do
        "$T/opens" "$T"/plugins/[0-9]*.so >>"$T/plain"
        LD_PRELOAD=$LIBRARY "$T/opens" "$T"/plugins/[0-9]*.so >>"$T/shimmed"
    done
    # The plugins call the library.
    [[ $(grep -c 'write is in .*/libnagleshim.so' "$T/shimmed") -eq 5 && $(grep -c libnagleshim "$T/plain") -eq 0 ]]
    # Processor time of the fastest of five: what disturbs a run makes it slower.
    for i in plain shimmed; do sort -k 2n "$T/$i" | head -n 1 >"$T/$i.fastest"; done
    holds "$(field ms "$T/shimmed.fastest") < 2 * $(field ms "$T/plain.fastest")" ||
        wrong "without and with the library:" "$T/plain" "$T/shimmed"
}

@test "fdopen on a connection and dlopen change no memory of the program or of a library" {
    cat >"$T/sums.c" <<'END'
#include "loopback.h"
#include <link.h>
static char *(*volatile pointers[])(char *, int, FILE *) = {fgets, fgets, fgets};
static unsigned long sum;
static void add(const unsigned char *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + from[i];
}
/* What the loader has relocated: the read-only data, and the program's pointers. */
static int visit(struct dl_phdr_info *info, size_t size, void *context)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO && !strstr(info->dlpi_name, "ld-linux") &&
            !strstr(info->dlpi_name, "libc.so") && !strstr(info->dlpi_name, context))
            add((unsigned char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, info->dlpi_phdr[i].p_memsz);
    return 0;
}
static unsigned long all(void)
{
    sum = 0;
    dl_iterate_phdr(visit, "plugin.so");
    add((void *)pointers, sizeof pointers);
    return sum;
}
static void maps(char *text, size_t size)
{
    char line[512];
    FILE *file = fopen("/proc/self/maps", "r");
    for (*text = 0; fgets(line, sizeof line, file);)
        if (strchr(line, '/') && !strstr(line, "plugin.so") && strlen(text) + strlen(line) < size)
            strcat(text, line);
    fclose(file);
}
int main(int argc, char **argv)
{
    static char before[65536], after[65536];
    struct sockaddr_in address;
    loopback_listener(&address);
    int fd = loopback_connect(&address);
    maps(before, sizeof before);
    unsigned long old = all();
    if (!fdopen(fd, "r+") || !dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND))
        return 1;
    maps(after, sizeof after);
    printf("sum %s maps %s\n", old == all() ? "same" : "changed", strcmp(before, after) ? "changed" : "same");
    return 0;
}
END
    gcc -w -D_GNU_SOURCE -Itests/probes -Wl,-z,now -o "$T/sums" "$T/sums.c" -ldl
    LD_PRELOAD=$LIBRARY NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE=$T/log run "$T/sums" "$T/plugins/plugin.so"
    [[ $output == 'sum same maps same' ]] || wrong "$output"
    grep -q ' sockets [1-9]' "$T/log"
}
