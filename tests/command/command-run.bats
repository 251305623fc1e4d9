#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: `nagleshim run` starts a program as it would start by itself, with shim and policy in place, or says why not.
# shellcheck disable=SC2016 # what stands in single quotes is for other shells
# shellcheck disable=SC2154 # bats sets stderr_lines
# `nagleshim run`: the program starts as it would without it, with the shim and the policy in place, or
# it does not start at all and one line says why.

bats_require_minimum_version 1.5.0
load ../helpers/command

setup() {
    command_setup
}

@test "run becomes the program: the process keeps its id" {
    run --separate-stderr bash -c 'echo $$; exec "$0" run -- bash -c "echo \$\$"' "$NS"
    expect_status 0
    [[ ${#lines[@]} -eq 2 && ${lines[0]} == "${lines[1]}" ]]
}

@test "run passes every argument on as it is" {
    local expected=$T/expected
    printf '<%s>' "" "a  b" $'x\ny' --send -p '$HOME' '*' -- >"$expected"
    "$NS" run --log error -- printf '<%s>' "" "a  b" $'x\ny' --send -p '$HOME' '*' -- >"$T/actual"
    cmp "$expected" "$T/actual"
}

@test "run passes standard input through to the byte, and opens no descriptor of its own" {
    head -c 300000 /dev/urandom >"$T/data"
    "$NS" run -p "$(policy p '{}')" -- cat <"$T/data" >"$T/copy"
    cmp "$T/data" "$T/copy"
    ls /proc/self/fd >"$T/without"
    "$NS" run -p "$(policy p '{}')" -- ls /proc/self/fd >"$T/with"
    diff "$T/without" "$T/with"
}

@test "run has the program's exit status, and dies of the program's signal" {
    run "$NS" run -- sh -c 'exit 7'
    expect_status 7
    run "$NS" run -- sh -c 'kill -TERM $$'
    expect_status 143
}

@test "options of run end at the first word that is none, and at --" {
    run --separate-stderr "$NS" run --log error printf '%s' --ack
    expect_status 0
    expect_whole output --ack
    run -127 --separate-stderr "$NS" run -- --help
    expect_whole stderr "nagleshim run: cannot find '--help' in PATH"
}

@test "run preloads the library that lies beside the command, by its full path" {
    run --separate-stderr "$NS" run -- printenv LD_PRELOAD
    expect_status 0
    expect_whole output "$LIBRARY"
    run --separate-stderr "$NS" run -- grep -c "$LIBRARY" /proc/self/maps
    expect_status 0
    run --separate-stderr grep -c "$LIBRARY" /proc/self/maps
    expect_status 1
}

@test "run finds the library in ../lib, as it is installed" {
    mkdir "$T/bin" "$T/lib"
    cp "$NS" "$T/bin"
    cp "$LIBRARY" "$T/lib"
    run --separate-stderr "$T/bin/nagleshim" run -- printenv LD_PRELOAD
    expect_status 0
    expect_whole output "$T/lib/libnagleshim.so"
}

@test "run finds the library in the directory it was built for, and exits 125 if it is nowhere" {
    make -s B="$T/b" OPT=-O0 LIBDIR="$T/libdir" "$T/b/nagleshim"
    run --separate-stderr "$T/b/nagleshim" run -- touch "$T/ran"
    expect_status 125
    expect_whole stderr "nagleshim run: cannot find libnagleshim.so beside this command, in ../lib or in $T/libdir"
    [[ ! -e $T/ran ]]
    mkdir "$T/libdir"
    cp "$LIBRARY" "$T/libdir"
    run --separate-stderr "$T/b/nagleshim" run -- printenv LD_PRELOAD
    expect_status 0
    expect_whole output "$T/libdir/libnagleshim.so"
}

@test "run says that a library whose path has a space, a colon or a dollar sign cannot be preloaded" {
    local name
    for name in "a b" a:b 'a$LIB' $'a\tb'; do
        mkdir "$T/$name"
        cp "$NS" "$LIBRARY" "$T/$name"
        run --separate-stderr "$T/$name/nagleshim" run -- touch "$T/ran"
        expect_status 125
        expect_whole stderr "nagleshim run: '$T/${name/$'\t'/?}/libnagleshim.so' cannot be written in LD_PRELOAD: its path must have no space, colon or dollar sign"
        [[ ! -e $T/ran ]]
    done
}

@test "run keeps what LD_PRELOAD lists, in its order, and comes before it" {
    LD_PRELOAD="libm.so.6 libdl.so.2:libresolv.so.2" run --separate-stderr "$NS" run -- printenv LD_PRELOAD
    expect_status 0
    expect_whole output "$LIBRARY:libm.so.6:libdl.so.2:libresolv.so.2"
}

@test "run inside run does not list the library twice" {
    run --separate-stderr "$NS" run -- "$NS" run -- "$NS" run -- printenv LD_PRELOAD
    expect_status 0
    expect_whole output "$LIBRARY"
}

@test "run takes the place of another libnagleshim.so in LD_PRELOAD" {
    mkdir "$T/old"
    cp "$LIBRARY" "$T/old"
    LD_PRELOAD="$T/old/libnagleshim.so:libm.so.6:$LIBRARY" run --separate-stderr "$NS" run -- printenv LD_PRELOAD
    expect_status 0
    expect_whole output "$LIBRARY:libm.so.6"
}

@test "run -p hands the policy on as an absolute path, so that it holds wherever the program goes" {
    policy p '{}'
    cd "$T"
    run --separate-stderr "$NS" run -p p.json -- sh -c 'cd / && printenv NAGLESHIM_POLICY'
    expect_status 0
    expect_whole output "$(realpath "$T")/p.json"
}

@test "run -p says where a broken policy is broken, and runs nothing" {
    local file
    file=$(realpath "$(broken_policy)")
    run --separate-stderr "$NS" run -p "$file" -- touch "$T/ran"
    expect_status 125
    expect_part stderr "nagleshim run: $file:2:21: "
    expect_part stderr "flush-before-read"
    [[ ${#stderr_lines[@]} -eq 1 && ! -e $T/ran ]]
}

@test "run -p says that a policy file is missing, and runs nothing" {
    run --separate-stderr "$NS" run -p "$T/none.json" -- touch "$T/ran"
    expect_status 125
    expect_whole stderr "nagleshim run: $T/none.json: cannot be read: No such file or directory"
    [[ ! -e $T/ran ]]
}

@test "run -p of a pipe says what a policy file must be, and runs nothing" {
    mkfifo "$T/fifo"
    run --separate-stderr "$NS" run -p "$T/fifo" -- touch "$T/ran"
    expect_status 125
    expect_whole stderr "nagleshim run: $T/fifo: cannot be read: it is not a regular file; the JSON itself may be in NAGLESHIM_POLICY"
    run --separate-stderr "$NS" run -p <(echo '{"version": 1, "rules": []}') -- touch "$T/ran"
    expect_status 125
    expect_part stderr ": it is not a regular file; "
    [[ ! -e $T/ran ]]
}

@test "run -p of a directory, or of standard input, says that it is no policy, and runs nothing" {
    run --separate-stderr "$NS" run -p "$T" -- touch "$T/ran"
    expect_status 125
    expect_whole stderr "nagleshim run: $T: cannot be read: Is a directory"
    run --separate-stderr "$NS" run -p - -- touch "$T/ran" <"$(policy p '{}')"
    expect_status 125
    expect_whole stderr "nagleshim run: '-': the policy cannot be read from standard input here; name a file"
    [[ ! -e $T/ran ]]
}

@test "run --policy excludes each of --send, --ack and --max-delay-us" {
    local option file
    file=$(policy p '{}')
    for option in "--send app" "--ack app" "--max-delay-us 100"; do
        # shellcheck disable=SC2086 # two words
        run --separate-stderr "$NS" run $option -p "$file" -- touch "$T/ran"
        expect_status 125
        expect_whole stderr "nagleshim run: --policy cannot be used with --send, --ack or --max-delay-us; write these into the policy file"
        [[ ! -e $T/ran ]]
    done
}

@test "--send, --ack and --max-delay-us make a policy of one rule that check accepts" {
    local expected='{"version":1,"rules":[{"name":"options of nagleshim run","send":"auto-cork","ack":"app","max_delay_us":500}]}'
    run --separate-stderr "$NS" run --send auto-cork --ack app --max-delay-us 500 -- printenv NAGLESHIM_POLICY
    expect_status 0
    expect_whole output "$expected"
    NAGLESHIM_POLICY=$expected run --separate-stderr "$NS" check
    expect_status 0
    expect_whole output "NAGLESHIM_POLICY: valid, 1 rule"
    run --separate-stderr "$NS" run --ack app -- printenv NAGLESHIM_POLICY
    expect_whole output '{"version":1,"rules":[{"name":"options of nagleshim run","ack":"app"}]}'
}

@test "run without options for a policy leaves the environment's as it is" {
    NAGLESHIM_POLICY=relative.json run --separate-stderr "$NS" run -- printenv NAGLESHIM_POLICY
    expect_whole output relative.json
    run --separate-stderr "$NS" run -- printenv NAGLESHIM_POLICY
    expect_status 1
}

@test "run --log sets the level, and knows only the four" {
    local level
    for level in off error info debug; do
        run --separate-stderr "$NS" run --log "$level" -- printenv NAGLESHIM_LOG
        expect_status 0
        expect_whole output "$level"
    done
    run --separate-stderr "$NS" run --log loud -- touch "$T/ran"
    expect_status 125
    expect_whole stderr "nagleshim run: --log must be off, error, info or debug, not 'loud'"
    [[ ! -e $T/ran ]]
}

@test "run names the modes that there are when it is given another" {
    run --separate-stderr "$NS" run --send quick -- touch "$T/ran"
    expect_status 125
    expect_part stderr "nagleshim run: --send must be nodelay, "
    expect_part stderr " or app, not 'quick'"
    run --separate-stderr "$NS" run --ack late -- touch "$T/ran"
    expect_status 125
    expect_whole stderr "nagleshim run: --ack must be before-wait or app, not 'late'"
    [[ ! -e $T/ran ]]
}

@test "--max-delay-us takes 50 to 100000 and nothing else" {
    local delay
    for delay in 50 100000; do
        run --separate-stderr "$NS" run --send auto-cork --max-delay-us "$delay" -- true
        expect_status 0
    done
    for delay in 49 100001 1e3 -5 "" " 60" 60us 99999999999999999999; do
        run --separate-stderr "$NS" run --max-delay-us "$delay" -- touch "$T/ran"
        expect_status 125
        expect_whole stderr "nagleshim run: --max-delay-us must be a number from 50 to 100000, not '$delay'"
        [[ ! -e $T/ran ]]
    done
}

@test "run takes --max-delay-us beside --send auto-cork alone, since nothing else holds bytes" {
    local mode
    for mode in '' nodelay adaptive flush-before-read app; do
        run --separate-stderr "$NS" run ${mode:+--send "$mode"} --max-delay-us 500 -- touch "$T/ran"
        expect_status 125
        expect_whole stderr "nagleshim run: --max-delay-us can only be used with --send auto-cork: no other mode holds bytes"
        [[ ! -e $T/ran ]]
    done
}

@test "run exits 125 with one line for wrong usage" {
    local words expected
    while IFS='|' read -r words expected; do
        # shellcheck disable=SC2086 # several words
        run --separate-stderr "$NS" $words
        expect_status 125
        expect_whole output ""
        expect_whole stderr "nagleshim run: $expected; see 'nagleshim run --help'"
    done <<'CASES'
run|the program is missing
run --|the program is missing
run --log error|the program is missing
run --bogus true|unknown option '--bogus'
run -x true|unknown option '-x'
run -xp true|unknown option '-x'
run -p|-p needs a value
run --send|--send needs a value
CASES
}

@test "run exits 127 for a program that is not found, and says where it looked" {
    run -127 --separate-stderr "$NS" run -- no-such-program
    expect_whole stderr "nagleshim run: cannot find 'no-such-program' in PATH"
    run -127 --separate-stderr "$NS" run -- "$T/no-such-program"
    expect_whole stderr "nagleshim run: cannot run '$T/no-such-program': No such file or directory"
}

@test "run says it when a script is there and its interpreter is not" {
    printf '#!/no/such/interpreter\n' >"$T/script"
    chmod +x "$T/script"
    run -127 --separate-stderr "$NS" run -- "$T/script"
    expect_whole stderr "nagleshim run: cannot run '$T/script': its interpreter is missing"
}

@test "run exits 126 for what is found and cannot be executed" {
    touch "$T/plain"
    run --separate-stderr "$NS" run -- "$T/plain"
    expect_status 126
    expect_whole stderr "nagleshim run: cannot run '$T/plain': Permission denied"
    run --separate-stderr "$NS" run -- "$T"
    expect_status 126
}

@test "run says that NAGLESHIM_OFF switches the shim off, and runs the program" {
    NAGLESHIM_OFF=1 run --separate-stderr "$NS" run -- echo ran
    expect_status 0
    expect_whole output ran
    expect_whole stderr "nagleshim run: warning: NAGLESHIM_OFF is '1' (neither empty nor 0), so the shim is switched off"
    local off
    for off in "" 0; do
        NAGLESHIM_OFF=$off run --separate-stderr "$NS" run -- echo ran
        expect_whole stderr ""
    done
}

@test "run warns of no program that it reaches: an ordinary one, a script, ld.so itself" {
    local loader
    program ordinary "$T/ordinary"
    run --separate-stderr "$NS" run -- "$T/ordinary"
    expect_status 3
    expect_whole stderr ""
    printf '#!/bin/sh\nexit 4\n' >"$T/script"
    chmod +x "$T/script"
    run --separate-stderr "$NS" run -- "$T/script"
    expect_status 4
    expect_whole stderr ""
    loader=$(readelf -l "$T/ordinary" | sed -n 's/.*interpreter: \(.*\)]/\1/p')
    run --separate-stderr "$NS" run -- "$loader" "$T/ordinary"
    expect_status 3
    expect_whole stderr ""
}

@test "run warns of a static program in one line, and runs it" {
    program static "$T/static"
    run --separate-stderr "$NS" run -- "$T/static"
    expect_status 3
    expect_whole stderr "nagleshim run: warning: the shim will not reach $T/static: it is linked statically, so that nothing can be preloaded into it"
}

@test "run warns of a Go program, by its build section or its note, and runs it" {
    local kind
    for kind in go-section go-note; do
        program "$kind" "$T/$kind"
        run --separate-stderr "$NS" run -- "$T/$kind"
        expect_status 3
        expect_whole stderr "nagleshim run: warning: the shim will not reach $T/$kind: it is a Go program, which makes its system calls without libc"
    done
}

@test "run warns of a program for another kind of machine" {
    program other-machine "$T/foreign"
    run --separate-stderr "$NS" run -- "$T/foreign"
    expect_part stderr "nagleshim run: warning: the shim will not reach $T/foreign: it is built for another kind of machine than the shim"
}

@test "run warns of a set-user-ID program of another user, and of none of one's own" {
    local file=$T/setuid
    program ordinary "$file"
    chmod u+s "$file"
    run --separate-stderr "$NS" run -- "$file"
    expect_whole stderr ""
    chown 65533 "$file" 2>/dev/null || cannot_here "only root can give a file away"
    chmod u+s "$file"
    [[ $(findmnt -no OPTIONS -T "$file") != *nosuid* ]] || cannot_here "mounted nosuid"
    run --separate-stderr "$NS" run -- "$file"
    expect_status 3
    expect_whole stderr "nagleshim run: warning: the shim will not reach $file: it is set-user-ID or set-group-ID, and the loader ignores LD_PRELOAD there"
}

@test "run warns an ordinary user of a program with file capabilities" {
    local file=$T/capable
    program ordinary "$file"
    # v2, effective, permitted: CAP_NET_BIND_SERVICE
    python3 -c 'import os, struct, sys
os.setxattr(sys.argv[1], "security.capability", struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0))' "$file" ||
        cannot_here "only root can give capabilities"
    cp "$NS" "$LIBRARY" "$T"
    run --separate-stderr "$T/nagleshim" run -- "$file"
    expect_whole stderr "" # root has them already
    let_others_in "$T"
    run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups "$T/nagleshim" run -- "$file"
    expect_status 3
    expect_whole stderr "nagleshim run: warning: the shim will not reach $file: it has file capabilities, and the loader ignores LD_PRELOAD there"
}

@test "run looks through scripts at their interpreter: by path, by env, and by another script" {
    program static "$T/static"
    printf '#! %s -x\n' "$T/static" >"$T/by-path"
    printf '#!/usr/bin/env static\n' >"$T/by-env"
    printf '#!/usr/bin/env -S VAR=1 static -u\n' >"$T/by-env-split"
    printf '#!/usr/bin/env -Sstatic -u\n' >"$T/by-env-glued"
    printf '#!%s\n' "$T/by-path" >"$T/by-script"
    chmod +x "$T"/by-*
    local script
    for script in by-path by-env by-env-split by-env-glued by-script; do
        PATH=$T:$PATH run --separate-stderr "$NS" run -- "$T/$script"
        expect_status 3
        expect_whole stderr "nagleshim run: warning: the shim will not reach $T/$script: its interpreter $T/static is linked statically, so that nothing can be preloaded into it"
    done
}

@test "run finds the program that it looks at as execvp does: in PATH, which may have empty entries" {
    program static "$T/static"
    cd "$T"
    PATH=/nowhere::/bin:/usr/bin run --separate-stderr "$NS" run -- static
    expect_status 3
    expect_part stderr "the shim will not reach ./static: it is linked statically"
}

@test "help of run that cannot be written is a failure of run" {
    run bash -c '"$0" run --help >/dev/full' "$NS"
    expect_status 125
    expect_part output "nagleshim: cannot write to standard output"
}
