# SPDX-License-Identifier: MIT
# Promise: The one library file loads on glibc 2.17 and newer and on musl, and exports libc's names and nothing else.
# NS_ELF_LIBRARY names another file to check; a test uses it to show that each check can fail.

load ../helpers/common

setup() {
    ns_setup
    LIBRARY=${NS_ELF_LIBRARY:-$LIBRARY}
}

# The names that the library imports, with their versions.
imported() {
    nm -D --undefined-only "$LIBRARY" | awk '{ print $NF }'
}

# defined FILE...: the names that libraries export, without their versions.
defined() {
    nm -D --defined-only "$@" | awk 'NF > 2 && $2 != "A" { sub(/@.*/, "", $NF); print $NF }' | sort -u
}

exported() {
    defined "$LIBRARY"
}

# The names of the call table for the main library, and the name that glibc's start files call.
call_table() {
    { echo __gmon_start__
        gcc -E -P -x c -D'NS_CALL(result, name, parameters, failure)=name' -D'NS_PRIVILEGES(...)=' shim/base/calls.def
    } | tr -s ' ' '\n' | grep . | sort
}

# none_of "WHAT" LINES: fails if there is a line.
none_of() {
    [[ -z $2 ]] || wrong "$1:"$'\n'"$2"
}

@test "it asks for no symbol version newer than glibc 2.17" {
    local version newer='' limit=2.17
    local -a versions
    [[ $(gcc -dumpmachine) != riscv64-* ]] || limit=2.27 # the first version of that port
    mapfile -t versions < <(readelf -VW "$LIBRARY" | awk '/Version needs/ { needs = 1 } needs' |
        grep -oE 'Name: [A-Za-z_]+[A-Za-z0-9_.]*' | awk '{ print $2 }' | sort -u)
    [[ ${#versions[@]} -gt 0 ]]
    for version in "${versions[@]}"; do
        if [[ $version != GLIBC_* || $(printf '%s\n' "${version#GLIBC_}" "$limit" | sort -V | tail -n 1) != "$limit" ]]; then
            newer+="$version "
        fi
    done
    none_of "versions that glibc 2.17 lacks" "$newer"
}

@test "it takes no fortified function and no stack protector from libc" {
    none_of "names that only a fortified build has" "$(imported | grep -E '_chk(@|$)|__stack_chk|__fdelt' || true)"
}

@test "it takes no symbol that musl lacks" {
    local musl
    musl=$(echo /lib/ld-musl-*.so.1)
    [[ -e $musl ]] || ns_skip "musl is not installed"
    nm -D --defined-only "$musl" | awk '{ print $NF }' | sort -u >"$T/musl"
    # A weak name may be absent.
    none_of "names that musl lacks" "$(nm -D --undefined-only "$LIBRARY" | awk '$1 == "U" { print $2 }' | sed 's/@.*//' | sort -u | comm -23 - "$T/musl")"
}

@test "it needs no library except libc" {
    local needed
    needed=$(readelf -dW "$LIBRARY" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | sort)
    [[ $needed == libc.so.6 ]] || wrong "$needed"
}

# glibc keeps 1664 bytes for the libraries that a program opens later; the list of pending work is in here, since no hook
# at a thread's end could free it.
@test "its thread-local storage is static, and at most 1024 bytes" {
    local size
    size=$(readelf -lW "$LIBRARY" | awk '$1 == "TLS" { print $6 }')
    [[ -n $size && $((size)) -le 1024 ]] || wrong "size: $size"
    # The linker for aarch64 sets no flag, so the relocations are checked there.
    { readelf -dW "$LIBRARY" && readelf -rW "$LIBRARY"; } | grep -qE 'FLAGS\).*STATIC_TLS|R_AARCH64_TLS_TPREL'
    none_of "another model than initial-exec" "$(readelf -rW "$LIBRARY" | grep -E 'DTPMOD|TLSDESC' || true)"
    none_of "another model than initial-exec" "$(imported | grep __tls_get_addr || true)"
}

@test "its text segment needs no relocation" {
    none_of "text relocations" "$(readelf -dW "$LIBRARY" | grep TEXTREL || true)"
}

@test "its stack is not executable, and no segment is writable and executable" {
    readelf -lW "$LIBRARY" | awk '$1 == "GNU_STACK" { found = $7 } END { exit found != "RW" }'
    none_of "segments" "$(readelf -lW "$LIBRARY" | grep 'RWE' || true)"
}

@test "all of its relocations are applied and made read-only before it runs" {
    readelf -lW "$LIBRARY" | grep -q GNU_RELRO
    readelf -dW "$LIBRARY" | grep -qE 'FLAGS\).*BIND_NOW'
}

@test "it exports exactly the names of the call table" {
    call_table >"$T/table"
    exported >"$T/exported"
    [[ $(wc -l <"$T/table") -gt 50 ]]
    diff "$T/table" "$T/exported"
}

@test "it exports no name but those of libc and of its start files" {
    { defined "$(gcc -print-file-name=libc.so.6)"
        nm "$(gcc -print-file-name=gcrt1.o)" | awk '$2 == "T" { print $3 }'
        echo __ppoll64_chk # of newer ones for 32-bit systems
        [[ $(gcc -dumpmachine) != riscv64-* ]] || echo __gmon_start__ # whose start files do not call it
    } | sort >"$T/libc"
    none_of "names that libc does not have" "$(exported | comm -23 - "$T/libc")"
}

@test "outside shim/calls and base/exports.c only the search for a policy calls exported names, which lead back into the library" {
    local uses
    uses=$(awk 'NR == FNR { exported[$1]; next } $3 in exported && $1 !~ "/calls/|/base/exports" { print $1, $3 }' \
        <(call_table) <(nm -A -u build/pic/shim/*.o build/pic/shim/*/*.o))
    none_of "these calls lead back into the library" "$(grep -vxE 'build/pic/shim/policy/find.o: (close|fcntl|read|syscall)' <<<"$uses")"
}

@test "each check of this file can fail" {
    [[ -z ${NS_ELF_LIBRARY-} ]] || return 0
    cat >"$T/bad.c" <<'END'
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
__thread char many[100];
char *text(char *to, const char *from) { many[0]++; return strcpy(to, from); }
long read(int fd, void *data, unsigned long size) { (void)fd; (void)data; return (long)size; }
int other(thrd_t *t) { return thrd_create(t, 0, 0); }
const char *gnu_get_libc_version(void);
const char *version(void) { return gnu_get_libc_version(); }
END
    cat >"$T/text.s" <<'END'
.globl moved
.data
here: .quad 0
.text
moved: movabs $here, %rax
ret
END
    # The assembly is for x86-64. On other machines text relocations are not tested.
    local -a more=()
    local expected=10
    if [[ $(uname -m) == x86_64 ]]; then
        more=("$T/text.s" "-Wl,-z,notext")
    else
        expected=9
    fi
    gcc -shared -fPIC -O2 -D_FORTIFY_SOURCE=2 -fstack-protector-all -o "$T/bad.so" "$T/bad.c" "${more[@]}" \
        -Wl,-z,execstack -Wl,-z,norelro -Wl,-z,lazy -Wl,--no-as-needed -lm
    NS_ELF_LIBRARY=$T/bad.so run env -u BATS_TEST_TIMEOUT bats --filter '^(it|its|all) ' tests/file/elf.bats
    [[ $(grep -c '^not ok' <<<"$output") -eq $expected ]] || wrong "$output"
}

@test "the observing library is as portable, and the main library contains none of its code" {
    [[ -z ${NS_ELF_LIBRARY-} ]] || return 0
    NS_ELF_LIBRARY=$OBSERVER run env -u BATS_TEST_TIMEOUT bats --filter '^(it (asks|takes|needs)|its (text|stack)|all) ' "$BATS_TEST_FILENAME"
    [[ $status -eq 0 && $(grep -c '^ok' <<<"$output") -ge 6 ]]
    comm -23 <(defined "$OBSERVER") \
        <({ call_table; printf '%s\n' seteuid setresuid setreuid setuid; } | sort) >"$T/others"
    none_of "exported by the observing library" "$(<"$T/others")"
    none_of "in the main library" "$(strings "$LIBRARY" | grep -E 'NAGLESHIM_(RECORD|EXPERIMENT)' || true)"
    strings "$OBSERVER" | grep -qx NAGLESHIM_RECORD
}

# circles FILE...: the object files that call each other in a circle.
circles() {
    nm -A --format=posix "$@" | awk '{
            sub(/:$/, "", $1)
            if ($3 == "U") { user[++n] = $1; used[n] = $2 }
            else if ($3 ~ /[BCDRTVW]/) by[$2] = $1
        }
        END { for (; n > 0; n--) if (used[n] in by && by[used[n]] != user[n]) print user[n], by[used[n]] }' |
        { tsort >/dev/null; } 2>&1
}

@test "no file of the command calls back into one that calls it" {
    local files
    mapfile -t files < <(find build/obj/shim/{cli,cure,judge,process,watch} -name '*.o')
    none_of "these files call each other" "$(circles "${files[@]}")"
    gcc -x c -c -o "$T/one.o" - <<<'void one(void); void other(void); void one(void) { other(); }'
    gcc -x c -c -o "$T/other.o" - <<<'void one(void); void other(void); void other(void) { one(); }'
    [[ $(circles "$T/one.o" "$T/other.o") == *"$T/o"* ]]
}
