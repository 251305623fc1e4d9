# SPDX-License-Identifier: MIT
# Promise: Manual pages, help texts, schema and code name the same options, variables, keys, modes and exit statuses.
# Each test also fails if a list is empty.

load ../helpers/command

setup() {
    ns_setup
    MAN1=config/man/nagleshim.1
    MAN5=config/man/nagleshim-policy.5
}

# same_list FILE FILE: both have the same words, and at least one word.
same_list() {
    sort -u "$1" >"$T/first"
    sort -u "$2" >"$T/second"
    [[ -s $T/first ]] || wrong "nothing found for $1" || return
    diff "$T/first" "$T/second"
}

# A subsection of the first manual page.
section() {
    sed -n "/^\.S[sh] $1\$/,/^\.S[sh] /p" "$2" | sed '1d;$d'
}

# What the manual says about a verb: its page, or its part of the first page.
described() {
    cat "config/man/nagleshim-$1.1" 2>/dev/null || section "nagleshim $1" "$MAN1"
}

# Prints the words that an option takes, which a help text lists below it.
words_of() {
    "$NS" "$1" --help | sed -n "/^  $2 /{n;p}" | tr -d ' ' | tr ',' '\n'
}

# Names of every "properties" member of a part of the schema.
schema() {
    python3 -c 'import json, sys
at = json.load(open("config/policy.schema.json"))
for step in sys.argv[1:]:
    at = at[step]
print("\n".join(at))' "$@"
}

@test "the manual has the options of each help text" {
    local command
    for command in run check explain doctor demo diagnose compare top cure host; do
        "$NS" "$command" --help | grep -oE '^  -[-a-z]+' | tr -d ' ' | grep -vx -e -h >"$T/help"
        described "$command" | sed -nE 's/^\.It Fl ([-a-z]+).*/-\1/p' >"$T/man"
        same_list "$T/help" "$T/man"
    done
}

@test "the manual and the help text have the environment variables that the library reads" {
    "$NS" help | grep -oE '^  NAGLESHIM_[A-Z_]+' | tr -d ' ' >"$T/help"
    sed -n 's/^\.It Ev //p' "$MAN1" >"$T/man"
    same_list "$T/help" "$T/man"
    # The library is shim/ without the command in shim/cli/.
    grep -rhoE --exclude-dir=cli 'NAGLESHIM_[A-Z_]+' shim >"$T/code"
    same_list "$T/help" "$T/code"
}

@test "the examples for service managers and containers set only variables that exist" {
    "$NS" help | grep -oE '^  NAGLESHIM_[A-Z_]+' | tr -d ' ' >"$T/known"
    grep -rhoE 'NAGLESHIM_[A-Z_]+' config/systemd config/container | sort -u >"$T/used"
    [[ -s $T/used ]]
    run grep -vxFf "$T/known" "$T/used"
    expect_whole output ""
    grep -rL --exclude='nagleshim-*.service' LD_PRELOAD config/systemd config/container >"$T/without" || true
    [[ ! -s $T/without ]]
}

@test "the manual has the keys of the schema and of the parser" {
    local level table title part
    for level in policy_keys:"Keys of the policy":properties rule_keys:"Keys of a rule":'$defs rule properties' \
        match_keys:"Keys of match":'$defs match properties'; do
        IFS=: read -r table title part <<<"$level"
        section "$title" "$MAN5" | sed -n 's/^\.It Cm //p' >"$T/man"
        # shellcheck disable=SC2086 # the steps into the schema
        schema $part >"$T/schema"
        same_list "$T/man" "$T/schema"
        sed -n "/ $table\[\] = /,/^}/s/^    {\"\([^\"]*\)\".*/\1/p" shim/policy/json.c >"$T/parser"
        same_list "$T/man" "$T/parser"
    done
}

@test "the manual has the modes of the schema and of the help text" {
    words_of run --send >"$T/help"
    schema '$defs' rule properties send enum >"$T/schema"
    same_list "$T/help" "$T/schema"
    section Modes "$MAN5" | sed -nE '/^\.Bl -column/,/^\.El/s/^\.It ([a-z][-a-z]*) .*/\1/p' >"$T/man"
    same_list "$T/help" "$T/man"
    sed -nE '/^\| `send`/,/^$/s/^\| `([a-z-]+)`( \(default\))? \| [0-9].*/\1/p' README.md >"$T/readme"
    same_list "$T/help" "$T/readme"
    section 'nagleshim run' "$MAN1" | sed -n '/Fl -send/,/Fl -ack/s/^\.Cm \([-a-z]*\).*/\1/p' >"$T/man"
    same_list "$T/help" "$T/man"

    words_of run --ack >"$T/help"
    schema '$defs' rule properties ack enum >"$T/schema"
    same_list "$T/help" "$T/schema"
    section Modes "$MAN5" | sed -nE '/^\.Bl -tag/,/^\.El/s/^\.It ([-a-z]+)$/\1/p' >"$T/man"
    same_list "$T/help" "$T/man"

    words_of run --log >"$T/help"
    section 'nagleshim run' "$MAN1" | sed -n '/Fl -log/,/^\.El/s/^\.Cm \([-a-z]*\).*/\1/p' >"$T/man"
    same_list "$T/help" "$T/man"
}

@test "the manual has the socket options of the table, with their bounds" {
    sed -nE 's/^NS_SOCKOPT_ROW\((\w+), \w+, \w+, ([^,]+), ([^)]+)\)/\1 Ta \2 to \3/p' shim/policy/sockopts.def |
        sed 's,INT_MAX / 2,1073741823,; s/INT_MAX/2147483647/' >"$T/table"
    section 'Socket options' "$MAN5" | sed -n 's/^\.It Dv //p' >"$T/man"
    same_list "$T/table" "$T/man"
}

@test "the policies that the manual shows are valid" {
    local file n=0
    awk -v dir="$T" '/^\.Bd -literal/ { file = dir "/shown" ++n ".json"; next }
        /^\.Ed/ { file = "" } file { print > file }' "$MAN5"
    for file in "$T"/shown*.json; do
        run --separate-stderr "$NS" check "$file"
        expect 0 stderr is ""
        n=$((n + 1))
    done
    [[ $n -ge 4 ]]
}

@test "the README's tables of make demo have the rows and the columns that it prints" {
    sed -nE "s/^( *program|way) ['\"]([^'\"]*('s[^\"]*)?)['\"].*/\2/p" tests/demo >"$T/demo"
    sed -nE '/^\| \| (without|µs)/,/^$/s/^\| ([^|]+) \| .*/\1/p' README.md >"$T/readme"
    [[ $(wc -l <"$T/demo") -ge 11 ]]
    diff "$T/demo" "$T/readme"
    (($(wc -L <"$T/demo") <= $(sed -nE "s/^    printf '%-([0-9]+)s.*/\1/p" tests/demo | head -n 1))) # the columns stay in line
    sed -nE "s/^printf '%-[0-9]+s +(.*)\\\\n' ''$/\1/p" tests/demo | sed -E 's/ {2,}/ | /g' >"$T/demo"
    sed -nE 's/^\| \| ((without|µs).*) \|$/\1/p' README.md >"$T/readme"
    [[ $(wc -l <"$T/demo") -eq 2 ]]
    diff "$T/demo" "$T/readme"
}

@test "no line of a manual page is wider than a terminal of 80 columns" {
    local page
    type -P mandoc >/dev/null || type -P groff >/dev/null || cannot_here "neither mandoc nor groff"
    for page in config/man/*; do
        ! type -P groff >/dev/null || groff -mandoc -Tutf8 -P-cbou -rLL=80n "$page" >"$T/groff"
        ! type -P mandoc >/dev/null || mandoc -T utf8 -O width=80 "$page" | sed 's/.\x08//g' >"$T/mandoc"
        (($(cat "$T"/{groff,mandoc} 2>/dev/null | wc -L) <= 80)) || wrong "a line of $page is wider"
    done
}

@test "the formatters print no warnings about the manual pages, and end at 40 columns" {
    local page
    type -P mandoc >/dev/null || type -P groff >/dev/null || cannot_here "neither mandoc nor groff"
    for page in config/man/*; do
        if type -P groff >/dev/null; then
            run --separate-stderr groff -mandoc -Tutf8 -ww -z "$page"
            expect 0 stderr is ""
            timeout 30 groff -mandoc -Tutf8 -rLL=40n -rLT=40n -z "$page" 2>/dev/null || wrong "$page: $?"
        fi
        if type -P mandoc >/dev/null; then
            # Warnings about missing pages of other programs are ignored.
            run mandoc -T lint -W warning "$page"
            expect_whole output ""
        fi
    done
}

@test "a member of --json has one type in all commands, and each command's object fits the schema" {
    local words
    has_ptrace || [[ $EUID -ne 0 ]] || cannot_here "CAP_SYS_PTRACE is missing"
    python3 - <<'PYTHON'
import json
schema, types = json.load(open("config/output.schema.json")), {}
def type_of(at):
    at = schema["$defs"][at["$ref"].rpartition("/")[2]] if "$ref" in at else at
    names = set(at["type"] if isinstance(at.get("type"), list) else [at.get("type", "string")]) - {"null"}
    return "number" if names == {"integer"} else names.pop()
def walk(at):
    for name, member in at.get("properties", {}).items():
        types.setdefault(name, set()).add(type_of(member))
    for part in at.values() if isinstance(at, dict) else at if isinstance(at, list) else ():
        if isinstance(part, (dict, list)):
            walk(part) if isinstance(part, dict) else [walk(one) for one in part if isinstance(one, dict)]
walk({**schema, "properties": schema["properties"], "if": {}})
assert len(types) > 100
several = {name: kinds for name, kinds in types.items() if len(kinds) > 1}
assert not several, several
PYTHON
    policy p '{"name": "x"}' >/dev/null
    ns_start sender perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen => 1) or die; $a = IO::Socket::INET->new(
        "127.0.0.1:" . $l->sockport); $b = $l->accept; for (1 .. 900) { syswrite $a, "x"; sysread $b, $_, 1; select undef, undef, undef, 0.01 }'
    mkdir "$T/etc"
    echo /usr/lib/libnagleshim.so >"$T/etc/ld.so.preload"
    while read -r words; do
        # shellcheck disable=SC2086 # words
        run --separate-stderr "$NS" ${words//DIR/$T}
        jq -e '.command == "'"${words%% *}"'"' <<<"$output"
    done <<CASES
check --json DIR/p.json
check --json $(broken_policy)
explain --json -p DIR/p.json --role server cat
doctor --json cat
doctor --json --all
cure --json --dry-run --pid ${NS_PID[sender]}
cure --json --list
top --json --pid ${NS_PID[sender]}
diagnose --for 1 --json --pid ${NS_PID[sender]}
compare --json --runs 5 -- true
host status --json
CASES
}

@test "README begins with the two commands for a clone, and all texts name the same versions of Kubernetes" {
    local file
    diff <(sed -n '/^## Get it/,/^The first command/s/^    //p' README.md) <(printf 'make demo\nmake check\n')
    for file in CHANGELOG.md config/kubernetes/README.md examples/sidecar/README.md; do
        [[ $(grep -A 1 Kubernetes "$file" | grep -oE '\b1\.3[0-9]\b' | sort -u | sed -n '1p;$p') == $'1.34\n1.36' ]]
    done
}
