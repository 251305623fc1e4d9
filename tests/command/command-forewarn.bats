#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: `nagleshim run` warns of what lies in the environment before it starts a program, and starts none under a broken library.
# shellcheck disable=SC2016 # what stands in single quotes is for other shells
# shellcheck disable=SC2154 # bats sets $stderr and $stderr_lines
# What `nagleshim run` says before it starts a program. What is wrong with its own words or with the library starts
# nothing and is 125; what lies in the environment is a warning, and the program runs. And where in LD_PRELOAD the
# library comes to stand.

bats_require_minimum_version 1.5.0
load ../helpers/command

setup() {
    command_setup
}

run_touch() {
    rm -f "$T/ran"
    run --separate-stderr "$NS" run "$@" -- touch "$T/ran"
}

# The program ran, and this one line was said.
expect_warning() {
    expect_status 0
    expect_whole output ""
    expect_whole stderr "nagleshim run: warning: $1"
    [[ -e $T/ran ]]
}

expect_nothing() {
    expect_status 0
    expect_whole stderr ""
    [[ -e $T/ran ]]
}

@test "run puts the library before what is preloaded, and behind the sanitizers alone" {
    local old expected
    while read -r old expected; do
        # Read by the command and not by its own loader, to which these files are not there.
        LD_PRELOAD=$old run --separate-stderr "$NS" run -- printenv LD_PRELOAD
        expect_whole output "${expected//OURS/$LIBRARY}"
    done <<'CASES'
/no/libx.so OURS:/no/libx.so
/no/libasan.so.8 /no/libasan.so.8:OURS
/no/libx.so:/no/libtsan.so.2:/no/liby.so /no/libtsan.so.2:OURS:/no/libx.so:/no/liby.so
/no/libubsan.so:/no/libhwasan.so.0:/no/x.so /no/libubsan.so:/no/libhwasan.so.0:OURS:/no/x.so
/no/libclang_rt.asan-x86_64.so:/no/x.so /no/libclang_rt.asan-x86_64.so:OURS:/no/x.so
/no/libartisan.so:/no/asan/libx.so OURS:/no/libartisan.so:/no/asan/libx.so
/no/x.so:/no/libnagleshim.so:/no/libasan.so /no/libasan.so:OURS:/no/x.so
CASES
}

@test "the examples name the library first in LD_PRELOAD" {
    grep -rhE 'LD_PRELOAD[=:]|value: .*libnagleshim' config/systemd config/container examples/lib.bash examples/sidecar/pod.yaml |
        grep libnagleshim >"$T/lines"
    [[ $(wc -l <"$T/lines") -ge 5 ]]
    run grep -E '[^ =]:[^ ]*libnagleshim' "$T/lines"
    expect_whole output ""
    # What builds on what is there keeps it.
    grep -q 'libnagleshim.so${LD_PRELOAD:+:$LD_PRELOAD}' config/container/Containerfile.fragment
    LD_PRELOAD=/no/x.so run --separate-stderr bash -c 'source examples/lib.bash 2>/dev/null; policy="{}" library=ours; shimmed printenv LD_PRELOAD'
    [[ $output == *"ours:/no/x.so" ]]
}

@test "run --policy is run -p" {
    local file
    file=$(realpath "$(policy p '{}')")
    run --separate-stderr "$NS" run --policy "$file" -- printenv NAGLESHIM_POLICY
    expect_status 0
    expect_whole output "$file"
    run --separate-stderr "$NS" explain --policy "$file" --process cat
    expect_part output "tried: $file: taken"
}

@test "run warns of a log file that cannot be written, and of a level that there is not" {
    touch "$T/file"
    NAGLESHIM_LOG_FILE=$T/none/log run_touch
    expect_warning "NAGLESHIM_LOG_FILE '$T/none/log' cannot be written, and what the shim logs is lost: No such file or directory"
    NAGLESHIM_LOG_FILE=$T run_touch
    expect_warning "NAGLESHIM_LOG_FILE '$T' cannot be written, and what the shim logs is lost: Is a directory"
    NAGLESHIM_LOG_FILE=$T/file/log run_touch
    expect_warning "NAGLESHIM_LOG_FILE '$T/file/log' cannot be written, and what the shim logs is lost: Not a directory"
    mkfifo "$T/fifo"
    NAGLESHIM_LOG_FILE=$T/fifo run_touch
    expect_warning "NAGLESHIM_LOG_FILE '$T/fifo' cannot be written, and what the shim logs is lost: No such device or address"
    NAGLESHIM_LOG_FILE=$T/new run_touch
    expect_nothing
    [[ ! -e $T/new ]] # the shim makes it when it has something to say
    cd "$T"
    NAGLESHIM_LOG_FILE=new run_touch
    expect_nothing
    NAGLESHIM_LOG=verbose run --separate-stderr "$NS" run -- touch "$T/ran"
    expect_status 0
    # The library says it, once for each process.
    [[ $(grep -c "NAGLESHIM_LOG must be off, error, info or debug, not 'verbose'; 'error' is used" <<<"$stderr") -eq 1 && $stderr == nagleshim\[* ]]
    # Where that goes to a file somebody is told here.
    NAGLESHIM_LOG=verbose NAGLESHIM_LOG_FILE=$T/log run_touch
    expect_warning "NAGLESHIM_LOG must be off, error, info or debug, not 'verbose'; 'error' is used"
    grep -q "NAGLESHIM_LOG must be off, error, info or debug, not 'verbose'; 'error' is used" "$T/log"
}

@test "run names the variable that was probably meant by one that nothing reads" {
    local name meant
    while read -r name meant; do
        run --separate-stderr env "$name=1" "$NS" run -- true
        expect_status 0
        expect_whole stderr "nagleshim run: warning: $name is set, which nothing reads; is $meant meant?"
    done <<'CASES'
NAGLESHIM_POLCY NAGLESHIM_POLICY
NAGLESHIM_POLICYDIR NAGLESHIM_POLICY_DIR
NAGLESHIM_POLICY_FILE NAGLESHIM_POLICY
NAGLESHIM_LOGFILE NAGLESHIM_LOG_FILE
NAGLESHIM_LOG_LEVEL NAGLESHIM_LOG
NAGELSHIM_OFF NAGLESHIM_OFF
NAGLESHIM_ON NAGLESHIM_OFF
NAGLE_SHIM_LOG NAGLESHIM_LOG
CASES
    run --separate-stderr env nagleshim_off=1 "$NS" run -- true
    expect_whole stderr "nagleshim run: warning: nagleshim_off is set, which nothing reads; it is written NAGLESHIM_OFF"
    run --separate-stderr env NAGLESHIM_LOG=error NAGLESHIM_LOG_FILE="$T/log" NAGLESHIM_OFF=0 NAGLE=1 LOG_FILE=1 \
        NAGLESHIM_SOMETHING_OF_YOURS=1 "$NS" run -- true
    expect_status 0
    expect_whole stderr ""
}

@test "run, check and explain warn of a NAGLESHIM_POLICY_DIR that is no directory" {
    local said="is not a directory, so no policy is taken from it"
    touch "$T/file"
    for directory in /nosuch "$T/file"; do
        NAGLESHIM_POLICY_DIR=$directory run_touch
        expect_warning "NAGLESHIM_POLICY_DIR '$directory' $said"
        NAGLESHIM_POLICY_DIR=$directory run --separate-stderr "$NS" check
        expect_status 0
        expect_whole stderr "nagleshim check: warning: NAGLESHIM_POLICY_DIR '$directory' $said"
        NAGLESHIM_POLICY_DIR=$directory run --separate-stderr "$NS" explain --process cat
        expect_part output "warning: NAGLESHIM_POLICY_DIR '$directory' $said"
    done
    # Of several, one may be missing, but something else there is a mistake; all missing are one, too.
    NAGLESHIM_POLICY_DIR=/nosuch:$T/policies: run_touch
    expect_nothing
    NAGLESHIM_POLICY_DIR=$T/policies:$T/file run_touch
    expect_warning "NAGLESHIM_POLICY_DIR names '$T/file', which is not a directory"
    NAGLESHIM_POLICY_DIR=/nosuch:/nowhere run_touch
    expect_warning "NAGLESHIM_POLICY_DIR '/nosuch:/nowhere' names no directory that is there, so no policy is taken from it"
    # An empty entry is the built-in directory, which is there or not.
    local builtin
    builtin=$("$NS" help environment | sed -nE 's,.*\(default (/[^)]*)\).*,\1,p')
    [[ $builtin == /* ]]
    NAGLESHIM_POLICY_DIR=::: run_touch
    if [[ -d $builtin ]]; then
        expect_nothing
    else
        expect_warning "NAGLESHIM_POLICY_DIR ':::' names no directory that is there (an empty entry is $builtin), so no policy is taken from it"
    fi
    # Where a policy is named nobody looks into it.
    NAGLESHIM_POLICY_DIR=/nosuch run_touch --send app
    expect_nothing
}

@test "run warns of a shell script that drops the shim, and of no other" {
    local body expected
    while IFS='|' read -r body expected; do
        printf '#!/bin/sh\n%b\n' "${body//DIR/$T}" >"$T/script"
        chmod +x "$T/script"
        run --separate-stderr "$NS" run -- "$T/script"
        expect_status 0
        expect_whole stderr "${expected:+nagleshim run: warning: the shim may not reach what $T/script starts: ${expected//DIR/$T}}"
    done <<'CASES'
export LD_PRELOAD=\\nexec true|line 2 of DIR/script sets LD_PRELOAD anew, so that what it starts loses the shim; "LD_PRELOAD=$LD_PRELOAD:..." would keep it
unset LD_PRELOAD|line 2 of DIR/script takes LD_PRELOAD out of the environment
exec env -i true|line 2 of DIR/script starts a program with an environment that has no LD_PRELOAD
exec true|
LD_PRELOAD=$LD_PRELOAD:libm.so.6 true|
CASES
}

@test "run warns of a broken policy that the program would get from the environment" {
    NAGLESHIM_POLICY=$(broken_policy) run_touch
    expect_status 0
    [[ -e $T/ran && ${stderr_lines[0]} == "nagleshim run: warning: the shim will stand aside, its policy is broken or cannot be read: $T/broken.json:2:21: "* ]]
    NAGLESHIM_POLICY=$T/none.json run_touch
    [[ -e $T/ran && ${stderr_lines[0]} == *"cannot be read: $T/none.json: cannot be read: No such file or directory" ]]
    cp "$T/broken.json" "$T/policies/touch.json"
    run_touch
    expect_status 0
    expect_part stderr "nagleshim run: warning: the shim will stand aside, its policy is broken or cannot be read: $T/policies/touch.json:2:21: "
    [[ ${#stderr_lines[@]} -eq 1 && -e $T/ran ]]
    # What is said on the command line comes before it.
    run_touch --send app
    expect_nothing
    run_touch -p "$(policy p '{}')"
    expect_nothing
    NAGLESHIM_OFF=1 run_touch
    expect_warning "NAGLESHIM_OFF is '1' (neither empty nor 0), so the shim is switched off"
}

@test "run warns of the broken policies of other programs in the directory, and names five" {
    local n
    broken_policy >/dev/null
    policy policies/touch '{}'
    cp "$T/broken.json" "$T/policies/other.json"
    cp "$T/broken.json" "$T/policies/other.txt"
    run_touch
    expect_part stderr "nagleshim run: warning: the policy of another program is broken: $T/policies/other.json:2:21: "
    [[ ${#stderr_lines[@]} -eq 1 && -e $T/ran ]]
    rm "$T/policies/touch.json" # the built-in policy
    run_touch
    [[ ${#stderr_lines[@]} -eq 1 && -e $T/ran ]]
    for n in 1 2 3 4 5 6; do
        cp "$T/broken.json" "$T/policies/more$n.json"
    done
    run_touch
    [[ ${#stderr_lines[@]} -eq 6 && -e $T/ran ]]
    expect_part stderr "nagleshim run: warning: 2 more policies in $T/policies are broken; see 'nagleshim check'"
    # A policy that is named is not of the directory.
    NAGLESHIM_POLICY=$(policy p '{}') run_touch
    expect_nothing
}

@test "run warns of a rule that no socket can get, and of a policy that has nothing for the program" {
    local file
    file=$(realpath "$(policy p '{}, {"name": "late", "match": {"role": "client"}}')")
    run_touch -p "$file"
    expect_warning "$file: rule 2 \"late\": never used: rule 1 before it already takes every socket it could match"
    policy p '{"match": {"process": "other"}}' >/dev/null
    run_touch -p "$file"
    expect_warning "$file: no rule is for this program: the shim leaves every socket alone"
    echo '{"version": 1, "enabled": false, "rules": [{}]}' >"$file"
    run_touch -p "$file"
    expect_warning "$file: \"enabled\" is false: the shim leaves every socket alone"
    policy p '{"match": {"process": "touch"}}, {"match": {"process": "other"}}' >/dev/null
    run_touch -p "$file"
    expect_nothing
}

@test "run starts nothing under a library that is empty, cut off, for another machine, or none" {
    local size kind expected
    cp "$NS" "$T/nagleshim"
    # Behind what is loaded there may be much that is not.
    size=$(($(readelf -lW "$LIBRARY" | awk '$1 == "LOAD" { print $2 }' | tail -1) - 4096))
    while IFS='|' read -r kind expected; do
        case $kind in
        empty) : >"$T/libnagleshim.so" ;;
        half) head -c "$size" "$LIBRARY" >"$T/libnagleshim.so" ;;
        header) head -c 100 "$LIBRARY" >"$T/libnagleshim.so" ;;
        text) echo hello >"$T/libnagleshim.so" ;;
        foreign)
            cp "$LIBRARY" "$T/libnagleshim.so"
            printf '\xee\xee' | dd of="$T/libnagleshim.so" bs=1 seek=18 conv=notrunc status=none
            ;;
        esac
        run --separate-stderr "$T/nagleshim" run -- touch "$T/ran"
        expect_status 125
        expected="nagleshim run: the library would not load: $T/libnagleshim.so $expected; install it again"
        # shellcheck disable=SC2053 # a pattern
        [[ $stderr == $expected ]] || {
            seen
            return 1
        }
        [[ ! -e $T/ran ]]
    done <<'CASES'
empty|is empty
half|is cut off: it has * bytes, and needs *
header|is cut off: its program headers are not there
text|is no library
foreign|is built for another kind of machine
CASES
    cp "$LIBRARY" "$T/libnagleshim.so"
    run --separate-stderr "$T/nagleshim" run -- touch "$T/ran"
    expect_status 0
    [[ -e $T/ran ]]
    # The danger that this guards against: the loader maps it, and the program ends.
    head -c "$size" "$LIBRARY" >"$T/half.so"
    run --separate-stderr env LD_PRELOAD="$T/half.so" true
    expect_status 135 # SIGBUS
}
