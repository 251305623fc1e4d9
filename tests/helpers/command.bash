# SPDX-License-Identifier: MIT
# Shared by the tests of the nagleshim command: input files, and assertions that print the actual output. Must not start a
# process that outlives a test.

load "${BASH_SOURCE[0]%/*}/common"

# Skips the test.
cannot_here() {
    ns_skip "$1"
}

# keep TEXT: teardown_file checks it if it is an object of the command.
keep() {
    [[ $1 != *'"nagleshim":'* ]] || printf '%s\n%s\0' "$BATS_TEST_DESCRIPTION" "$1" >>"$BATS_FILE_TMPDIR/objects"
}

# jq ARGUMENT...: jq(1), of standard input or of a file that the last argument names.
jq() {
    local text
    if [[ -f ${!#} ]]; then
        keep "$(cat "${!#}")"
        command jq "$@"
    else
        text=$(cat)
        keep "$text"
        command jq "$@" <<<"$text"
    fi
}

# Every object that a test of the file has read fits the schema.
teardown_file() {
    [[ ! -e $BATS_FILE_TMPDIR/objects ]] || "$(T=$BATS_FILE_TMPDIR; ns_python jsonschema; echo "$python")" - \
        "$BATS_FILE_TMPDIR/objects" <<'PYTHON'
import json, sys
from jsonschema import Draft202012Validator
schema = json.load(open("config/output.schema.json"))
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
for entry in open(sys.argv[1], encoding="utf-8", errors="replace").read().split("\0")[:-1]:
    test, text = entry.split("\n", 1)
    for error in validator.iter_errors(json.loads(text)):
        sys.exit(f"{test}: {error}")
PYTHON
}

seen() {
    printf 'status: %s\nstdout: %s\nstderr: %s\n' "$status" "$output" "${stderr:-}"
}

# unexpected [TEXT]: prints it, and what the command has printed, and fails.
unexpected() {
    echo "${1-unexpected:}"
    seen
    return 1
}

# doubt_is_late: is_late for a diagnosis from outside that cannot tell. It cannot if more than a tenth of the answers came at
# another place of the clock's tick than the rest (ns_weigh_doubts), and an eighth of a millisecond is another place.
doubt_is_late() {
    local held=1600
    [[ ! $stderr =~ 'bytes were held '([0-9]+)' times' ]] || held=${BASH_REMATCH[1]}
    is_late "$held / 10 / 8" "$stderr"
}

# maybe_late: doubt_is_late if the first sentence of the diagnosis is a doubt.
maybe_late() {
    [[ $stderr != "nagleshim diagnose: cannot tell: "* ]] || doubt_is_late
}

expect_status() {
    [[ $status -eq $1 ]] || unexpected "expected status $1"
}

# expect_whole STREAM TEXT: the stream ("output" or "stderr") is exactly this text.
expect_whole() {
    [[ ${!1} == "$2" ]] || unexpected "expected $1 to be: $2"
}

# expect_part STREAM TEXT: the stream contains this text.
expect_part() {
    [[ ${!1} == *"$2"* ]] || unexpected "expected in $1: $2"
}

expect_no_part() {
    [[ ${!1} != *"$2"* ]] || unexpected "not expected in $1: $2"
}

# policy NAME RULES: writes a policy file with these rules, in JSON, and prints its path.
policy() {
    printf '{"version": 1, "rules": [%s]}\n' "$2" >"$T/$1.json"
    echo "$T/$1.json"
}

# Writes a policy with a mistake in line 2, column 24, and prints its path.
broken_policy() {
    printf '{"version": 1,\n "rules": [{"send": "fast"}]}\n' >"$T/broken.json"
    echo "$T/broken.json"
}

# expect STATUS [STREAM is|has|lacks TEXT]...: checks the exit status and the streams ("output" or "stderr").
expect() {
    expect_status "$1" || return
    shift
    while [[ $# -gt 0 ]]; do
        case $2 in
        is) expect_whole "$1" "$3" || return ;;
        has) expect_part "$1" "$3" || return ;;
        lacks) expect_no_part "$1" "$3" || return ;;
        *) return 1 ;;
        esac
        shift 3
    done
}

# program KIND FILE: builds a program that the library cannot reach for one reason. It exits with 3.
program() {
    local kind=$1 file=$2 flags=()
    local source='int socket(int, int, int); int main(int argc, char **argv) { return argv[argc] ? socket(0, 0, 0) : 3; }'

    case $kind in
    static) flags=(-static) ;;
    go-note)
        source+=' __asm__(".section .note.go.buildid,\"a\",@note\n.long 4, 4, 4\n.asciz \"Go\\0\"\n.long 0\n.text");'
        ;;
    esac
    printf '%s\n' "$source" | gcc "${flags[@]}" -x c -o "$file" -
    if [[ $kind == other-machine ]]; then
        # e_machine, the halfword at offset 18, becomes an unknown machine.
        printf '\xee\xee' | dd of="$file" bs=1 seek=18 conv=notrunc status=none
    fi
}
