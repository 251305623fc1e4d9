# SPDX-License-Identifier: MIT
# Promise: `nagleshim run` starts a program as it would start by itself, with library and policy in place, or says why not.

load ../helpers/command

# The program was not started, and one line gives the reason.
expect_not_started() {
    expect 125 output is ""
    [[ $stderr == "nagleshim run: "$1 && ! -e $T/ran ]] || unexpected "expected: $1"
}

@test "run becomes the program: same process, arguments, standard input, descriptors, exit status and signal" {
    local expected=$T/expected
    run --separate-stderr bash -c 'echo $$; exec "$0" run -- bash -c "echo \$\$"' "$NS"
    [[ ${#lines[@]} -eq 2 && ${lines[0]} == "${lines[1]}" ]]
    printf '<%s>' "" "a  b" $'x\ny' --send -p '$HOME' '*' -- >"$expected"
    "$NS" run --log error -- printf '<%s>' "" "a  b" $'x\ny' --send -p '$HOME' '*' -- >"$T/actual"
    cmp "$expected" "$T/actual"
    head -c 300000 /dev/urandom >"$T/data"
    "$NS" run -p "$(policy p '{}')" -- cat <"$T/data" >"$T/copy"
    cmp "$T/data" "$T/copy"
    ls /proc/self/fd >"$T/without"
    "$NS" run -p "$(policy p '{}')" -- ls /proc/self/fd >"$T/with"
    diff "$T/without" "$T/with"
    run -7 "$NS" run -- sh -c 'exit 7'
    run -143 "$NS" run -- sh -c 'kill -TERM $$'
}

@test "options of run end at the first word that is not an option, and at --" {
    run --separate-stderr "$NS" run --log error printf '%s' --ack
    expect 0 output is --ack
    run -127 --separate-stderr "$NS" run -- --help
    expect_whole stderr "nagleshim run: cannot find '--help' in PATH"
}

@test "run preloads the library beside the command, by its full path" {
    run --separate-stderr "$NS" run -- printenv LD_PRELOAD
    expect 0 output is "$LIBRARY"
    run -0 --separate-stderr "$NS" run -- grep -c "$LIBRARY" /proc/self/maps
    run -1 --separate-stderr grep -c "$LIBRARY" /proc/self/maps
}

@test "run finds the library in ../lib, and exits with 125 if no library is there" {
    mkdir -p "$T/inst/bin" "$T/inst/lib"
    cp "$NS" "$T/inst/bin"
    cp "$LIBRARY" "$T/inst/lib"
    run --separate-stderr "$T/inst/bin/nagleshim" run -- printenv LD_PRELOAD
    expect 0 output is "$T/inst/lib/libnagleshim.so"
    rm "$T/inst/lib/libnagleshim.so"
    [[ ! -e /usr/local/lib/libnagleshim.so ]] || cannot_here "the library is installed"
    run --separate-stderr "$T/inst/bin/nagleshim" run -- touch "$T/ran"
    expect_not_started "cannot find libnagleshim.so beside this command, in ../lib or in *"
}

@test "run says that a library whose path has a space, a colon or a dollar sign cannot be preloaded" {
    local name
    for name in "a b" a:b 'a$LIB' $'a\tb'; do
        mkdir "$T/$name"
        cp "$NS" "$LIBRARY" "$T/$name"
        run --separate-stderr "$T/$name/nagleshim" run -- touch "$T/ran"
        expect 125 stderr is "nagleshim run: '$T/${name/$'\t'/?}/libnagleshim.so' cannot be written in LD_PRELOAD: its path must have no space, colon or dollar sign"
        [[ ! -e $T/ran ]]
    done
}

@test "run puts the library once in front of LD_PRELOAD, and only the sanitizers stay before it" {
    local old expected
    while read -r old expected; do
        # The variable is set for the command only, because its own loader would not find these files.
        LD_PRELOAD=${old//+/ } run --separate-stderr "$NS" run -- printenv LD_PRELOAD
        expect_whole output "${expected//OURS/$LIBRARY}"
    done <<'CASES'
/no/libx.so OURS:/no/libx.so
libm.so.6+libdl.so.2:libresolv.so.2 OURS:libm.so.6:libdl.so.2:libresolv.so.2
/no/libasan.so.8 /no/libasan.so.8:OURS
/no/libx.so:/no/libtsan.so.2:/no/liby.so /no/libtsan.so.2:OURS:/no/libx.so:/no/liby.so
/no/libubsan.so:/no/libhwasan.so.0:/no/x.so /no/libubsan.so:/no/libhwasan.so.0:OURS:/no/x.so
/no/libclang_rt.asan-x86_64.so:/no/x.so /no/libclang_rt.asan-x86_64.so:OURS:/no/x.so
/no/libartisan.so:/no/asan/libx.so OURS:/no/libartisan.so:/no/asan/libx.so
/no/x.so:/no/libnagleshim.so:/no/libasan.so /no/libasan.so:OURS:/no/x.so
CASES
    run --separate-stderr "$NS" run -- "$NS" run -- "$NS" run -- printenv LD_PRELOAD
    expect_whole output "$LIBRARY"
}

@test "run, diagnose and compare start a program that is linked with AddressSanitizer" {
    local verb
    echo '#include <stdio.h>
        #include <stdlib.h>
        int main(void) { return getenv("LD_PRELOAD") && puts(getenv("LD_PRELOAD")) < 0; }' |
        gcc -fsanitize=address -x c -o "$T/checked" - || ns_skip "no libasan"
    # The control: the runtime refuses another library before it.
    run env LD_PRELOAD="$LIBRARY" "$T/checked"
    [[ $status -ne 0 && $output == *"ASan runtime does not come first"* ]]
    run --separate-stderr "$NS" run -- "$T/checked"
    expect 0 output has "libasan.so" output has ":$LIBRARY" stderr is ""
    for verb in diagnose 'compare --runs 5'; do
        # shellcheck disable=SC2086 # words
        run --separate-stderr "$NS" $verb -- "$T/checked"
        expect 0 stderr lacks ASan
    done
}

@test "run -p passes an absolute path, so that the policy is found from every directory" {
    policy p '{}'
    cd "$T"
    run --separate-stderr "$NS" run --policy p.json -- sh -c 'cd / && printenv NAGLESHIM_POLICY'
    expect 0 output is "$(realpath "$T")/p.json"
}

@test "run -p starts nothing if the policy is broken, missing, or not a regular file" {
    local file said
    broken_policy >/dev/null
    mkfifo "$T/fifo"
    while IFS='|' read -r file said; do
        run --separate-stderr "$NS" run -p "${file/#DIR/$T}" -- touch "$T/ran"
        expect_not_started "${said//DIR/$T}"
    done <<'CASES'
DIR/broken.json|*/broken.json:2:21: *flush-before-read*
DIR/none.json|DIR/none.json: cannot be read: No such file or directory
DIR/fifo|DIR/fifo: cannot be read: it is not a regular file; the JSON itself may be in NAGLESHIM_POLICY
DIR|DIR: cannot be read: it is not a regular file; the JSON itself may be in NAGLESHIM_POLICY
-|-: cannot be read: No such file or directory
CASES
}

@test "--send, --ack and --max-delay-us make a policy of one rule that check accepts" {
    local expected='{"version":1,"rules":[{"name":"options of nagleshim run","send":"auto-cork","ack":"app","max_delay_us":500}]}'
    run --separate-stderr "$NS" run --send auto-cork --ack app --max-delay-us 500 -- printenv NAGLESHIM_POLICY
    expect 0 output is "$expected"
    NAGLESHIM_POLICY=$expected run --separate-stderr "$NS" check
    expect 0 output is "NAGLESHIM_POLICY: valid, 1 rule"
    run --separate-stderr "$NS" run --ack app -- printenv NAGLESHIM_POLICY
    expect_whole output '{"version":1,"rules":[{"name":"options of nagleshim run","ack":"app"}]}'
}

@test "run without options keeps the environment's policy, and --log sets the level" {
    NAGLESHIM_POLICY=relative.json run --separate-stderr "$NS" run -- printenv NAGLESHIM_POLICY
    expect_whole output relative.json
    run -1 --separate-stderr "$NS" run -- printenv NAGLESHIM_POLICY
    run --separate-stderr "$NS" run --log debug -- printenv NAGLESHIM_LOG
    expect_whole output debug
}

@test "run takes a delay from 50 to 100000, with --send auto-cork" {
    local delay
    for delay in 49 100001 1e3 -5 "" " 60" 60us 99999999999999999999; do
        run --separate-stderr "$NS" run --max-delay-us "$delay" -- touch "$T/ran"
        expect_not_started "--max-delay-us must be a number from 50 to 100000, not '$delay'"
    done
    for delay in 50 100000; do
        run -0 --separate-stderr "$NS" run --send auto-cork --max-delay-us "$delay" -- true
    done
}

@test "run exits 127 for a program that is not found, and 126 for one that cannot be executed" {
    local word expected said
    printf '#!/no/such/interpreter\n' >"$T/script"
    chmod +x "$T/script"
    touch "$T/plain"
    gcc -x c -o "$T/loader" -Wl,--dynamic-linker=/no/such/ld-linux.so.2 - <<<'int main(void) { return 0; }'
    while IFS='|' read -r word expected said; do
        run -"$expected" --separate-stderr "$NS" run -- "${word/#DIR/$T}"
        expect_whole stderr "nagleshim run: ${said/DIR/$T}"
    done <<'CASES'
no-such-program|127|cannot find 'no-such-program' in PATH
DIR/no-such-program|127|cannot run 'DIR/no-such-program': No such file or directory
DIR/script|127|cannot run 'DIR/script': /no/such/interpreter is missing
DIR/loader|127|cannot run 'DIR/loader': /no/such/ld-linux.so.2 is missing
DIR/plain|126|cannot run 'DIR/plain': Permission denied
DIR|126|cannot run 'DIR': Permission denied
CASES
}

@test "run does not say that a program is missing whose loader is, and which may be executed but not read" {
    "${as_other[@]}" true 2>/dev/null || cannot_here "only root can be another user"
    cp "$NS" "$LIBRARY" "$T"
    gcc -x c -o "$T/loader" -Wl,--dynamic-linker=/no/such/ld-linux.so.2 - <<<'int main(void) { return 0; }'
    chmod 0711 "$T/loader"
    let_others_in "$T"
    run -127 --separate-stderr "${as_other[@]}" "$T/nagleshim" run -- "$T/loader"
    expect_whole stderr "nagleshim run: cannot run '$T/loader': its interpreter or loader is missing"
}

@test "run says that NAGLESHIM_OFF switches the library off, and runs the program" {
    NAGLESHIM_OFF=1 run --separate-stderr "$NS" run -- echo ran
    expect 0 output is ran
    expect_whole stderr "nagleshim run: warning: NAGLESHIM_OFF is '1' (neither empty nor 0), so the library is switched off"
    local off
    for off in "" 0; do
        NAGLESHIM_OFF=$off run --separate-stderr "$NS" run -- echo ran
        expect_whole stderr ""
    done
}

@test "run prints no warning for a program that can be reached: an ordinary one, a script, ld.so itself" {
    local loader
    program ordinary "$T/ordinary"
    run --separate-stderr "$NS" run -- "$T/ordinary"
    expect 3 stderr is ""
    printf '#!/bin/sh\nexit 4\n' >"$T/script"
    chmod +x "$T/script"
    run --separate-stderr "$NS" run -- "$T/script"
    expect 4 stderr is ""
    loader=$(readelf -l "$T/ordinary" | sed -n 's/.*interpreter: \(.*\)]/\1/p')
    run --separate-stderr "$NS" run -- "$loader" "$T/ordinary"
    expect 3 stderr is ""
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
    expect 3 stderr is "nagleshim run: warning: the library will not reach $file: it has file capabilities, and the loader ignores LD_PRELOAD there; 'nagleshim cure' changes its sockets"
}

@test "run warns of a static program and of scripts for it: by path, by env, and by another script" {
    local script
    program static "$T/static"
    PATH=$T:$PATH run --separate-stderr "$NS" run -- static
    expect 3 stderr is "nagleshim run: warning: the library will not reach $T/static: it is linked statically, so that nothing can be preloaded into it; 'nagleshim cure' changes its sockets"
    printf '#! %s -x\n' "$T/static" >"$T/by-path"
    printf '#!/usr/bin/env static\n' >"$T/by-env"
    printf '#!/usr/bin/env -S VAR=1 static -u\n' >"$T/by-env-split"
    printf '#!/usr/bin/env -Sstatic -u\n' >"$T/by-env-glued"
    printf '#!%s\n' "$T/by-path" >"$T/by-script"
    chmod +x "$T"/by-*
    for script in by-path by-env by-env-split by-env-glued by-script; do
        PATH=$T:$PATH run --separate-stderr "$NS" run -- "$T/$script"
        expect 3 stderr is "nagleshim run: warning: the library will not reach $T/$script: its interpreter $T/static is linked statically, so that nothing can be preloaded into it; 'nagleshim cure' changes its sockets"
    done
    # An empty entry of PATH is the current directory.
    cd "$T"
    PATH=/nowhere::/bin:/usr/bin run --separate-stderr "$NS" run -- static
    expect_part stderr "the library will not reach ./static: it is linked statically"
}
