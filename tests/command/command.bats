# SPDX-License-Identifier: MIT
# Promise: The command prints its version and help, and check validates policies.
# policies.table has the messages of the policy parser; here is how check prints them.

load ../helpers/command

@test "version, -V and --version print the version that the Makefile names" {
    local version word
    version=$(sed -n 's/^VERSION := //p' Makefile)
    for word in version -V --version; do
        run --separate-stderr "$NS" "$word"
        expect 0 output is "nagleshim $version"
    done
}

@test "every subcommand prints its help on stdout, by --help and by help" {
    local command commands by_option
    mapfile -t commands < <(sed -n 's/^NS_VERB(\([a-z]*\),.*/\1/p' shim/cli/verbs.def)
    [[ ${#commands[@]} -ge 12 ]]
    for command in "${commands[@]}"; do
        run --separate-stderr "$NS" "$command" --help
        expect 0 stderr is "" output has "usage: nagleshim $command"
        by_option=$output
        run --separate-stderr "$NS" "$command" -h
        expect 0 output is "$by_option"
        run --separate-stderr "$NS" help "$command"
        expect 0 output is "$by_option"
    done
    run --separate-stderr "$NS" --help
    expect 0 output has "usage: nagleshim COMMAND"
    by_option=$output
    run --separate-stderr "$NS" -h
    expect 0 output is "$by_option"
}

@test "on a terminal of 40 columns the help is broken between words" {
    local words
    ns_python
    for words in help "help run" "help host" "top --help"; do
        # shellcheck disable=SC2086 # several words
        "$python" -c 'import pty, sys; pty.spawn(["sh", "-c", "stty cols 40; exec \"$@\"", "sh", *sys.argv[1:]])' \
            "$NS" $words >"$T/seen" </dev/null
        grep -q "nagleshim" "$T/seen"
        # Only a long word, as a path, goes beyond the edge.
        [[ -z $(tr -d '\r' <"$T/seen" | awk 'length($0) > 40 && NF > 1') ]]
    done
}

@test "--help after other options prints the help, too" {
    run --separate-stderr "$NS" run --send app --help
    expect 0 output has "usage: nagleshim run"
    run --separate-stderr "$NS" explain --role client --help
    expect 0 output has "usage: nagleshim explain"
    run --separate-stderr "$NS" check x --help
    expect 0 output has "usage: nagleshim check"
}

@test "without a subcommand three examples go to stderr, and the status is 2" {
    local verb
    run --separate-stderr "$NS"
    expect 2 output is "" stderr has "nagleshim help"
    [[ ${#stderr_lines[@]} -eq 4 ]] || unexpected
    for verb in diagnose run cure; do
        [[ $stderr == *"  nagleshim $verb -"* ]] || unexpected
    done
}

@test "the help begins with diagnose, run and cure" {
    run --separate-stderr "$NS" help
    [[ ${lines[3]} == "  diagnose "* && ${lines[4]} == "  run "* && ${lines[5]} == "  cure "* ]] || unexpected
}

@test "an invalid command line of any verb gives one message, and starts and writes nothing" {
    local verb words message before table
    table=$(cat <<'CASES'
|frobnicate|unknown command 'frobnicate'; see 'nagleshim help'
|diagnoze|unknown command 'diagnoze'; did you mean diagnose?
|docotr|unknown command 'docotr'; did you mean doctor?
|--frobnicate|unknown option '--frobnicate'; see 'nagleshim help'
version|2|unexpected word '2'; HELP
help|frobnicate|unknown command 'frobnicate'; see 'nagleshim help'
help|run check|'check': only one command may be named
check|--jsn|unknown option '--jsn'; did you mean --json?
check|--frobnicate|unknown option '--frobnicate'; HELP
check|--help=yes|--help=yes: this option takes no value
check|--dir --json|--dir must be a file, not '--json'; for a file of this name write ./--json
explain|--local=|--local must be ADDR:PORT, not ''
explain|--max-delay-us=1|unknown option '--max-delay-us=1'; HELP
explain|-xy|unknown option '-x'; HELP
explain|--role|--role needs a value; HELP
explain|cat --role client|--role after the program is the program's argument; write it before
explain|--role client|the program is missing; HELP
explain|--role peer cat|--role must be client or server, not 'peer'
doctor||name one of a program, --pid, --unit, --cgroup, --port and --all; HELP
doctor|--|name one of a program, --pid, --unit, --cgroup, --port and --all; HELP
doctor|-p|unknown option '-p'; HELP
doctor|--pid|--pid needs a value; HELP
doctor|--pid 1 cat|name one of a program, --pid, --unit, --cgroup, --port and --all; HELP
doctor|--all cat|name one of a program, --pid, --unit, --cgroup, --port and --all; HELP
doctor|--all --pid 1|name one of a program, --pid, --unit, --cgroup, --port and --all; HELP
doctor|--pid=|--pid must be a process id, not ''
doctor|--pid 0|--pid must be a process id, not '0'
doctor|--pid 1x|--pid must be a process id, not '1x'
doctor|--pid 99999999999999999999|--pid must be a process id, not '99999999999999999999'
doctor|--pid 2147483647|there is no process 2147483647
doctor|no-such-program|cannot find 'no-such-program' in PATH
doctor|4711|cannot find '4711' in PATH; for the process with this number write --pid 4711
doctor|DIR/none|'DIR/none': No such file or directory
doctor|DIR|'DIR' is a directory, not a program
doctor|/dev/null|'/dev/null' is a special file, not a program
doctor|DIR/plain|'DIR/plain' is not executable: Permission denied
diagnose|--json=-- touch DIR/ran|--json must be a file, not '--'; for a file of this name write ./--
diagnose|--json= touch DIR/ran|--json must be FILE, not ''
diagnose|--html -- touch DIR/ran|--html must be a file, not '--'; for a file of this name write ./--
diagnose||name a program, --pid, --unit, --cgroup, --port or --all; HELP
diagnose|--pid x|--pid must be a process id, not 'x'
diagnose|--pid 2147483647|there is no process 2147483647
diagnose|--pid 1 --all|a program, running processes and --all: only one of them can be watched
diagnose|--for 0 -- echo no|--for must be seconds from 0.1 to 1000000, not '0'
diagnose|--for 1e3 -- echo no|--for must be seconds from 0.1 to 1000000, not '1e3'
diagnose|--fail-on maybe -- echo no|--fail-on must be likely or proven, not 'maybe'
diagnose|--max-lost-ms -1 -- echo no|--max-lost-ms must be milliseconds from 0 to 1000000000, not '-1'
diagnose|--experiment both -- echo no|--experiment must be push or acknowledge, not 'both'
diagnose|--experiment push --all|--experiment needs a program to start, and excludes --outside
diagnose|--html /nowhere/x.html -- echo no|cannot write '/nowhere/x.html': No such file or directory
diagnose|--json=DIR/o --html DIR/./o -- echo no|'DIR/./o' is named by two options; name a file of its own for each
diagnose|--josn x -- echo no|unknown option '--josn'; did you mean --json?
run||the program is missing; HELP
run|--|the program is missing; HELP
run|--log error|the program is missing; HELP
run|-xp touch DIR/ran|unknown option '-x'; HELP
run|-p|-p needs a value; HELP
run|--policy= touch DIR/ran|--policy must be FILE, not ''
run|--send|--send needs a value; HELP
run|--log loud touch DIR/ran|--log must be off, error, info or debug, not 'loud'
run|--send quick touch DIR/ran|--send must be nodelay, auto-cork, adaptive, flush-before-read or app, not 'quick'
run|--ack late touch DIR/ran|--ack must be before-wait or app, not 'late'
run|--send app -p DIR/p.json touch DIR/ran|--policy cannot be used with --send, --ack or --max-delay-us; write these into the policy file
run|--ack app -p DIR/p.json touch DIR/ran|--policy cannot be used with --send, --ack or --max-delay-us; write these into the policy file
run|--max-delay-us 500 touch DIR/ran|--max-delay-us can only be used with --send auto-cork: no other mode holds bytes
run|--max-delay-us 500 --send nodelay touch DIR/ran|--max-delay-us can only be used with --send auto-cork: no other mode holds bytes
compare||no program is named; HELP
compare|--runs 1 -- true|--runs must be a number from 5 to 1000, not '1'
compare|--runs x -- true|--runs must be a number from 5 to 1000, not 'x'
compare|-p /nowhere/p.json -- true|/nowhere/p.json: cannot be read: No such file or directory
top|--prometheus=|--prometheus must be FILE, not ''
top|--interval 0|--interval must be seconds from 0.5 to 3600, not '0'
top|--interval x|--interval must be seconds from 0.5 to 3600, not 'x'
top|--interval 0x1|--interval must be seconds from 0.5 to 3600, not '0x1'
top|--pid +5|--pid must be a process id, not '+5'
top|--pid 4194304|there is no process 4194304
top|--once more|unexpected word 'more'; HELP
top|--twice|unknown option '--twice'; HELP
top|--prometheus DIR/none/x|cannot write 'DIR/none/x': No such file or directory
top|--prometheus DIR/fifo|--prometheus must be a regular file or -, not 'DIR/fifo'
top|4711|unexpected word '4711'; did you mean --pid 4711?
cure||say which sockets: --unit NAME, --cgroup GROUP, --pid N, --port N or --all
cure|--all --port 1|use one of --unit, --cgroup, --all, --pid and --port
cure|--port 0|--port must be a number from 1 to 65535, not '0'
cure|--undo|say what to restore: --unit NAME, --cgroup GROUP, --pid N, --port N or --all
cure|--undo --all --follow|--undo cannot be used with --follow or --for
cure|--undo --all --for 1|--undo cannot be used with --follow or --for
cure|--pid 1 --for 1 --dry-run|--for cannot be used with --dry-run
cure|--list --all|--list shows all that is in force, and takes no option but --json
cure|--list --undo|--list shows all that is in force, and takes no option but --json
cure|--undo --all --policy x|--undo restores what was changed and takes no policy
cure|--all x|unexpected word 'x'; HELP
cure|4711|unexpected word '4711'; did you mean --pid 4711?
cure|--pid 4194303|there is no process 4194303
cure|--unit no-such|there is no control group of the unit 'no-such'
cure|--cgroup no-such|there is no control group 'no-such'
cure|--cgroup cgrou|there is no control group 'cgrou'
cure|--cgroup unifie|there is no control group 'unifie'
host||host must be followed by enable, disable or status; HELP
host|frobnicate|'frobnicate': host must be followed by enable, disable or status; HELP
demo|--client 65536|--client must be a number from 1 to 65535, not '65536'
demo|now|unexpected word 'now'; HELP
CASES
)
    diff <(sed -n 's/^NS_VERB(\([a-z]*\),.*/\1/p' shim/cli/verbs.def | sort) <(cut -d '|' -f 1 <<<"$table" | sed '/^$/d' | sort -u)
    mkdir "$T/here"
    cd "$T/here"
    policy here/p '{}' >/dev/null
    touch plain
    mkfifo fifo
    before=$(find . | sort)
    while IFS='|' read -r verb words message; do
        # shellcheck disable=SC2086 # words
        run --separate-stderr "$NS" $verb ${words//DIR/$PWD}
        message=${message//HELP/see \'nagleshim $verb --help\'}
        expect "$([[ $verb == run ]] && echo 125 || echo 2)" output is "" stderr is "nagleshim${verb:+ $verb}: ${message//DIR/$PWD}"
    done <<<"$table"
    [[ $(find . | sort) == "$before" ]]
}

@test "a file may be called --" {
    cd "$T"
    "$NS" diagnose --json=./-- -- touch ran
    [[ -s -- && -e ran ]]
}

@test "a full disk at standard output is a failure" {
    local words
    policy p '{}'
    for words in version help "check $T/p.json" "explain -p $T/p.json x" "run --help"; do
        run bash -c '"$0" $1 >/dev/full' "$NS" "$words"
        expect "$([[ $words == run* ]] && echo 125 || echo 2)" output has "nagleshim: cannot write to standard output"
    done
}

@test "check warns of valid rules that are probably wrong, and exits 0" {
    run --separate-stderr "$NS" check "$(policy p '{}, {"name": "quotes", "match": {"role": "client"}, "ack": "app"}, {}')"
    expect 0 output is "$T/p.json: valid, 3 rules"
    expect_part stderr "$T/p.json: warning: rule 2 \"quotes\": only writes are treated"
    expect_part stderr "$T/p.json: warning: rule 3: never used"
    echo '{"version": 1, "enabled": false, "rules": []}' >"$T/off.json"
    run --separate-stderr "$NS" check "$T/off.json"
    expect 0 stderr has "$T/off.json: warning: \"enabled\" is false"
    expect_whole output "$T/off.json: valid, 0 rules, not enabled: every socket is left alone"
}

@test "check exits 2 for a file that it cannot read" {
    run --separate-stderr "$NS" check ""
    expect 2 stderr is "'': cannot be read: No such file or directory"
    run --separate-stderr "$NS" check "$T"
    expect 2 stderr has "$T: cannot be read"
}

@test "check validates every file and exits with the worst status" {
    local good bad
    good=$(policy good '{}')
    bad=$(broken_policy)
    run --separate-stderr "$NS" check "$bad" "$good"
    expect 1 output is "$good: valid, 1 rule"
    run --separate-stderr "$NS" check "$T/none.json" "$bad" "$good"
    expect 2 output is "$good: valid, 1 rule" stderr has "$bad:2:21: " stderr has "$T/none.json: cannot be read"
}

@test "check without a file validates every policy that a program could get: built in, from the directory, from the environment" {
    local builtin="no default.json in $T/policies: programs without a file of their own get the built-in policy (send adaptive, ack before-wait, every TCP socket)"
    run --separate-stderr "$NS" check
    expect 0 output is "$builtin"
    policy policies/nagleshim '{}, {}, {}'
    cp "$(broken_policy)" "$T/policies/.hidden.json"
    cp "$T/broken.json" "$T/policies/other.txt"
    run --separate-stderr "$NS" check
    expect 0 output is "$T/policies/nagleshim.json: valid, 3 rules
$builtin"
    policy policies/default '{}'
    run --separate-stderr "$NS" check
    expect 0 output is "$T/policies/default.json: valid, 1 rule
$T/policies/nagleshim.json: valid, 3 rules"
    cp "$T/broken.json" "$T/policies/cli.json"
    run --separate-stderr "$NS" check
    expect 1 stderr has "$T/policies/cli.json:2:21: " output has "$T/policies/nagleshim.json: valid, 3 rules"
    rm "$T/policies/default.json"
    run --separate-stderr "$NS" check
    expect 1 output has "$builtin"
    NAGLESHIM_POLICY=$(policy named '{"match": {"role": "client"}}, {}') run --separate-stderr "$NS" check
    expect 0 output is "$T/named.json: valid, 2 rules"
    NAGLESHIM_POLICY=' {"version": 1, "rules": [{}]}' run --separate-stderr "$NS" check
    expect 0 output is "NAGLESHIM_POLICY: valid, 1 rule"
}

@test "check without a file reports errors in the policy of the environment, and that the library is switched off" {
    NAGLESHIM_POLICY='{"version": 2, "rules": []}' run --separate-stderr "$NS" check
    expect 1 stderr has "NAGLESHIM_POLICY:1:13: "
    NAGLESHIM_POLICY=$T/none.json run --separate-stderr "$NS" check
    expect 2 stderr has "$T/none.json: cannot be read"
    NAGLESHIM_OFF=1 run --separate-stderr "$NS" check
    expect 0 stderr is "nagleshim check: warning: NAGLESHIM_OFF is '1' (neither empty nor 0), so the library is switched off"
}

@test "without memory the command says so and ends with status 2, also after it has read a policy" {
    local at last=0 broken
    broken=$(broken_policy)
    for at in {1..60}; do
        LD_PRELOAD=$PROBES/faults.so FAULT_CALL=allocation FAULT_AT=$at run --separate-stderr "$NS" check --json "$broken"
        [[ $status -eq 1 ]] || expect 2 output is "" stderr is "nagleshim: there is no memory left"
        [[ $status -eq 1 ]] || last=$at
    done
    # The last ones are those of the output, and all of them are tested.
    [[ $last -gt 20 && $last -lt 60 ]] || unexpected "the last allocation is $last"
}
