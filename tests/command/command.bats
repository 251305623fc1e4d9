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

@test "an unknown command or option is reported in one line that says where help is" {
    cd "$T"
    each_refused <<'CASES'
frobnicate|: unknown command 'frobnicate'; see 'nagleshim help'
diagnoze|: unknown command 'diagnoze'; did you mean diagnose?
docotr|: unknown command 'docotr'; did you mean doctor?
check --jsn| check: unknown option '--jsn'; did you mean --json?
--frobnicate|: unknown option '--frobnicate'; see 'nagleshim help'
help frobnicate| help: unknown command 'frobnicate'; see 'nagleshim help'
help run check| help: 'check': only one command may be named
version 2| version: unexpected word '2'; see 'nagleshim version --help'
check --frobnicate| check: unknown option '--frobnicate'; see 'nagleshim check --help'
top --prometheus=| top: --prometheus must be FILE, not ''
explain --local=| explain: --local must be ADDR:PORT, not ''
cure --unit=| cure: --unit must be NAME, not ''
explain --max-delay-us=1| explain: unknown option '--max-delay-us=1'; see 'nagleshim explain --help'
check -x| check: unknown option '-x'; see 'nagleshim check --help'
check --help=yes| check: --help=yes: this option takes no value
explain --frobnicate| explain: unknown option '--frobnicate'; see 'nagleshim explain --help'
explain -xy| explain: unknown option '-x'; see 'nagleshim explain --help'
explain --role| explain: --role needs a value; see 'nagleshim explain --help'
diagnose --json=-- touch DIR/ran| diagnose: --json must be a file, not '--'; for a file of this name write ./--
diagnose --json= touch DIR/ran| diagnose: --json must be FILE, not ''
diagnose --html -- touch DIR/ran| diagnose: --html must be a file, not '--'; for a file of this name write ./--
check --dir --json| check: --dir must be a file, not '--json'; for a file of this name write ./--json
CASES
    # The control: a file with such a name.
    [[ ! -e -- && ! -e ran ]] && "$NS" diagnose --json=./-- -- touch ran
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
    expect_part stderr "$T/p.json: warning: rule 2 \"quotes\": only the send half is on"
    expect_part stderr "$T/p.json: warning: rule 3: never used"
    echo '{"version": 1, "enabled": false, "rules": []}' >"$T/off.json"
    run --separate-stderr "$NS" check "$T/off.json"
    expect 0 stderr has "$T/off.json: warning: \"enabled\" is false"
    expect_whole output "$T/off.json: valid, 0 rules, not enabled: every socket is left alone"
}

@test "check exits 2 for a file that it cannot read" {
    run --separate-stderr "$NS" check "$T/none.json"
    expect 2 output is "" stderr is "$T/none.json: cannot be read: No such file or directory"
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
        LD_PRELOAD=$PROBES/no_memory.so NO_MEMORY_AT=$at run --separate-stderr "$NS" check --json "$broken"
        [[ $status -eq 1 ]] || expect 2 output is "" stderr is "nagleshim: there is no memory left"
        [[ $status -eq 1 ]] || last=$at
    done
    # The last ones are those of the output, and all of them are tested.
    [[ $last -gt 20 && $last -lt 60 ]] || unexpected "the last allocation is $last"
}
