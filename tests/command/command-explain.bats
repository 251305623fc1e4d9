# SPDX-License-Identifier: MIT
# Promise: `nagleshim explain` shows which policy and rule a socket gets, why not another one, and what the rule does.

load ../helpers/command

explain() {
    run --separate-stderr "$NS" explain "$@"
}

@test "explain says which rule a socket gets and why the rules before it do not match" {
    policy p '{"name": "by program", "match": {"process": "other"}},
        {"name": "by argument", "match": {"args": "*.py"}},
        {"name": "by role", "match": {"role": "server"}},
        {"name": "by local", "match": {"local": "127.0.0.1"}},
        {"match": {"remote": ["10.0.0.0/8:80", "7000-7010"]}},
        {"name": "it", "match": {"process": "c*t", "args": "-u", "role": "client", "remote": "10.0.0.0/8"}},
        {"name": "too late"}'
    explain -p "$T/p.json" --role client --remote 10.0.0.1:7011 --local 127.0.0.2:5 cat x -u
    expect 0 output has "socket: client, local 127.0.0.2:5, remote 10.0.0.1:7011" output has "tried: $T/p.json: taken"
    expect_part output 'rule 1 "by program": does not match: "process" names other programs'
    expect_part output 'rule 2 "by argument": does not match: "args" matches no argument'
    expect_part output 'rule 3 "by role": does not match: "role" is different'
    expect_part output 'rule 4 "by local": does not match: "local" has other addresses or ports'
    expect_part output 'rule 5: does not match: "remote" has other addresses or ports'
    expect_part output 'rule 6 "it": matches'
    expect_no_part output "too late"
}

@test "explain exits 1 when no rule matches, and when the policy is not enabled" {
    explain -p "$(policy p '{"match": {"role": "server"}}')" --role client cat
    expect 1 output has "no rule matches: the socket is left alone"
    explain -p "$T/p.json" cat
    expect_status 1
    explain -p "$T/p.json" --role server cat
    expect_status 0
    echo '{"version": 1, "enabled": false, "rules": [{}]}' >"$T/off.json"
    explain -p "$T/off.json" cat
    expect 1 output has "the policy is not enabled: every socket is left alone"
}

@test "explain lists the files that the program would try, in their order" {
    ln -s "$(type -P cat)" "$T/quote-feed"
    local real
    real=$(basename "$(realpath "$(type -P cat)")")
    explain "$T/quote-feed"
    expect 0 output has "tried: $T/policies/quote-feed.json: not there
tried: $T/policies/$real.json: not there
tried: $T/policies/default.json: not there
policy: built in"
    policy "policies/$real" '{}'
    explain "$T/quote-feed"
    expect 0 output has "tried: $T/policies/quote-feed.json: not there
tried: $T/policies/$real.json: taken
policy: $T/policies/$real.json, 1 rule"
    NAGLESHIM_POLICY=$(policy named '{}') explain "$T/quote-feed"
    expect 0 output has "tried: $T/named.json: taken" output lacks "quote-feed.json"
}

@test "explain searches PATH for a name, and matches only the name if it is not found" {
    local cat
    cat=$(type -P cat)
    policy p "{\"match\": {\"process\": \"$(realpath "$cat")\"}}"
    explain -p "$T/p.json" cat
    expect 0 output has "program: $cat"
    policy p '{"match": {"process": "no-such-*"}}'
    explain -p "$T/p.json" no-such-program
    expect 0 output has "program: no-such-program, which is not found: only its name is matched"
    explain -p "$T/p.json" /opt/no-such-program
    expect 0 output has "program: /opt/no-such-program, which is not found: only its name is matched"
    # An empty variable of a script is no name.
    explain -p "$T/p.json" ''
    expect 2 output is '' stderr is "nagleshim explain: '': No such file or directory"
}

@test "explain treats a script as its interpreter, with the script as an argument" {
    printf '#!/bin/sh\n' >"$T/quotes.script"
    chmod +x "$T/quotes.script"
    policy p "{\"match\": {\"process\": \"sh\", \"args\": \"*/quotes.script\"}}"
    explain -p "$T/p.json" "$T/quotes.script"
    expect 0 output has "program: $T/quotes.script, a script for /bin/sh"
    # AT_EXECFN is the script's name, but not if the script names env.
    policy p '{"match": {"process": "quotes.script"}}'
    explain -p "$T/p.json" "$T/quotes.script"
    expect_status 0
    printf '#!/usr/bin/env sh\n' >"$T/quotes.script"
    explain -p "$T/p.json" "$T/quotes.script"
    expect_status 1
}

@test "explain warns if the library will not reach the program or is switched off" {
    program static "$T/static"
    explain "$T/static"
    expect 0 output has "reason: it is linked statically"
    NAGLESHIM_OFF=1 explain cat
    expect 0 output has "reason: NAGLESHIM_OFF is '1' (neither empty nor 0), so the library is switched off"
}

@test "explain accepts IPv6 addresses, and treats IPv4-mapped ones as IPv4" {
    policy p '{"name": "six", "match": {"remote": "[fd00::/8]:443"}},
        {"name": "four", "match": {"remote": "10.0.0.0/8:443"}}'
    explain -p "$T/p.json" --remote '[fd00::1]:443' cat
    expect_part output 'rule 1 "six": matches'
    explain -p "$T/p.json" --remote '[::ffff:10.0.0.1]:443' cat
    expect_part output 'rule 2 "four": matches'
    explain -p "$T/p.json" --remote 10.0.0.1/32:443 cat
    expect 0 output has ', remote 10.0.0.1/32:443' output has 'rule 2 "four": matches'
    explain -p "$T/p.json" --remote '[fd00::1]:444' cat
    expect_status 1
}

@test "explain refuses anything but an address with a port" {
    local address option
    for option in --remote --local; do
        for address in localhost:80 10.0.0.1 fd00::1 ::1:80 10.0.0.1: :80 10.0.0:80 10.0.0.1:0 10.0.0.1:65536 10.0.0.1:080 10.0.0.1/31:80 '[::1]' '[::1]80' \
            '[10.0.0.1]:80' 10.0.0.1:80x '[]:80' '[fe80::1%lo]:80'; do
            explain "$option" "$address" cat
            expect 2 output is ""
            expect_whole stderr "nagleshim explain: $option must be an address and a port, as 10.0.0.1:7001 or [::1]:7001, not '$address' (no host names, and a port from 1 to 65535)"
        done
    done
}

@test "check and explain refuse a pipe, and read standard input as -" {
    mkfifo "$T/fifo"
    run --separate-stderr "$NS" check "$T/fifo"
    expect 2 stderr is "$T/fifo: cannot be read: it is not a regular file; '-' is standard input"
    explain -p "$T/fifo" cat
    expect 2 output has "tried: $T/fifo: it is not a regular file"
    expect_whole stderr "nagleshim explain: $T/fifo: cannot be read: it is not a regular file; '-' is standard input"
    explain -p - cat <"$(policy p '{"name": "read"}')"
    expect 0 output has 'rule 1 "read": matches'
}

@test "a policy that is a link to a device is looked at, and not opened" {
    local words
    ns_needs_strace
    ln -s /dev/zero "$T/device.json"
    while read -r words; do
        # shellcheck disable=SC2086 # words
        run --separate-stderr strace -f -qq -y -e trace=openat,open -o "$T/calls" "$NS" $words
        expect 2 stderr has "$T/device.json: cannot be read: it is not a regular file; '-' is standard input"
        grep -q 'O_PATH.*</dev/zero>' "$T/calls"
        [[ $(grep '</dev/zero>' "$T/calls" | grep -vc O_PATH) -eq 0 ]] || wrong "it was opened:" "$T/calls"
    done <<CASES
check $T/device.json
explain -p $T/device.json cat
cure --dry-run --pid $$ -p $T/device.json
CASES
}

@test "explain exits 2 for a broken or unreadable policy, and shows that the library is disabled" {
    explain -p "$(broken_policy)" cat
    expect 2 stderr has "nagleshim explain: $T/broken.json:2:21: " output has "tried: $T/broken.json: invalid"
    expect_part output "the library is disabled: every socket is left alone"
    cp "$T/broken.json" "$T/policies/cat.json"
    policy policies/default '{}'
    explain cat
    expect 2 output lacks default.json # the search ends here
    explain -p "$T/none.json" cat
    expect 2 stderr has "nagleshim explain: $T/none.json: cannot be read: No such file or directory"
}

@test "explain describes in the kernel's terms what each mode does, and when" {
    local when="TCP_NODELAY is set to 1 before a connection's second write;"
    explain -p "$(policy p '{}')" --role client cat
    expect_part output "send adaptive: $when while the program writes on and on without waiting it is set to 0"
    explain -p "$(policy p '{"send": "nodelay"}')" --role client cat
    expect_part output "send nodelay: $when nothing is held"
    expect_part output "ack before-wait: before a wait that blocks, data read and not answered is acknowledged (TCP_QUICKACK)"
    explain -p "$(policy p '{"send": "auto-cork", "max_delay_us": 35e1}')" --role client cat
    expect_part output "TCP_CORK is set to 1 before a burst and to 0, which pushes, before a wait"
    expect_part output "max_delay_us: 350"
    explain -p "$(policy p '{"send": "auto-cork"}')" --role client cat
    expect_part output "max_delay_us: 200"
    explain -p "$(policy p '{"send": "flush-before-read"}')" --role client cat
    expect_part output "send flush-before-read: TCP_NODELAY stays as the application has it; where that is off, what Nagle's"
    explain -p "$(policy p '{"send": "app", "ack": "app"}')" --role client cat
    expect_part output "send app: TCP_NODELAY stays as the application has it; nothing is held or pushed"
    expect_part output "ack app: the kernel acknowledges when it would without the library"
}

@test "explain describes what a rule does to socket options" {
    policy p '{"sockopt": {"SO_RCVBUF": "pass", "SO_SNDBUF": "ignore", "SO_KEEPALIVE": {"set": 1},
        "TCP_KEEPIDLE": {"min": 30}, "TCP_KEEPCNT": {"max": 9}}}'
    explain -p "$T/p.json" cat
    expect 0 output has "sockopt SO_RCVBUF: set as the application asks"
    expect_part output "sockopt SO_SNDBUF: not set; the application's call succeeds without effect"
    expect_part output "sockopt SO_KEEPALIVE: set when the socket gets its rule, whatever the application asks, to 1"
    expect_part output "sockopt TCP_KEEPIDLE: set as the application asks, but to at least 30"
    expect_part output "sockopt TCP_KEEPCNT: set as the application asks, but to at most 9"
}

@test "explain marks rules as undecided if they depend on options that are not given" {
    policy p '{"match": {"remote": "10.0.0.1"}}, {"match": {"local": "80"}}, {"match": {"role": "server"}},
        {"match": {"role": "server", "remote": "10.0.0.1"}}, {"match": {"local": "80", "remote": "10.0.0.1"}}, {}'
    explain -p "$T/p.json" cat
    expect 0 output has 'rule 1: undecided: it has "remote", and --remote is not given'
    expect_part output 'rule 2: undecided: it has "local", and --local is not given'
    expect_part output 'rule 3: undecided: it has "role", and --role is not given'
    expect_part output 'warning: 5 rules are undecided; the following holds if none of them matches'
    explain -p "$T/p.json" --role client --remote 10.0.0.2:5 cat
    expect 0 output has 'rule 1: does not match: "remote" has other addresses or ports'
    expect_part output 'rule 2: undecided: it has "local", and --local is not given'
    expect_part output 'rule 3: does not match: "role" is different'
    expect_part output 'rule 4: does not match: "role" is different'
    # The rule cannot match, whatever the local address is.
    expect_part output 'rule 5: does not match: "remote" has other addresses or ports'
    expect_part output 'warning: 1 rule is undecided; the following holds if it does not match'
    explain -p "$T/p.json" --role client --remote 10.0.0.2:5 --local 10.0.0.3:81 cat
    expect_no_part output undecided
    expect_no_part output warning
}

@test "on a terminal what a rule does is broken between words" {
    ns_python
    "$python" -c 'import pty, sys; pty.spawn(["sh", "-c", "stty cols 60; exec \"$@\"", "sh", *sys.argv[1:]])' \
        "$NS" explain cat >"$T/seen" </dev/null
    [[ $(tr -d '\r' <"$T/seen") == *$'\n  send adaptive: '*$'\n    '* ]]
    [[ $(tr -d '\r' <"$T/seen" | wc -L) -le 60 ]]
}
