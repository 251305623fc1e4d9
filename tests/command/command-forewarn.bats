# SPDX-License-Identifier: MIT
# Promise: `nagleshim run` warns of mistakes in the environment before it starts a program, and starts none with a broken library.
# shellcheck disable=SC2086 # $verb is several words

load ../helpers/command

run_touch() {
    rm -f "$T/ran"
    run --separate-stderr "$NS" run "$@" -- touch "$T/ran"
}

# The program ran, and only this line was printed.
expect_warning() {
    expect 0 output is "" stderr is "nagleshim run: warning: $1"
    [[ -e $T/ran ]]
}

expect_nothing() {
    expect 0 stderr is ""
    [[ -e $T/ran ]]
}

@test "the examples name the library first in LD_PRELOAD" {
    grep -rhE 'LD_PRELOAD[=:]|value: .*libnagleshim' config/systemd config/container examples/lib.bash examples/sidecar/pod.yaml |
        grep libnagleshim >"$T/lines"
    [[ $(wc -l <"$T/lines") -ge 5 ]]
    run grep -E '[^ =]:[^ ]*libnagleshim' "$T/lines"
    expect_whole output ""
    # A value that extends the variable keeps its old entries.
    grep -q 'libnagleshim.so${LD_PRELOAD:+:$LD_PRELOAD}' config/container/Containerfile.fragment
    LD_PRELOAD=/no/x.so run --separate-stderr bash -c 'source examples/lib.bash 2>/dev/null; policy="{}" library=ours; shimmed printenv LD_PRELOAD'
    [[ $output == *"ours:/no/x.so" ]]
}

@test "run warns of an unknown level" {
    # The library also reports the level, once for each process.
    NAGLESHIM_LOG=verbose run -0 --separate-stderr "$NS" run -- touch "$T/ran"
    [[ $(grep -c "NAGLESHIM_LOG must be off, error, info or debug, not 'verbose'; 'error' is used" <<<"$stderr") -eq 2 ]]
    NAGLESHIM_LOG=verbose NAGLESHIM_LOG_FILE=$T/log run_touch
    expect_warning "NAGLESHIM_LOG must be off, error, info or debug, not 'verbose'; 'error' is used"
    grep -q "NAGLESHIM_LOG must be off, error, info or debug, not 'verbose'; 'error' is used" "$T/log"
}

@test "run warns of an unknown variable, and names the one that was probably meant" {
    local name meant
    while read -r name meant; do
        run --separate-stderr env "$name=1" "$NS" run -- true
        expect 0 stderr is "nagleshim run: warning: unknown variable $name; ${meant:-see 'nagleshim help'}"
    done <<'CASES'
NAGLESHIM_POLICYDIR did you mean NAGLESHIM_POLICY_DIR?
NAGLESHIM_LOGFILE did you mean NAGLESHIM_LOG_FILE?
NAGLESHIM_LOG_LEVEL did you mean NAGLESHIM_LOG?
NAGLESHIM_SOMETHING
CASES
    run --separate-stderr env NAGLESHIM_LOG=error NAGLESHIM_LOG_FILE="$T/log" NAGLESHIM_OFF=0 NAGLE=1 LOG_FILE=1 "$NS" run -- true
    expect 0 stderr is ""
}

@test "run, check, doctor and host warn of policy directories of which none exists" {
    local verb said="warning: NAGLESHIM_POLICY_DIR is '/nowhere:$T/none', which does not exist: every program gets the built-in policy"
    for verb in "run -- true" check "doctor cat"; do
        NAGLESHIM_POLICY_DIR=/nowhere:$T/none run "$NS" $verb
        expect 0 output has "$said"
        # The control: one of them exists, or the policy is named.
        NAGLESHIM_POLICY_DIR=/nowhere:$T run "$NS" $verb
        expect 0 output lacks "does not exist"
        NAGLESHIM_POLICY='{"version": 1, "rules": [{}]}' NAGLESHIM_POLICY_DIR=/nowhere run "$NS" $verb
        expect 0 output lacks "does not exist"
    done
    NAGLESHIM_POLICY_DIR=/nowhere:$T/none run "$NS" host status
    expect_part output "nagleshim host: $said"
}

@test "run, check, doctor and host warn of a policy directory that is a file" {
    local verb list said="warning: NAGLESHIM_POLICY_DIR has '$T/default.json', which is not a directory; NAGLESHIM_POLICY names a file"
    echo '{"version": 1, "rules": [{}]}' >"$T/default.json"
    for list in "$T/default.json" "$T/policies:$T/default.json"; do
        NAGLESHIM_POLICY_DIR=$list run_touch
        expect_warning "${said#warning: }"
        for verb in check "doctor cat" "host status"; do
            NAGLESHIM_POLICY_DIR=$list run "$NS" $verb
            expect_part output "$said"
        done
    done
    # The control: its directory, and a policy that is named.
    NAGLESHIM_POLICY_DIR=$T run_touch
    expect_nothing
    NAGLESHIM_POLICY=$T/default.json NAGLESHIM_POLICY_DIR=$T/default.json run_touch
    expect_nothing
}

@test "run, check, doctor and host warn of a log file that cannot be written" {
    local verb file why
    mkdir "$T/folder"
    touch "$T/file"
    while read -r file why; do
        NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE=$file run_touch
        expect_warning "NAGLESHIM_LOG_FILE is '$file', which cannot be written: $why: the log is lost"
        for verb in check "doctor cat" "host status"; do
            NAGLESHIM_LOG_FILE=$file run "$NS" $verb
            expect_part output "warning: NAGLESHIM_LOG_FILE is '$file', which cannot be written: $why: the log is lost"
        done
    done <<CASES
$T/nowhere/log No such file or directory
$T/folder Is a directory
$T/file/log Not a directory
CASES
    # The control: the file is made, added to, or is a device.
    for file in "$T/new.log" "$T/new.log" /dev/null; do
        NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE=$file run_touch
        expect_nothing
    done
    cd "$T"
    NAGLESHIM_LOG_FILE=relative.log run_touch
    expect_nothing
    [[ ! -e relative.log ]]
}

@test "run warns of a broken policy that the program would get from the environment" {
    NAGLESHIM_POLICY=$(broken_policy) run_touch
    expect_status 0
    [[ -e $T/ran && ${stderr_lines[0]} == "nagleshim run: warning: the library does nothing, because its policy is broken or cannot be read: $T/broken.json:2:21: "* ]]
    NAGLESHIM_POLICY=$T/none.json run_touch
    [[ -e $T/ran && ${stderr_lines[0]} == *"cannot be read: $T/none.json: cannot be read: No such file or directory" ]]
    cp "$T/broken.json" "$T/policies/touch.json"
    run_touch
    expect 0 stderr has "nagleshim run: warning: the library does nothing, because its policy is broken or cannot be read: $T/policies/touch.json:2:21: "
    [[ ${#stderr_lines[@]} -eq 1 && -e $T/ran ]]
    # Options on the command line take precedence.
    run_touch --send app
    expect_nothing
    run_touch -p "$(policy p '{}')"
    expect_nothing
}

@test "run warns of a policy that is disabled or has no rule for the program" {
    local file
    file=$(realpath "$(policy p '{"match": {"process": "other"}}')")
    run_touch -p "$file"
    expect_warning "$file: no rule is for touch: the library leaves its sockets alone; programs that it starts may have a rule"
    echo '{"version": 1, "enabled": false, "rules": [{}]}' >"$file"
    run_touch -p "$file"
    expect_warning "$file: \"enabled\" is false: the library leaves every socket alone"
    policy p '{"match": {"process": "touch"}}, {"match": {"process": "other"}}' >/dev/null
    run_touch -p "$file"
    expect_nothing
}

@test "run starts nothing with a truncated library" {
    local size
    cp "$NS" "$T/nagleshim"
    # Much of the file, for example debug information, is not loaded.
    size=$(($(readelf -lW "$LIBRARY" | awk '$1 == "LOAD" { print $2 }' | tail -1) - 4096))
    head -c "$size" "$LIBRARY" >"$T/libnagleshim.so"
    run -125 --separate-stderr "$T/nagleshim" run -- touch "$T/ran"
    [[ $stderr == "nagleshim run: the library would not load: $T/libnagleshim.so is truncated: it has $size bytes and needs "*"; install it again" ]]
    [[ ! -e $T/ran ]]
    # The control: the loader maps the truncated file, and the program is killed.
    run --separate-stderr env LD_PRELOAD="$T/libnagleshim.so" true
    expect_status 135 # SIGBUS
}
