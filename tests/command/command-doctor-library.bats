#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: `nagleshim doctor` tells whether the library would load into a program, and which library that is.
# shellcheck disable=SC2154 # bats sets $output and $lines, helpers/common.bash the rest
# `nagleshim doctor` and the library itself: whether it loads into a program, which library that is, and what is said
# of processes that have just started or call themselves something else.

bats_require_minimum_version 1.5.0
load ../helpers/doctor

setup() {
    doctor_setup
    program ordinary "$T/ordinary"
}

teardown() {
    ns_teardown
}

@test "doctor tries the library with the program's own loader, and runs nothing of the program" {
    doctor "$T/ordinary"
    expect_status 0
    expect_part output "trial: the loader takes the library for this program"
    # A constructor would run as soon as the program did.
    printf '#include <stdio.h>\n__attribute__((constructor)) static void hello(void) { fclose(fopen("%s", "w")); }
int main(void) { return 0; }\n' "$T/ran" | gcc -x c -o "$T/eager" -
    doctor "$T/eager"
    expect_status 0
    expect_part output "trial: the loader takes the library for this program"
    [[ ! -e $T/ran ]]
    "$T/eager"
    [[ -e $T/ran ]]
}

@test "doctor says that a library would not load: empty, cut off, none, for another machine, a program" {
    local kind expected size
    cp "$NS" "$T/nagleshim"
    size=$(($(readelf -lW "$LIBRARY" | awk '$1 == "LOAD" { print $2 }' | tail -1) - 4096))
    while IFS='|' read -r kind expected; do
        case $kind in
        empty) : >"$T/libnagleshim.so" ;;
        half) head -c "$size" "$LIBRARY" >"$T/libnagleshim.so" ;;
        text) echo hello >"$T/libnagleshim.so" ;;
        program) cp "$T/ordinary" "$T/libnagleshim.so" ;;
        foreign)
            cp "$LIBRARY" "$T/libnagleshim.so"
            printf '\xee\xee' | dd of="$T/libnagleshim.so" bs=1 seek=18 conv=notrunc status=none
            ;;
        esac
        run --separate-stderr "$T/nagleshim" doctor "$T/ordinary"
        expect_status 1
        expect_verdict "the shim would do nothing for this program"
        # shellcheck disable=SC2053 # a pattern
        [[ $(grep '^reason: ' <<<"$output") == "reason: the library would not load: "$expected ]] || {
            seen
            return 1
        }
    done <<CASES
empty|$T/libnagleshim.so is empty; install it again
half|$T/libnagleshim.so is cut off: it has * bytes, and needs *; install it again
text|$T/libnagleshim.so is no library; install it again
foreign|$T/libnagleshim.so is built for another kind of machine; install it again
program|the loader says of $T/libnagleshim.so: cannot *
CASES
    cp "$LIBRARY" "$T/libnagleshim.so"
    run --separate-stderr "$T/nagleshim" doctor "$T/ordinary"
    expect_status 0
}

@test "doctor finds a bare name in LD_PRELOAD where the program's loader does, and says how to write it where that does not" {
    mkdir "$T/found"
    cp "$LIBRARY" "$T/found"
    # The command's own loader says on standard error what it cannot preload.
    run --separate-stderr env LD_PRELOAD=libnagleshim.so "$NS" doctor "$T/ordinary"
    if ldconfig -p 2>/dev/null | grep -q libnagleshim.so; then
        cannot_here "the library is installed"
    fi
    expect_status 1
    expect_part output "reason: LD_PRELOAD names libnagleshim.so, which the loader does not find; write its absolute path: LD_PRELOAD=$LIBRARY"
    expect_verdict "the shim would do nothing for this program"
    run --separate-stderr env LD_LIBRARY_PATH="$T/found" LD_PRELOAD=libnagleshim.so "$NS" doctor "$T/ordinary"
    expect_status 0
    expect_part output "library: $T/found/libnagleshim.so, which the loader finds by the name in LD_PRELOAD here"
    expect_verdict "the shim reaches this program"
    # A path is that of a file, or of none.
    run --separate-stderr env LD_PRELOAD=/nosuch/libnagleshim.so "$NS" doctor "$T/ordinary"
    expect_status 1
    expect_part output "reason: LD_PRELOAD names /nosuch/libnagleshim.so: No such file or directory"
}

@test "doctor knows a library that /etc/ld.so.preload names" {
    local mounts
    ns_mount_namespace
    [[ ${mounts[0]:-} ]] || cannot_here "no mount namespace of one's own"
    mkdir "$T/etc"
    cp -a /etc/. "$T/etc" 2>/dev/null || true
    echo "$LIBRARY" >"$T/etc/ld.so.preload"
    # shellcheck disable=SC2016 # for the inner shell
    run --separate-stderr "${mounts[@]}" bash -c 'mount --bind "$1" /etc && exec "$2" doctor "$3"' - "$T/etc" "$NS" "$T/ordinary"
    expect_status 0
    expect_part output "library: $LIBRARY, which /etc/ld.so.preload names here"
    expect_verdict "the shim reaches this program"
}

@test "doctor takes the library that LD_PRELOAD names, wherever it lies" {
    mkdir "$T/elsewhere" "$T/alone"
    cp "$LIBRARY" "$T/elsewhere"
    cp "$NS" "$T/alone"
    run --separate-stderr env LD_PRELOAD="$T/elsewhere/libnagleshim.so" "$T/alone/nagleshim" doctor "$T/ordinary"
    expect_status 0
    expect_part output "library: $T/elsewhere/libnagleshim.so, which LD_PRELOAD names here"
    expect_part output "trial: the loader takes the library for this program"
    expect_no_part output "neither beside"
    expect_no_part output "does not name the library"
}

@test "doctor runs no loader that belongs to an ordinary user" {
    printf '#!/bin/sh\ntouch %s\n' "$T/ran" >"$T/ld-linux-odd.so.2"
    chmod 0777 "$T/ld-linux-odd.so.2"
    echo 'int main(void) { return 3; }' | gcc -x c -Wl,--dynamic-linker="$T/ld-linux-odd.so.2" -o "$T/odd" -
    doctor "$T/odd"
    expect_status 0
    expect_part output "trial: none: $T/ld-linux-odd.so.2 belongs to another user than root, and was not run"
    [[ ! -e $T/ran ]]
    doctor "$(readelf -l "$T/ordinary" | sed -n 's/.*interpreter: \(.*\)]/\1/p')"
    expect_status 0
    expect_part output "trial: none: the program is a loader itself"
}

@test "doctor never blames a process that has just started" {
    may_look
    local n
    for n in 1 2 3 4 5 6 7 8; do
        # It sleeps between fork and exec, and is a copy of a shell without the shim until then.
        ns_start "p$n" bash -c "read -rt 0.$((n - 1)) <><(:); exec env LD_PRELOAD=$LIBRARY $PROBES/doctor_patient pause"
        doctor_of "p$n"
        expect_works "p$n"
    done
}

@test "doctor goes by the name that a process was started with, and not by its title" {
    may_look
    # As setproctitle does: over the arguments, and over the kernel's name.
    cat >"$T/titled.c" <<'SOURCE'
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char *end = argv[argc - 1] + strlen(argv[argc - 1]);
    const char *title = argv[1][0] == 'b' ? "titled: worker process" : "worker";
    size_t room = (size_t)(end - argv[0]);
    memset(argv[0], 0, room);
    strncpy(argv[0], title, room - 1);
    prctl(PR_SET_NAME, "worker");
    puts("ready ");
    fflush(stdout);
    pause();
}
SOURCE
    gcc -o "$T/titled" "$T/titled.c"
    policy policies/titled '{"name": "mine"}' >/dev/null
    local kind
    for kind in blanks padded; do
        ns_start "$kind" env LD_PRELOAD="$LIBRARY" "$T/titled" "$kind-and-room-for-a-title"
        ns_wait_for "$T/$kind.out" '^ready '
        doctor_of "$kind"
        expect_works "$kind"
        expect_part output "policy: $T/policies/titled.json, 1 rule"
        expect_part output "tried now: $T/policies/titled.json: would be taken"
        expect_no_part output worker
        expect_no_part output "started now, it would take"
    done
    # A parent with a title is named by its file.
    sed -i 's,pause();,if (!fork()) execle("'"$PROBES"'/doctor_patient"\, "doctor_patient"\, "pause"\, NULL\, (char *[]){NULL}); pause();,' "$T/titled.c"
    gcc -o "$T/titled" "$T/titled.c"
    ns_start parent env LD_PRELOAD="$LIBRARY" "$T/titled" blanks-and-room-for-a-title
    ns_wait_for "$T/parent.out" '^ready [0-9]'
    local child
    read -r child _ <"/proc/${NS_PID[parent]}/task/${NS_PID[parent]}/children" || true # no newline at its end
    also child "$child"
    doctor_of child
    expect_status 1
    expect_part output "reason: its parent, process ${NS_PID[parent]} (titled), was started with the shim in LD_PRELOAD"
}
