#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: The command tells what it is, what is wrong with a policy, and what a policy would do to a socket.
# shellcheck disable=SC2154 # bats sets stderr and stderr_lines
# The nagleshim command but for `run`: what it says about itself, about policy files, and about what a
# policy does to a socket. What the parser finds wrong is tested with the policy; here is how it is told.

bats_require_minimum_version 1.5.0
load ../helpers/command

setup() {
    command_setup
}

explain() {
    run --separate-stderr "$NS" explain "$@"
}

@test "version and --version print the version that the Makefile names" {
    local version word
    version=$(sed -n 's/^VERSION := //p' Makefile)
    for word in version --version; do
        run --separate-stderr "$NS" "$word"
        expect_status 0
        expect_whole output "nagleshim $version"
    done
}

@test "every subcommand prints its help on stdout, by --help and by help" {
    local command by_option
    for command in run check explain doctor diagnose compare top version help; do
        run --separate-stderr "$NS" "$command" --help
        expect_status 0
        expect_whole stderr ""
        expect_part output "usage: nagleshim $command"
        by_option=$output
        run --separate-stderr "$NS" "$command" -h
        expect_status 0
        expect_whole output "$by_option"
        run --separate-stderr "$NS" help "$command"
        expect_status 0
        expect_whole output "$by_option"
    done
    run --separate-stderr "$NS" --help
    expect_status 0
    expect_part output "usage: nagleshim COMMAND"
    by_option=$output
    run --separate-stderr "$NS" -h
    expect_status 0
    expect_whole output "$by_option"
}

@test "--help behind other options prints the help, too" {
    run --separate-stderr "$NS" run --send app --help
    expect_status 0
    expect_part output "usage: nagleshim run"
    run --separate-stderr "$NS" explain --process x --help
    expect_status 0
    expect_part output "usage: nagleshim explain"
    run --separate-stderr "$NS" check x --help
    expect_status 0
    expect_part output "usage: nagleshim check"
}

@test "without a subcommand the usage goes to stderr, and the status is 2" {
    run --separate-stderr "$NS"
    expect_status 2
    expect_whole output ""
    expect_part stderr "usage: nagleshim run"
}

@test "what is not known is named in one line that says where help is" {
    local words expected
    while IFS='|' read -r words expected; do
        # shellcheck disable=SC2086 # several words
        run --separate-stderr "$NS" $words
        expect_status 2
        expect_whole output ""
        expect_whole stderr "nagleshim$expected"
    done <<'CASES'
frobnicate|: unknown command 'frobnicate'; see 'nagleshim help'
--frobnicate|: unknown option '--frobnicate'; see 'nagleshim help'
help frobnicate| help: unknown command 'frobnicate'; see 'nagleshim help'
help run check| help: 'check': only one command may be named
version 2| version: '2': nothing may follow; see 'nagleshim help'
check --frobnicate| check: unknown option '--frobnicate'; see 'nagleshim check --help'
--verson|: unknown option '--verson'; is '--version' meant? see 'nagleshim help'
help chek| help: unknown command 'chek'; is 'check' meant? see 'nagleshim help'
help enviroment| help: unknown command 'enviroment'; is 'environment' meant? see 'nagleshim help'
enviroment|: unknown command 'enviroment'; see 'nagleshim help'
chekc|: unknown command 'chekc'; is 'check' meant? see 'nagleshim help'
check --jsno| check: unknown option '--jsno'; is '--json' meant? see 'nagleshim check --help'
explain --remoet=1| explain: unknown option '--remoet=1'; is '--remote' meant? see 'nagleshim explain --help'
explain --max-delay-us=1| explain: unknown option '--max-delay-us=1'; see 'nagleshim explain --help'
check -x| check: unknown option '-x'; see 'nagleshim check --help'
check --help=yes| check: --help=yes: this option takes no value
explain --frobnicate| explain: unknown option '--frobnicate'; see 'nagleshim explain --help'
explain -xy| explain: unknown option '-x'; see 'nagleshim explain --help'
explain --process| explain: --process needs a value; see 'nagleshim explain --help'
CASES
}

@test "a full disk behind standard output is a failure" {
    local words
    policy p '{}'
    for words in version help "check $T/p.json" "explain -p $T/p.json --process x"; do
        # shellcheck disable=SC2016 # for the inner shell
        run bash -c '"$0" $1 >/dev/full' "$NS" "$words"
        expect_status 2
        expect_part output "nagleshim: cannot write to standard output"
    done
}

@test "check says that a valid file is valid, and how many rules it has" {
    run --separate-stderr "$NS" check "$(policy p '{"match": {"role": "client"}}, {}')"
    expect_status 0
    expect_whole output "$T/p.json: valid, 2 rules"
    expect_whole stderr ""
    run --separate-stderr "$NS" check "$(policy p '{}')"
    expect_whole output "$T/p.json: valid, 1 rule"
}

@test "check warns of a valid file that is probably not meant so, and exits 0" {
    run --separate-stderr "$NS" check "$(policy p '{}, {"name": "quotes", "match": {"role": "client"}, "ack": "app"}, {}')"
    expect_status 0
    expect_whole output "$T/p.json: valid, 3 rules"
    expect_part stderr "$T/p.json: warning: rule 2 \"quotes\": only the send half is on"
    expect_part stderr "$T/p.json: warning: rule 3: never used"
    echo '{"version": 1, "enabled": false, "rules": []}' >"$T/off.json"
    run --separate-stderr "$NS" check "$T/off.json"
    expect_status 0
    expect_part stderr "$T/off.json: warning: \"enabled\" is false"
    expect_whole output "$T/off.json: valid, 0 rules, not enabled: every socket is left alone"
}

@test "check warns of a policy file that others could change or replace" {
    local file=$T/shared/p.json mode expected
    mkdir "$T/shared"
    policy shared/p '{}'
    chmod 0644 "$file"
    chmod 0755 "$T/shared"
    run --separate-stderr "$NS" check "$file"
    expect_status 0
    expect_whole stderr ""
    while IFS='|' read -r mode expected; do
        chmod "${mode% *}" "$file"
        chmod "${mode#* }" "$T/shared"
        run --separate-stderr "$NS" check "$file"
        expect_status 0
        expect_whole output "$file: valid, 1 rule"
        expect_whole stderr "${expected:+$file: warning: it $expected}"
    done <<'CASES'
0666 0755|can be changed by everybody (mode 0666)
0644 0777|can be replaced by everybody, who may write to its directory
0644 1777|
CASES
    chmod 0644 "$file"
    chmod 0755 "$T/shared"
    chown 65533:65532 "$file" 2>/dev/null || cannot_here "only root can give a file away"
    run --separate-stderr "$NS" check "$file"
    expect_status 0
    expect_whole stderr "$file: warning: it belongs to user 65533, who is neither root nor user $EUID"
    # A group that is the owner's own has nobody else in it.
    chown 0:0 "$file" "$T/shared"
    chmod 0664 "$file"
    chmod 0775 "$T/shared"
    run --separate-stderr "$NS" check "$file"
    expect_whole stderr ""
    chmod 0755 "$T/shared"
    # In force, it is the same file.
    chown 0:65532 "$file"
    chmod 0664 "$file"
    NAGLESHIM_POLICY=$file run --separate-stderr "$NS" check
    expect_whole stderr "$file: warning: it can be changed by group 65532 (mode 0664)"
    chown 0:0 "$file"
    chown 65533:65532 "$T/shared"
    chmod 0775 "$T/shared"
    run --separate-stderr "$NS" check "$file"
    expect_whole stderr "$file: warning: it can be replaced by group 65532, which may write to its directory
$file: warning: it can be replaced by user 65533, whose directory it is in"
}

@test "check says where an invalid file is wrong and what is allowed, and exits 1" {
    run --separate-stderr "$NS" check "$(broken_policy)"
    expect_status 1
    expect_whole output ""
    [[ ${#stderr_lines[@]} -eq 1 && $stderr =~ ^"$T/broken.json:2:21: ".*auto-cork ]]
}

@test "check exits 2 for what it cannot read" {
    run --separate-stderr "$NS" check "$T/none.json"
    expect_status 2
    expect_whole output ""
    expect_whole stderr "$T/none.json: cannot be read: No such file or directory"
    run --separate-stderr "$NS" check ""
    expect_status 2
    expect_whole stderr "'': cannot be read: No such file or directory"
    run --separate-stderr "$NS" check "$T"
    expect_status 2
    expect_part stderr "$T: cannot be read"
}

@test "check goes through every file and exits with the worst status" {
    local good bad
    good=$(policy good '{}')
    bad=$(broken_policy)
    run --separate-stderr "$NS" check "$bad" "$good"
    expect_status 1
    expect_whole output "$good: valid, 1 rule"
    run --separate-stderr "$NS" check "$T/none.json" "$bad" "$good"
    expect_status 2
    expect_whole output "$good: valid, 1 rule"
    expect_part stderr "$bad:2:21: "
    expect_part stderr "$T/none.json: cannot be read"
}

@test "check reads a policy from standard input as -" {
    run --separate-stderr "$NS" check - <"$(policy p '{}')"
    expect_status 0
    expect_whole output "-: valid, 1 rule"
    run --separate-stderr "$NS" check - <"$(broken_policy)"
    expect_status 1
    expect_part stderr "-:2:21: "
}

@test "check without a file checks every policy that a program could get here: built in, of the directory, of the environment" {
    local builtin="no default.json in $T/policies: programs without a file of their own get the built-in policy (send adaptive, ack before-wait, every TCP socket)"
    run --separate-stderr "$NS" check
    expect_status 0
    expect_whole output "$builtin"
    policy policies/nagleshim '{}, {}, {}'
    cp "$(broken_policy)" "$T/policies/.hidden.json"
    cp "$T/broken.json" "$T/policies/other.txt"
    run --separate-stderr "$NS" check
    expect_status 0
    expect_whole output "$T/policies/nagleshim.json: valid, 3 rules
$builtin"
    policy policies/default '{}'
    run --separate-stderr "$NS" check
    expect_status 0
    expect_whole output "$T/policies/default.json: valid, 1 rule
$T/policies/nagleshim.json: valid, 3 rules"
    cp "$T/broken.json" "$T/policies/cli.json"
    run --separate-stderr "$NS" check
    expect_status 1
    expect_part stderr "$T/policies/cli.json:2:21: "
    expect_part output "$T/policies/nagleshim.json: valid, 3 rules"
    rm "$T/policies/default.json"
    run --separate-stderr "$NS" check
    expect_status 1
    expect_part output "$builtin"
    NAGLESHIM_POLICY=$(policy named '{"match": {"role": "client"}}, {}') run --separate-stderr "$NS" check
    expect_status 0
    expect_whole output "$T/named.json: valid, 2 rules"
    NAGLESHIM_POLICY=' {"version": 1, "rules": [{}]}' run --separate-stderr "$NS" check
    expect_status 0
    expect_whole output "NAGLESHIM_POLICY: valid, 1 rule"
}

@test "check without a file finds what is wrong with the policy in force, and says that it is switched off" {
    NAGLESHIM_POLICY='{"version": 2, "rules": []}' run --separate-stderr "$NS" check
    expect_status 1
    expect_part stderr "NAGLESHIM_POLICY:1:13: "
    NAGLESHIM_POLICY=$T/none.json run --separate-stderr "$NS" check
    expect_status 2
    expect_part stderr "$T/none.json: cannot be read"
    NAGLESHIM_OFF=1 run --separate-stderr "$NS" check
    expect_status 0
    expect_whole stderr "nagleshim check: warning: NAGLESHIM_OFF is '1' (neither empty nor 0), so the shim is switched off"
}

@test "explain says which rule a socket gets and why the rules before it do not match" {
    policy p '{"name": "by program", "match": {"process": "other"}},
        {"name": "by argument", "match": {"args": "*.py"}},
        {"name": "by role", "match": {"role": "server"}},
        {"name": "by local", "match": {"local": "127.0.0.1"}},
        {"match": {"remote": ["10.0.0.0/8:80", "7000-7010"]}},
        {"name": "it", "match": {"process": "c*t", "args": "-u", "role": "client", "remote": "10.0.0.0/8"}},
        {"name": "too late"}'
    explain -p "$T/p.json" --process cat --arg x --arg -u --role client --remote 10.0.0.1:7011 --local 127.0.0.2:5
    expect_status 0
    expect_part output "socket: client, local 127.0.0.2:5, remote 10.0.0.1:7011"
    expect_part output "tried: $T/p.json: taken"
    expect_part output 'rule 1 "by program": does not match: "process" names other programs'
    expect_part output 'rule 2 "by argument": does not match: "args" is not among the arguments'
    expect_part output 'rule 3 "by role": does not match: "role" is another'
    expect_part output 'rule 4 "by local": does not match: "local" has other addresses or ports'
    expect_part output 'rule 5: does not match: "remote" has other addresses or ports'
    expect_part output 'rule 6 "it": matches'
    expect_no_part output "too late"
}

@test "explain exits 1 when no rule matches, and when the policy is not enabled" {
    explain -p "$(policy p '{"match": {"role": "server"}}')" --process cat --role client
    expect_status 1
    expect_part output "no rule matches: the socket is left alone"
    explain -p "$T/p.json" --process cat
    expect_status 1
    explain -p "$T/p.json" --process cat --role server
    expect_status 0
    echo '{"version": 1, "enabled": false, "rules": [{}]}' >"$T/off.json"
    explain -p "$T/off.json" --process cat
    expect_status 1
    expect_part output "the policy is not enabled: every socket is left alone"
}

@test "explain lists the files that the program would try, in their order" {
    ln -s "$(type -P cat)" "$T/quote-feed"
    local real
    real=$(basename "$(realpath "$(type -P cat)")")
    explain --process "$T/quote-feed"
    expect_status 0
    expect_part output "tried: $T/policies/quote-feed.json: not there
tried: $T/policies/$real.json: not there
tried: $T/policies/default.json: not there
policy: built in"
    policy "policies/$real" '{}'
    explain --process "$T/quote-feed"
    expect_status 0
    expect_part output "tried: $T/policies/quote-feed.json: not there
tried: $T/policies/$real.json: taken
policy: $T/policies/$real.json, 1 rule"
    NAGLESHIM_POLICY=$(policy named '{}') explain --process "$T/quote-feed"
    expect_status 0
    expect_part output "tried: $T/named.json: taken"
    expect_no_part output "quote-feed.json"
}

@test "explain looks a bare name up in PATH, and says so when there is none" {
    local cat
    cat=$(type -P cat)
    policy p "{\"match\": {\"process\": \"$(realpath "$cat")\"}}"
    explain -p "$T/p.json" --process cat
    expect_status 0
    expect_part output "process: $(realpath "$cat") (cat in PATH is $cat)"
    policy p '{"match": {"process": "no-such-*"}}'
    explain -p "$T/p.json" --process no-such-program
    expect_status 0
    expect_part output "process: no-such-program (not found in PATH; matched by this name alone)"
    explain -p "$T/p.json" --process /opt/no-such-program
    expect_status 0
    expect_part output "process: /opt/no-such-program (there is no such file; matched by this name alone)"
}

@test "explain takes a script for what the process will be: its interpreter, with the script as an argument" {
    printf '#!/bin/sh\n' >"$T/quotes.script"
    chmod +x "$T/quotes.script"
    policy p "{\"match\": {\"process\": \"sh\", \"args\": \"*/quotes.script\"}}"
    explain -p "$T/p.json" --process "$T/quotes.script"
    expect_status 0
    expect_part output "process: $(realpath /bin/sh) (the interpreter of $T/quotes.script)"
    # The kernel still tells the interpreter the script's name, but not through env.
    policy p '{"match": {"process": "quotes.script"}}'
    explain -p "$T/p.json" --process "$T/quotes.script"
    expect_status 0
    printf '#!/usr/bin/env sh\n' >"$T/quotes.script"
    explain -p "$T/p.json" --process "$T/quotes.script"
    expect_status 1
}

@test "explain says when the shim will not reach the program, or is switched off" {
    program static "$T/static"
    explain --process "$T/static"
    expect_status 0
    expect_part output "warning: the shim will not reach this process: $T/static is linked statically"
    NAGLESHIM_OFF=1 explain --process cat
    expect_status 0
    expect_part output "warning: NAGLESHIM_OFF is '1' (neither empty nor 0), so the shim is switched off here"
}

@test "explain understands IPv6 addresses, and takes an IPv4-mapped one for IPv4" {
    policy p '{"name": "six", "match": {"remote": "[fd00::/8]:443"}},
        {"name": "four", "match": {"remote": "10.0.0.0/8:443"}}'
    explain -p "$T/p.json" --process cat --remote '[fd00::1]:443'
    expect_part output 'rule 1 "six": matches'
    explain -p "$T/p.json" --process cat --remote '[::ffff:10.0.0.1]:443'
    expect_part output 'rule 2 "four": matches'
    explain -p "$T/p.json" --process cat --remote '[fd00::1]:444'
    expect_status 1
}

@test "explain refuses what is no address with a port" {
    local address option
    for option in --remote --local; do
        for address in localhost:80 10.0.0.1: :80 10.0.0:80 10.0.0.1:0 10.0.0.1:65536 '[::1]' '[::1]80' \
            '[10.0.0.1]:80' 10.0.0.1:80x '' '[]:80' '[fe80::1%lo]:80'; do
            explain --process cat "$option" "$address"
            expect_status 2
            expect_whole output ""
            expect_whole stderr "nagleshim explain: $option must be an address and a port, as 10.0.0.1:7001 or [::1]:7001, not '$address' (no host names, and a port from 1 to 65535)"
        done
    done
}

@test "explain says of an address without a port what it lacks" {
    explain --process cat --remote 10.0.0.1
    expect_status 2
    expect_whole stderr "nagleshim explain: --remote needs a port: 10.0.0.1:7001"
    explain --process cat --local fd00::1
    expect_status 2
    expect_whole stderr "nagleshim explain: --local needs brackets and a port: [fd00::1]:7001"
    # As check says of it.
    explain --process cat --local ::1:80
    expect_status 2
    expect_whole stderr "nagleshim explain: --local needs a port: ::1:80 is an address, of any port; if 80 is the port, write [::1]:80"
}

@test "explain takes the interpreter of a script that lies here and is not in PATH" {
    printf '#!/bin/sh\n' >"$T/job.py"
    cd "$T"
    explain --process job.py
    expect_status 0
    expect_part output "process: $(realpath /bin/sh) (the interpreter of ./job.py)"
    expect_part output "tried: $T/policies/sh.json: not there"
    expect_no_part output "job.py.json"
    explain --process none.py
    expect_part output "tried: $T/policies/none.py.json: not there"
}

@test "explain refuses what is there and no program: a directory, data, a library" {
    local file expected
    echo text >"$T/data"
    mkdir "$T/folder"
    while IFS='|' read -r file expected; do
        explain --process "$file"
        expect_status 2
        expect_whole output ""
        expect_whole stderr "nagleshim explain: '$file' $expected"
    done <<CASES
$T/folder|is a directory, and no program
$T/data|is not executable: Permission denied
/dev/null|is not a regular file, and no program
$LIBRARY|is a library, and no program
CASES
}

@test "check and explain say of a pipe that it is not a regular file, and how standard input is written" {
    mkfifo "$T/fifo"
    run --separate-stderr "$NS" check "$T/fifo"
    expect_status 2
    expect_whole stderr "$T/fifo: cannot be read: it is not a regular file; '-' is standard input"
    explain -p "$T/fifo" --process cat
    expect_status 2
    expect_part output "tried: $T/fifo: it is not a regular file"
    expect_whole stderr "nagleshim explain: $T/fifo: cannot be read: it is not a regular file; '-' is standard input"
    explain -p - --process cat <"$(policy p '{"name": "read"}')"
    expect_status 0
    expect_part output 'rule 1 "read": matches'
}

@test "explain says what else is wrong with its options" {
    explain --role client
    expect_status 2
    expect_whole stderr "nagleshim explain: --process is missing: a program's path or name; see 'nagleshim explain --help'"
    explain --process cat --role peer
    expect_status 2
    expect_whole stderr "nagleshim explain: --role must be client or server, not 'peer'"
    explain --process cat file
    expect_status 2
    expect_whole stderr "nagleshim explain: 'file' is not an option; an argument of the program is given with --arg"
}

@test "explain of a broken or unreadable policy says where, that the shim stands aside, and exits 2" {
    explain -p "$(broken_policy)" --process cat
    expect_status 2
    expect_part stderr "nagleshim explain: $T/broken.json:2:21: "
    expect_part output "tried: $T/broken.json: invalid"
    expect_part output "the shim stands aside: every socket is left alone"
    cp "$T/broken.json" "$T/policies/cat.json"
    policy policies/default '{}'
    explain --process cat
    expect_status 2
    expect_no_part output default.json # the search does not go on
    explain -p "$T/none.json" --process cat
    expect_status 2
    expect_part stderr "nagleshim explain: $T/none.json: cannot be read: No such file or directory"
}

@test "explain says in the kernel's terms what each mode does, and when" {
    explain -p "$(policy p '{}')" --process cat --role client
    expect_part output "send adaptive: TCP_NODELAY is set to 1 before a connection's second write;
    while the program writes on and on without waiting it is set to 0"
    explain -p "$(policy p '{"send": "nodelay"}')" --process cat --role client
    expect_part output "send nodelay: TCP_NODELAY is set to 1 before a connection's second write;
    nothing is held"
    expect_part output "ack before-wait: before a wait that blocks, data read and not answered is acknowledged
    (TCP_QUICKACK)"
    explain -p "$T/p.json" --process cat --role server
    expect_part output "TCP_NODELAY is set to 1 on a listener that the program makes"
    explain -p "$T/p.json" --process cat
    expect_part output "TCP_NODELAY is set to 1 on a listener, or before a connection's second write"
    explain -p "$(policy p '{"send": "auto-cork", "max_delay_us": 350}')" --process cat --role client
    expect_part output "send auto-cork: TCP_NODELAY is set to 1 before a connection's second write;
    a burst is held with MSG_MORE"
    expect_part output "after 350 us"
    explain -p "$(policy p '{"send": "flush-before-read"}')" --process cat --role client
    expect_part output "send flush-before-read: TCP_NODELAY stays as the application has it; where that is off, what Nagle's"
    explain -p "$(policy p '{"send": "app", "ack": "app"}')" --process cat --role client
    expect_part output "send app: TCP_NODELAY stays as the application has it; nothing is held or pushed"
    expect_part output "ack app: the kernel acknowledges when it would without the shim"
}

@test "explain says what becomes of socket options" {
    policy p '{"sockopt": {"SO_RCVBUF": "pass", "SO_SNDBUF": "ignore", "SO_KEEPALIVE": {"set": 1},
        "TCP_KEEPIDLE": {"min": 30}, "TCP_KEEPCNT": {"max": 9}}}'
    explain -p "$T/p.json" --process cat
    expect_status 0
    expect_part output "sockopt SO_RCVBUF: what the application asks is done"
    expect_part output "sockopt SO_SNDBUF: what the application asks is not done, and it is told that it worked"
    expect_part output "sockopt SO_KEEPALIVE: 1 at creation, and instead of what the application asks"
    expect_part output "sockopt TCP_KEEPIDLE: what the application asks, but no less than 30"
    expect_part output "sockopt TCP_KEEPCNT: what the application asks, but no more than 9"
}

@test "explain of a server's socket says what its listener gets" {
    explain -p "$(policy p '{"name": "all"}')" --process cat --role server --local 0.0.0.0:80
    expect_part output 'listener: gets rule 1 "all", and every socket accepted from it too'
    policy p '{"name": "one", "match": {"local": "10.0.0.1"}}, {"name": "all"}'
    explain -p "$T/p.json" --process cat --role server --local 0.0.0.0:80
    expect_part output 'listener: gets rule 1 "one"; accepted sockets are matched one by one'
    policy p '{"match": {"remote": "10.0.0.0/8"}}, {"name": "all"}'
    explain -p "$T/p.json" --process cat --role server --local 0.0.0.0:80
    expect_part output 'listener: left alone, as a rule asks for "remote"; accepted sockets are matched one by one'
    policy p '{"match": {"local": "81"}}'
    explain -p "$T/p.json" --process cat --role server --local 0.0.0.0:80
    expect_part output "listener: left alone, and every socket accepted from it too"
    explain -p "$T/p.json" --process cat --role server
    expect_part output "listener: give --local to see what its listener gets"
    explain -p "$T/p.json" --process cat --role client --local 10.0.0.1:80
    expect_no_part output listener
}
