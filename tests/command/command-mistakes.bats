#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: `nagleshim check` tells every mistake of a policy with its place, and what is valid but probably not meant.
# shellcheck disable=SC2154 # bats sets $stderr and $stderr_lines
# What `nagleshim check` says of a file with several mistakes, of addresses that are spelt as people spell them
# elsewhere, and what `explain` says where it was not told enough.

bats_require_minimum_version 1.5.0
load ../helpers/command

setup() {
    command_setup
}

# mistakes TEXT: the places of what check says of it, in its order, as "line:column line:column".
mistakes() {
    printf '%s' "$1" >"$T/p.json"
    run --separate-stderr "$NS" check "$T/p.json"
    expect_status 1
    expect_whole output ""
    places=$(sed -nE "s,^$T/p\.json:([0-9]+:[0-9]+): .*; .*|^$T/p\.json:([0-9]+:[0-9]+): .* must be .*,\1\2,p" <<<"$stderr" | tr '\n' ' ')
    # Each line has a place, and says what is wrong and what is allowed.
    [[ $(wc -w <<<"$places") -eq ${#stderr_lines[@]} ]] || {
        seen
        return 1
    }
}

expect_places() {
    [[ $places == "$1 " ]] || {
        echo "expected places: $1"
        echo "got:             $places"
        seen
        return 1
    }
}

@test "check tells every mistake of a file, in the order of the text" {
    mistakes '{"version": 2, "enabled": "yes",
 "rules": [
  {"name": "", "send": "fast", "max_delay_us": 7},
  {"match": {"process": ["a", 3, ""], "role": "peer", "local": ["x", "7000-1"], "wat": 1}},
  {"sockopt": {"SO_NONE": 1, "SO_SNDBUF": {"set": -1, "min": 3}, "TCP_CORK": "pass"}},
  17
 ],
 "rules": [], "more": true}'
    expect_places "1:13 1:27 3:12 3:24 3:48 4:31 4:34 4:47 4:65 4:70 4:81 5:16 5:51 5:55 5:66 6:3 8:2 8:15"
    mistakes '{"rule": [],
 "versoin": 1}'
    expect_places "1:1 1:1 1:2 2:2"
    expect_part stderr '"version" is missing'
    expect_part stderr '"rules" is missing'
    mistakes '[1, 2]'
    expect_places "1:1"
}

@test "check of a text that stops being JSON tells what stands before that, and ends there" {
    # A missing comma, one too many, a word, a key without a value, an end too early, and a control character.
    mistakes '{"version": 2,
 "rules": [{"send": "fast"} {"ack": "slow"}]}'
    expect_places "1:13 2:21 2:29"
    mistakes '{"version": 2, "rules": [{"send": "fast",}, {"ack": "slow"}]}'
    expect_places "1:13 1:35 1:42"
    mistakes '{"version": 2, "rules": [{"send": fast, "ack": "slow"}]}'
    expect_places "1:13 1:35"
    mistakes '{"version": 2, "rules": [{"send": "fast", "ack" }]}'
    expect_places "1:13 1:35 1:49"
    mistakes '{"version": 2, "rules": [{"send": "fast"'
    expect_places "1:13 1:35 1:41"
    mistakes '{"version": 2, "rules": [{"name": "a
"}]}'
    expect_places "1:13 1:37"
    # What is empty only because the text ends there is no mistake, nor is what may have come later.
    mistakes '{"rules": [{"match": {"process": [ }'
    expect_places "1:36"
    mistakes '{'
    expect_places "1:2"
    mistakes 'nonsense'
    expect_places "1:1"
    mistakes ''
    expect_places "1:1"
}

@test "a misspelt key is told which one is near, and one that is near to none is not" {
    local key meant
    while read -r key meant; do
        printf '{"version": 1, "rules": [{"%s": 1}]}' "$key" >"$T/p.json"
        run --separate-stderr "$NS" check "$T/p.json"
        expect_status 1
        expect_whole stderr "$T/p.json:1:27: unknown key \"$key\"; a rule may have name, comment, match, send, ack, max_delay_us, sockopt${meant:+; did you mean \"$meant\"?}"
    done <<'CASES'
sned send
Match match
max_delay max_delay_us
sockopts sockopt
akc ack
mode
port
sand_all
CASES
}

@test "run and the library say the first mistake alone" {
    printf '{"version": 1, "rules": [{"send": "fast", "ack": "slow"}]}' >"$T/p.json"
    run --separate-stderr "$NS" run -p "$T/p.json" -- true
    expect_status 125
    [[ ${#stderr_lines[@]} -eq 1 && $stderr == *"p.json:1:35: "* ]]
    NAGLESHIM_POLICY=$T/p.json LD_PRELOAD=$LIBRARY run --separate-stderr env true
    [[ $(grep -c "p.json:1:35: " <<<"$stderr") -ge 1 ]]
    expect_no_part stderr "slow"
}

@test "check of several files says which has what" {
    mistakes '{"version": 1, "rules": [{"send": "fast", "ack": "slow"}]}'
    run --separate-stderr "$NS" check "$T/p.json" "$(policy good '{}')" "$(broken_policy)"
    expect_status 1
    expect_whole output "$T/good.json: valid, 1 rule"
    [[ ${#stderr_lines[@]} -eq 3 && ${stderr_lines[1]} == "$T/p.json:1:50: "* && ${stderr_lines[2]} == "$T/broken.json:2:21: "* ]]
}

@test "an address with blanks, several in one string, and a URL have a sentence each" {
    local text expected
    while IFS='|' read -r text expected; do
        printf '{"version": 1, "rules": [{"match": {"remote": "%s"}}]}' "$text" >"$T/p.json"
        run --separate-stderr "$NS" check "$T/p.json"
        expect_status 1
        expect_whole stderr "$T/p.json:1:47: \"$text\" is not an endpoint: $expected"
    done <<'CASES'
 10.0.0.1|it has a blank; write an endpoint without blanks, and several of them as a list
10.0.0.1 |it has a blank; write an endpoint without blanks, and several of them as a list
10.0.0.1 10.0.0.2|it has a blank; write an endpoint without blanks, and several of them as a list
10.0.0.1, 10.0.0.2|it is several in one string; write a list, such as ["10.0.0.1", "10.0.0.2"]
10.0.0.1;10.0.0.2|it is several in one string; write a list, such as ["10.0.0.1", "10.0.0.2"]
http://host/|it is a URL; write the address and the port alone, such as 10.0.0.1:80 or [fd00::1]:80
tcp://10.0.0.1:80, tcp://10.0.0.2|it is a URL; write the address and the port alone, such as 10.0.0.1:80 or [fd00::1]:80
CASES
}

@test "check warns of an IPv6 address whose end looks like a port, and of no other" {
    local address
    run --separate-stderr "$NS" check "$(policy p '{"match": {"remote": ["10.0.0.1", "fd00::1:443"], "local": "2001:db8::a:8080"}}')"
    expect_status 0
    expect_whole stderr "$T/p.json: warning: rule 1: \"local\": 2001:db8::a:8080 is an address, of any port; if 8080 is the port, write [2001:db8::a]:8080
$T/p.json: warning: rule 1: \"remote\": fd00::1:443 is an address, of any port; if 443 is the port, write [fd00::1]:443"
    # Of these the C library would write the end as an IPv4 address.
    run --separate-stderr "$NS" check "$(policy p '{"match": {"remote": ["::1:443", "::ffff:a:8080"]}}')"
    expect_status 0
    expect_whole stderr "$T/p.json: warning: rule 1: \"remote\": ::1:443 is an address, of any port; if 443 is the port, write [::1]:443
$T/p.json: warning: rule 1: \"remote\": ::ffff:a:8080 is an address, of any port; if 8080 is the port, write [::ffff:a]:8080"
    for address in fd00::1 fd00::443 fd00::1:2 fd00::1:44a fd00::1:443/128 '[fd00::1:443]' '[fd00::1]:443' fd00:1:2:3:4:5:6:443 \
        ::443 ::ffff:10.0.0.80 fd00::/8 10.0.0.1:443 443; do
        run --separate-stderr "$NS" check "$(policy p "{\"match\": {\"remote\": \"$address\"}}")"
        expect_status 0
        expect_whole stderr ""
    done
}

@test "explain says which rules depend on what was not given, instead of that they do not match" {
    policy p '{"match": {"remote": "10.0.0.1"}}, {"match": {"local": "80"}}, {"match": {"role": "server"}},
        {"match": {"role": "server", "remote": "10.0.0.1"}}, {"match": {"local": "80", "remote": "10.0.0.1"}}, {}'
    run --separate-stderr "$NS" explain -p "$T/p.json" --process cat
    expect_status 0
    expect_part output 'rule 1: undecided: it has "remote", and --remote is not given'
    expect_part output 'rule 2: undecided: it has "local", and --local is not given'
    expect_part output 'rule 3: undecided: it has "role", and --role is not given'
    expect_part output 'warning: 5 rules are undecided; the following holds if none of them matches'
    run --separate-stderr "$NS" explain -p "$T/p.json" --process cat --role client --remote 10.0.0.2:5
    expect_status 0
    expect_part output 'rule 1: does not match: "remote" has other addresses or ports'
    expect_part output 'rule 2: undecided: it has "local", and --local is not given; a client has a local address only if the program binds one'
    expect_part output 'rule 3: does not match: "role" is different'
    expect_part output 'rule 4: does not match: "role" is different'
    # It cannot match, whatever its local address is.
    expect_part output 'rule 5: does not match: "remote" has other addresses or ports'
    expect_part output 'warning: 1 rule is undecided; the following holds if it does not match'
    run --separate-stderr "$NS" explain -p "$T/p.json" --process cat --role client --remote 10.0.0.2:5 --local 10.0.0.3:81
    expect_no_part output undecided
    expect_no_part output warning
}

@test "the manual has both spellings of each option that has two, and a section for each command" {
    local command letter name
    for command in $("$NS" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        sed -n "/^\.Ss nagleshim $command\$/,/^\.S[sh] /p" config/man/nagleshim.1 >"$T/section"
        [[ -s $T/section ]]
        while read -r letter name; do
            grep -qE "^\.It Fl $letter( Ar file)? , Fl -$name( Ar file)?\$" "$T/section"
        done < <("$NS" "$command" --help | sed -nE 's/^  -([a-z]), --([-a-z]+) .*/\1 \2/p')
    done
    [[ -n $letter$name ]] || "$NS" run --help | grep -q -- '-p, --policy FILE'
}

@test "the manual lists the members of --json that there are" {
    local command
    policy p '{"name": "x"}' >/dev/null
    {
        "$NS" check --json "$T/p.json"
        "$NS" check --json "$(broken_policy)" 2>/dev/null || true
        "$NS" explain --json -p "$T/p.json" --process cat --role server
        "$NS" doctor --json cat
        "$NS" doctor --json --all --every || true
        "$NS" compare --json - --runs 2 -- true 2>/dev/null
        mkdir "$T/etc"
        echo /usr/lib/libnagleshim.so >"$T/etc/ld.so.preload"
        "$NS" host status --json --root "$T" || true
    } | python3 -c '
import json, sys
text, at, names = sys.stdin.read(), 0, set()
while text[at:].strip():
    o, end = json.JSONDecoder().raw_decode(text[at:].lstrip())
    at = len(text) - len(text[at:].lstrip()) + end
    names |= set(o)
    for parts in ("files", "processes", "enabled"):
        names |= set(o[parts][0]) if parts in o else set()
    names |= set(o.get("without", ()))
print("\n".join(sorted(names - {"files", "processes", "counts", "good"})))' >"$T/members"
    sed -n '/^\.Sh JSON/,/^\.Sh ENV/s/^\.It \([a-z_]*\) Ta .*/\1/p' config/man/nagleshim.1 | sort -u >"$T/manual"
    [[ $(wc -l <"$T/members") -gt 15 ]]
    diff "$T/members" "$T/manual"
}

@test "check warns of a rule that matches only what a rule before it takes, and of no other" {
    local rules
    while IFS= read -r rules; do
        run --separate-stderr "$NS" check "$(policy p "$rules")"
        expect_status 0
        expect_whole stderr "$T/p.json: warning: rule 2: never used: rule 1 before it already takes every socket it could match"
    done <<'CASES'
{"match": {"process": ["a", "b*"]}}, {"match": {"process": "b*", "role": "client", "remote": "80"}}
{"match": {"remote": ["10.0.0.0/8", "fd00::/8"]}}, {"match": {"remote": ["10.1.0.0/16", "[fd00::1]:80"]}}
{"match": {"remote": "1-1023"}}, {"match": {"remote": ["10.0.0.1:80", "443"], "args": "x"}}
{"match": {"role": "server", "local": "80-90"}}, {"match": {"role": "server", "local": "127.0.0.1:80-90"}}
{"match": {"args": "x"}}, {"match": {"args": "x"}}
CASES
    while IFS= read -r rules; do
        run --separate-stderr "$NS" check "$(policy p "$rules")"
        expect_status 0
        expect_whole stderr ""
    done <<'CASES'
{"match": {"process": "a"}}, {"match": {"role": "client"}}
{"match": {"process": "a"}}, {"match": {"process": ["a", "b"]}}
{"match": {"remote": "10.0.0.0/8"}}, {"match": {"remote": ["10.1.0.0/16", "11.0.0.0/8"]}}
{"match": {"remote": "10.1.0.0/16"}}, {"match": {"remote": "10.0.0.0/8"}}
{"match": {"remote": "80-90"}}, {"match": {"remote": "80-91"}}
{"match": {"remote": "0.0.0.0/0"}}, {"match": {"remote": "80"}}
{"match": {"remote": "80"}}, {"match": {"local": "80", "role": "server"}}
{"match": {"role": "server"}}, {"match": {"process": "a"}}
CASES
    # Thousands of rules are judged in a moment.
    python3 -c 'print("""{"version": 1, "rules": [%s]}""" % ", ".join("{\"match\": {\"process\": [\"a%d\", \"b%d\"]}}" % (i, i) for i in range(4000)))' >"$T/p.json"
    run timeout 10 "$NS" check "$T/p.json"
    expect_status 0
    expect_whole output "$T/p.json: valid, 4000 rules"
}
