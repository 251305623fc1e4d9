# SPDX-License-Identifier: MIT
# Promise: `nagleshim doctor PROGRAM` shows whether the library can be preloaded into a program, and why not.
# Each reason has its control: the same program without that reason.

load ../helpers/doctor

setup() {
    ns_setup
    program ordinary "$T/ordinary"
}

@test "doctor shows that the library reaches an ordinary program, and which policy and rules it gets" {
    policy policies/ordinary '{"name": "mine", "match": {"process": "ordinary"}, "send": "auto-cork"},
        {"name": "others", "match": {"process": "other"}}'
    doctor "$T/ordinary"
    expect 0 stderr is ""
    expect_verdict "the library can reach this program; it is not preloaded here ('nagleshim run' does it)"
    LD_PRELOAD=$LIBRARY run -0 --separate-stderr "$NS" doctor "$T/ordinary"
    expect_verdict "the library reaches this program"
    doctor "$T/ordinary"
    expect_part output "program: $T/ordinary"
    expect_part output "(glibc)"
    expect_part output "library: $LIBRARY"
    expect_part output "tried: $T/policies/ordinary.json: taken"
    expect_part output 'rule 1 "mine": send auto-cork, ack before-wait'
    expect_no_part output others
    rm "$T/policies/ordinary.json"
    doctor "$T/ordinary"
    expect_part output "tried: $T/policies/ordinary.json: not there
tried: $T/policies/default.json: not there
policy: built in"
}

@test "doctor does not claim to reach a program that calls none of libc's functions for connections" {
    echo 'int main(void) { return 3; }' | gcc -x c -o "$T/own-calls" -
    doctor "$T/own-calls"
    expect 0 output has "verdict: the library can be loaded; nothing in the program calls libc's socket, connect or accept"
    expect_part output "or make its own system calls, which only 'nagleshim cure' and the other end reach"
    # A library of the program does.
    echo 'int socket(int, int, int); int reach(void) { return socket(0, 0, 0); }' | gcc -shared -fPIC -x c -o "$T/libreach.so" -
    echo 'int reach(void); int main(void) { return reach(); }' |
        gcc -x c -o "$T/by-library" - -L"$T" -Wl,--no-as-needed -lreach -Wl,-rpath,"$T"
    doctor "$T/by-library"
    expect_verdict "the library can reach this program; it is not preloaded here ('nagleshim run' does it)"
}

@test "doctor does not run the program, and does not take its arguments for options" {
    policy policies/default '{"name": "by argument", "match": {"args": "--pid"}}'
    doctor touch "$T/ran" --pid
    expect 0 output has 'rule 1 "by argument"'
    [[ ! -e $T/ran ]]
    doctor -- touch "$T/ran"
    expect 1 output has "reason: no rule of its policy matches this program"
}

@test "doctor says why the library does not reach a program: static, Go, another machine, another loader" {
    local kind expected
    while IFS='|' read -r kind expected; do
        program "$kind" "$T/$kind"
        doctor "$T/$kind"
        expect 1 stderr is "" output has "reason: it $expected"
        expect_verdict "the library would do nothing for this program"
    done <<'CASES'
static|is linked statically, so that nothing can be preloaded into it
go-note|is a Go program, which makes its system calls without libc
other-machine|is built for another kind of machine than the library
CASES
    echo 'int main(void) { return 3; }' | gcc -x c -Wl,--dynamic-linker=/bin/sh -o "$T/odd" -
    doctor "$T/odd"
    expect 1 output has "loader: /bin/sh" output has "reason: it has the loader of a libc other than glibc and musl"
    echo 'int main(void) { return 3; }' | gcc -x c -Wl,--dynamic-linker=/no/ld-linux.so.2 -o "$T/lost" -
    doctor "$T/lost"
    expect 1 output has "reason: it cannot run: its loader /no/ld-linux.so.2 is missing"
}

@test "doctor says that a program for musl is reached" {
    musl_loader
    echo 'int main(void) { return 3; }' | gcc -x c -Wl,--dynamic-linker="$musl" -o "$T/for-musl" -
    doctor "$T/for-musl"
    expect 0 output has "loader: $musl (musl)"
}

@test "doctor says that a set-user-ID program of another user is not reached, and one's own is" {
    program ordinary "$T/setuid"
    chmod u+s "$T/setuid"
    doctor "$T/setuid"
    expect_status 0
    chown 65533 "$T/setuid" 2>/dev/null || cannot_here "only root can give a file away"
    chmod u+s "$T/setuid"
    [[ $(findmnt -no OPTIONS -T "$T/setuid") != *nosuid* ]] || cannot_here "mounted nosuid"
    doctor "$T/setuid"
    expect 1 output has "reason: it is set-user-ID or set-group-ID, and the loader ignores LD_PRELOAD there"
}

@test "doctor judges a script by its interpreter" {
    program static "$T/static"
    printf '#!%s\n' "$T/static" >"$T/script"
    chmod +x "$T/script"
    doctor "$T/script"
    expect 1 output has "program: $T/script, a script for $T/static"
    expect_part output "reason: its interpreter $T/static is linked statically"
    printf '#!/bin/sh\necho LD_PRELOAD\n' >"$T/script"
    doctor "$T/script"
    expect_status 0
    printf '#!/no/such/interpreter\n' >"$T/script"
    doctor "$T/script"
    expect 1 output has "reason: it cannot run: its interpreter /no/such/interpreter is missing"
    # env(1) searches PATH, and not the working directory.
    cd "$T"
    printf '#!/usr/bin/env -S static --word\n' >"$T/script"
    doctor "$T/script"
    expect 1 output has "program: $T/script, a script for static"
    expect_part output "reason: it cannot run: its interpreter static is not in PATH"
    PATH=$T:$PATH doctor "$T/script"
    expect 1 output has "reason: its interpreter $T/static is linked statically"
    printf '#!/usr/bin/env\n' >"$T/script"
    doctor "$T/script"
    expect 1 output has "reason: it cannot run: its first line names no interpreter"
}

@test "doctor gives the reasons that are in the environment and the installation" {
    NAGLESHIM_OFF=1 doctor "$T/ordinary"
    expect 1 output has "reason: NAGLESHIM_OFF is '1' (neither empty nor 0), so the library is switched off"
    NAGLESHIM_POLICY=$(broken_policy) doctor "$T/ordinary"
    expect 1 stderr has "nagleshim doctor: $T/broken.json:2:21: "
    expect_part output "reason: its policy is broken or cannot be read"
    NAGLESHIM_POLICY='{"version": 1, "enabled": false, "rules": [{}]}' doctor "$T/ordinary"
    expect 1 output has 'reason: its policy says "enabled": false'
    LD_PRELOAD=$T/none/libnagleshim.so run --separate-stderr "$NS" doctor "$T/ordinary"
    expect 1 output has "reason: the library would not load: $T/none/libnagleshim.so cannot be read: No such file or directory"
    cp "$NS" "$T/nagleshim"
    run --separate-stderr "$T/nagleshim" doctor "$T/ordinary"
    [[ -e /usr/local/lib/libnagleshim.so ]] || {
        expect 1 output has "reason: cannot find libnagleshim.so beside this command, in ../lib or in /usr/local/lib"
    }
}

@test "doctor warns of variables that are misspelt or have an invalid value" {
    run --separate-stderr env NAGLESHIM_LOGFILE=x NAGLESHIM_LOG=verbose "$NS" doctor "$T/ordinary"
    expect 0 stderr has "warning: unknown variable NAGLESHIM_LOGFILE; did you mean NAGLESHIM_LOG_FILE?"
    expect_part stderr "warning: NAGLESHIM_LOG must be off, error, info or debug, not 'verbose'; 'error' is used"
    # A value of any length, of which the end is said, too.
    NAGLESHIM_POLICY_DIR=$(printf '%09000d' 1) doctor "$T/ordinary"
    expect_part stderr "1', which does not exist: every program gets the built-in policy"
    doctor "$T/ordinary"
    expect 0 stderr is ''
}

@test "a number is a process only with --pid, and an empty name is no program" {
    doctor ''
    expect_status 2
    cp "$T/ordinary" "$T/4711" # the control: a program with such a name
    PATH=$T:$PATH doctor 4711
    expect 0 output has "program: $T/4711"
}

# executed COMMAND...: runs it, and sets executed to how many programs were executed, with the command itself.
executed() {
    run --separate-stderr strace -f -qq -e trace=execve,execveat -e signal=none -o "$T/calls" "$@"
    executed=$(grep -c ' = 0$' "$T/calls")
}

@test "doctor, explain and run execute no other program, and nothing of the program that doctor judges" {
    has_ptrace || cannot_here "CAP_SYS_PTRACE is missing"
    # A constructor would run as soon as the program did.
    printf '#include <stdio.h>\n__attribute__((constructor)) static void hello(void) { fclose(fopen("%s", "w")); }
int main(void) { return 0; }\n' "$T/ran" | gcc -x c -o "$T/eager" -
    executed "$NS" doctor "$T/eager"
    [[ $status -eq 0 && $executed -eq 1 && ! -e $T/ran ]] || unexpected "executed: $executed"
    executed "$NS" explain "$T/eager"
    [[ $status -eq 0 && $executed -eq 1 && ! -e $T/ran ]] || unexpected "executed: $executed"
    executed env LD_PRELOAD="$LIBRARY" "$NS" doctor "$T/eager"
    expect 0 output has "library: $LIBRARY, from LD_PRELOAD"
    [[ $executed -eq 2 ]] # env, too
    # The control: run executes the program, and itself.
    executed "$NS" run -- "$T/eager"
    [[ $executed -eq 2 && -e $T/ran ]]
}

@test "doctor executes no loader that the owner of the program puts there while it is judged" {
    has_ptrace || cannot_here "CAP_SYS_PTRACE is missing"
    local tries
    mkdir "$T/theirs"
    printf '#!/bin/sh\ntouch %s\n' "$T/ran" >"$T/evil"
    chmod 0755 "$T/evil"
    ln -s "$(readelf -l "$T/ordinary" | sed -n 's/.*interpreter: \(.*\)]/\1/p')" "$T/theirs/ld-linux.so.2"
    ln -s "$T/evil" "$T/theirs/other"
    echo 'int main(void) { return 3; }' | gcc -x c -Wl,--dynamic-linker="$T/theirs/ld-linux.so.2" -o "$T/odd" -
    # RENAME_EXCHANGE: the name is always there, and is root's loader half of the time.
    ns_python
    ns_start swap "$python" -c 'import ctypes, sys
call = ctypes.CDLL(None).renameat2
one, other = (name.encode() for name in sys.argv[1:])
while call(-100, one, -100, other, 2) == 0:
    pass' "$T/theirs/ld-linux.so.2" "$T/theirs/other"
    for ((tries = 0; tries < 40; tries++)); do
        "$NS" doctor "$T/odd" >"$T/out" 2>&1
        [[ ! -e $T/ran ]] || wrong "a loader of the owner was executed at call $tries:" "$T/out" || return
    done
    executed "$NS" doctor "$T/odd"
    [[ $executed -eq 1 ]]
}

@test "doctor shows that a library would not load: empty, truncated, not a library, for another machine, a program" {
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
        run -1 --separate-stderr "$T/nagleshim" doctor "$T/ordinary"
        expect_verdict "the library would do nothing for this program"
        [[ $(grep '^reason: ' <<<"$output") == "reason: the library would not load: "$expected ]] ||
            unexpected
    done <<CASES
empty|$T/libnagleshim.so is empty; install it again
half|$T/libnagleshim.so is truncated: it has * bytes and needs *; install it again
text|$T/libnagleshim.so is not a library; install it again
foreign|$T/libnagleshim.so is built for another kind of machine; install it again
program|$T/libnagleshim.so is a program; install it again
CASES
    cp "$LIBRARY" "$T/libnagleshim.so"
    run -0 --separate-stderr "$T/nagleshim" doctor "$T/ordinary"
}

@test "doctor knows where loaders search for a name without a path, and for \$LIB" {
    mkdir "$T/found"
    # The command's own loader complains on standard error.
    run --separate-stderr env LD_PRELOAD=libnagleshim.so "$NS" doctor "$T/ordinary"
    if ldconfig -p 2>/dev/null | grep -q libnagleshim.so; then
        cannot_here "the library is installed"
    fi
    expect 1 output has "reason: the library would not load: libnagleshim.so is in no directory that the loader searches"
    expect_verdict "the library would do nothing for this program"
    # The control: the loader searches there, too.
    run --separate-stderr env LD_LIBRARY_PATH="$T/found" LD_PRELOAD=libnagleshim.so "$NS" doctor "$T/ordinary"
    expect 0 output has "library: libnagleshim.so, from LD_PRELOAD, which the program's loader searches for"
    expect_verdict "the library reaches this program"
    # The loader replaces $LIB, by a name of one component or two.
    run --separate-stderr env LD_PRELOAD="$T/found/\$LIB/libnagleshim.so" "$NS" doctor "$T/ordinary"
    expect 1 output has "reason: the library would not load: $T/found/\$LIB/libnagleshim.so is in no directory"
    mkdir -p "$T/found/lib/$(gcc -print-multiarch)"
    cp "$LIBRARY" "$T/found/lib/$(gcc -print-multiarch)"
    run --separate-stderr env LD_PRELOAD="$T/found/\$LIB/libnagleshim.so" "$NS" doctor "$T/ordinary"
    expect 0 output has "library: $T/found/\$LIB/libnagleshim.so, from LD_PRELOAD"
    # A path is not searched for.
    run --separate-stderr env LD_PRELOAD=/nosuch/libnagleshim.so "$NS" doctor "$T/ordinary"
    expect 1 output has "reason: the library would not load: /nosuch/libnagleshim.so cannot be read: No such file"
}

@test "doctor reads /etc/ld.so.preload" {
    local mounts
    ns_mount_namespace
    [[ ${mounts[0]:-} ]] || cannot_here "no mount namespace of one's own"
    mkdir "$T/etc"
    cp -a /etc/. "$T/etc" 2>/dev/null || true
    echo "$LIBRARY" >"$T/etc/ld.so.preload"
    run --separate-stderr "${mounts[@]}" bash -c 'mount --bind "$1" /etc && exec "$2" doctor "$3"' - "$T/etc" "$NS" "$T/ordinary"
    expect 0 output has "library: $LIBRARY, from /etc/ld.so.preload"
    expect_verdict "the library reaches this program"
}
