# SPDX-License-Identifier: MIT
# Promise: `nagleshim doctor --pid` gives the one reason why the library does not work in a process.
# Waits: for the clock of file times, and for processes to be ready.
# Each reason has its control: the same process without that reason.

load ../helpers/doctor

setup() {
    ns_setup
    may_look
}

@test "doctor shows why the library is disabled: a broken policy, a missing one, 'enabled': false, no rule for the program" {
    local file
    file=$(broken_policy)
    examine p pause env LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY="$file"
    expect_fails p "the library is disabled: $file:2:21: "
    examine q pause env LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY="$T/none.json"
    expect_fails q "the library is disabled: $T/none.json: cannot be read: No such file or directory"
    examine r pause env LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY='{"version": 1, "enabled": false, "rules": [{}]}'
    expect_fails r 'the library is disabled: its policy says "enabled": false'
    patient s pause env LD_PRELOAD="$LIBRARY" \
        NAGLESHIM_POLICY='{"version": 1, "rules": [{"match": {"process": "other"}}]}'
    doctor_of s
    expect_fails s "the library is disabled: no rule of its policy is for this program"
    # The word for scripts is that of the column LIBRARY.
    run --separate-stderr "$NS" doctor --json --pid "${NS_PID[s]}"
    jq -e '[.reasons[].cause] == ["disabled"]' <<<"$output"
}

@test "doctor shows that the library is disabled under the program's own seccomp filter" {
    examine p filter env LD_PRELOAD="$LIBRARY"
    expect_fails p "the library is disabled: it installed a seccomp filter"
    expect_part output "seccomp: a filter is active"
    # A filter that was there before the start is not the program's own.
    examine q pause env LD_PRELOAD="$LIBRARY" "$PROBES/network_io_filter"
    expect_works q
    expect_part output "seccomp: a filter is active"
}

@test "doctor names the kind of program that the library cannot reach" {
    gcc -static -o "$T/static" -D_GNU_SOURCE -x c - <<<'#include <stdio.h>
#include <unistd.h>
int main(void) { puts("ready 0"); fflush(stdout); for (;;) pause(); }'
    patient=$T/static examine p pause env LD_PRELOAD="$LIBRARY"
    expect_fails p "it is linked statically, so that nothing can be preloaded into it"
    # Go, linked dynamically: the library is in its memory, but sees no calls.
    gcc -o "$T/go" -D_GNU_SOURCE -pthread tests/probes/doctor_patient.c -x c - <<'END'
__asm__(".section .note.go.buildid,\"a\",@note\n.long 4, 4, 4\n.asciz \"Go\\0\"\n.long 0\n.text");
END
    patient=$T/go examine q pause env LD_PRELOAD="$LIBRARY"
    expect_fails q "it is a Go program, which makes its system calls without libc"
    grep -q libnagleshim "/proc/${NS_PID[q]}/maps"
    patient=$T/go examine r pause
    expect_fails r "it is a Go program, which makes its system calls without libc"
}

@test "doctor says that a 32-bit process without libc, and a program of another machine, are not reached" {
    [[ $(uname -m) == x86_64 ]] || cannot_here "needs a machine that runs 32-bit programs, too"
    as --32 -o "$T/small.o" - <<'END'
.globl _start
_start: mov $29, %eax
int $0x80
jmp _start
END
    ld -m elf_i386 -o "$T/small" "$T/small.o"
    cp "$T/small" "$T/other"
    printf '\x16' | dd of="$T/other" bs=1 seek=18 conv=notrunc status=none # e_machine: s390
    doctor "$T/other"
    expect 1 output has "reason: it is built for another kind of machine than the library"
    doctor "$T/small"
    expect 1 output has "reason: it is linked statically, so that nothing can be preloaded into it"
    # A kernel may be built without support for 32-bit programs.
    ns_start p env LD_PRELOAD="$LIBRARY" "$T/small"
    local end=$((SECONDS + 10))
    until [[ $(readlink "/proc/${NS_PID[p]}/exe") == */small ]] || ! kill -0 "${NS_PID[p]}"; do
        ((SECONDS < end))
    done
    kill -0 "${NS_PID[p]}" 2>/dev/null && [[ $(readlink "/proc/${NS_PID[p]}/exe") == */small ]] ||
        cannot_here "this kernel runs no 32-bit programs"
    doctor_of p
    expect_fails p "it is linked statically, so that nothing can be preloaded into it"
}

@test "doctor says that a process has more rights than its user: set-user-ID, file capabilities" {
    cp "$PROBES/doctor_patient" "$T/setuid"
    chown 65533 "$T/setuid" 2>/dev/null || cannot_here "only root can give a file away"
    chmod u+s "$T/setuid"
    [[ $(findmnt -no OPTIONS -T "$T/setuid") != *nosuid* ]] || cannot_here "mounted nosuid"
    let_others_in "$T"
    patient=$T/setuid examine p pause env LD_PRELOAD="$LIBRARY"
    if ! has_ptrace; then
        expect_denied p
        return 0
    fi
    expect_fails p "it was started with more rights than its user's"
    chmod u-s "$T/setuid"
    patient=$T/setuid examine q pause env LD_PRELOAD="$LIBRARY"
    expect_works q
    cp "$PROBES/doctor_patient" "$T/capable"
    # v2, effective, permitted: CAP_NET_BIND_SERVICE
    python3 -c 'import os, struct, sys
os.setxattr(sys.argv[1], "security.capability", struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0))' "$T/capable"
    patient=$T/capable examine r pause setpriv --reuid=65534 --regid=65534 --clear-groups env LD_PRELOAD="$LIBRARY"
    expect_fails r "it was started with more rights than its user's"
}

@test "doctor shows that LD_PRELOAD names a missing library, a broken one, or others" {
    examine p pause env LD_PRELOAD="$T/none/libnagleshim.so"
    expect_fails p "LD_PRELOAD names $T/none/libnagleshim.so: No such file or directory"
    examine q pause env LD_PRELOAD=libm.so.6
    expect_fails q "it was started with LD_PRELOAD=libm.so.6, which does not name the library"
    examine o pause env LD_PRELOAD="$OBSERVER"
    expect_fails o "it has libnagleshim-observe.so instead, which only observes: 'nagleshim diagnose' started it"
    ns_start u env LD_PRELOAD="$LIBRARY" perl -e '$0 = "worker [idle]"; $| = 1; print "ready\n"; sleep' # over its environment
    ns_wait_for "$T/u.out" ready
    doctor_of u
    expect 0 output has "LD_PRELOAD: not known, as the process has overwritten its environment"
    mkdir "$T/bad"
    head -c 4096 /dev/zero >"$T/bad/libnagleshim.so"
    examine r pause env LD_PRELOAD="$T/bad/libnagleshim.so"
    expect_fails r "$T/bad/libnagleshim.so is not a library"
    # A relative path starts at the working directory, and may lead above it.
    mkdir "$T/here"
    examine t pause env --chdir="$T/here" LD_PRELOAD=../bad/libnagleshim.so
    expect_fails t "../bad/libnagleshim.so is not a library"
    program other-machine "$T/bad/libnagleshim.so"
    examine s pause env LD_PRELOAD="$T/bad/libnagleshim.so"
    expect_fails s "$T/bad/libnagleshim.so is built for another kind of machine"
}

@test "doctor says that the library was installed after the process was started" {
    patient p pause env LD_PRELOAD="$T/late/libnagleshim.so"
    mkdir "$T/late"
    # Wait until the clock of file times has advanced.
    local end=$((SECONDS + 10))
    until cp "$LIBRARY" "$T/late" && doctor_of p && [[ $output == *"after the process was started"* ]]; do
        ((SECONDS < end)) || break
    done
    expect_fails p "$T/late/libnagleshim.so was put there, or changed, after the process was started: restart it"
}

@test "doctor searches for the library in the process's own root" {
    make_root
    unset NAGLESHIM_POLICY_DIR
    patient=/patient examine p pause env LD_PRELOAD=/opt/libnagleshim.so "${enter[@]}" "$root"
    expect_fails p "LD_PRELOAD names /opt/libnagleshim.so in the process's own root or mount namespace: No such file or directory"
    cp "$LIBRARY" "$root/opt"
    # A name without a path is not found in /opt.
    patient=/patient examine bare pause env LD_PRELOAD=libnagleshim.so "${enter[@]}" "$root"
    expect_fails bare "LD_PRELOAD names libnagleshim.so, which its loader did not load in the process's own root or mount namespace; write the full path"
    printf '{"version": 1, "rules": [{"name": "inside"}]}' >"$root/etc/nagleshim/real.json"
    # An absolute link leads to where the process would find it.
    ln -s /etc/nagleshim/real.json "$root/etc/nagleshim/default.json"
    patient=/patient examine q pause env LD_PRELOAD=/opt/libnagleshim.so "${enter[@]}" "$root"
    expect_works q
    expect_part output "policy: /etc/nagleshim/default.json, 1 rule"
    expect_part output 'rule 1 "inside"'
    expect_no_part output "warning: "
    # A FIFO is not opened.
    rm "$root/etc/nagleshim/real.json"
    mkfifo "$root/etc/nagleshim/real.json"
    run --separate-stderr timeout -s KILL 20 "$NS" doctor --pid "${NS_PID[q]}"
    expect_works q
}

@test "doctor reads /etc/ld.so.preload, which loads the library into set-user-ID programs, too, where it is disabled" {
    make_root
    unset NAGLESHIM_POLICY_DIR
    echo /opt/libnagleshim.so >"$root/etc/ld.so.preload"
    patient=/patient examine p pause "${enter[@]}" "$root"
    expect_fails p "/etc/ld.so.preload names /opt/libnagleshim.so in the process's own root or mount namespace: No such file or directory"
    cp "$LIBRARY" "$root/opt"
    patient=/patient examine q pause "${enter[@]}" "$root"
    expect_works q
    expect_part output "LD_PRELOAD: did not name it when the process was started (/etc/ld.so.preload may)"
    chown 65533 "$root/patient" 2>/dev/null || cannot_here "only root can give a file away"
    chmod u+s "$root/patient"
    [[ $(findmnt -no OPTIONS -T "$root") != *nosuid* ]] || cannot_here "mounted nosuid"
    patient=/patient examine r pause "${enter[@]}" "$root"
    if ! has_ptrace; then
        expect_denied r
        return 0
    fi
    expect_fails r "the library is disabled: it runs with more rights than its user's (set-user-ID and its like)"
}

@test "doctor shows that /etc/ld.so.preload is newer than the process, or that musl does not read it" {
    make_root
    unset NAGLESHIM_POLICY_DIR
    cp "$LIBRARY" "$root/opt"
    patient=/patient patient p pause "${enter[@]}" "$root"
    # Wait until the clock of file times is past the process's start, whose time is rounded to a tick.
    until holds "$(cut -d ' ' -f 1 /proc/uptime) > $(awk '{ print $22 / 100 }' "/proc/${NS_PID[p]}/stat") + 0.1"; do
        sleep 0.01
    done
    echo "# not /opt/libnagleshim.so" >"$root/etc/ld.so.preload"
    doctor_of p
    if has_ptrace; then
        expect_fails p "LD_PRELOAD was not set when it was started"
    fi
    echo /opt/libnagleshim.so >"$root/etc/ld.so.preload"
    doctor_of p
    if ! has_ptrace && [[ $status -eq 3 ]]; then
        expect_denied p
        return 0
    fi
    expect_fails p "/etc/ld.so.preload names /opt/libnagleshim.so, but was changed after the process was started: restart it"
    musl_loader
    gcc -o "$root/patient" tests/probes/doctor_patient.c -D_GNU_SOURCE -Wl,--dynamic-linker="$musl" -pthread
    mkdir -p "$root/lib"
    cp -L "$musl" "$root/lib/"
    patient=/patient examine q pause "${enter[@]}" "$root"
    expect_fails q "/etc/ld.so.preload names /opt/libnagleshim.so, but musl's loader does not read this file: set LD_PRELOAD"
}
