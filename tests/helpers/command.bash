# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # bats sets $status, $output, $stderr
# shellcheck disable=SC2034 # the tests use what is set here
# What the tests of the nagleshim command share: a clean environment, files to feed it, and assertions
# that show what they saw. Must not start anything that outlives a test.

load "${BASH_SOURCE[0]%/*}/common"

command_setup() {
    NS=$PWD/build/nagleshim
    LIBRARY=$(realpath build)/libnagleshim.so
    OBSERVER=${LIBRARY/libnagleshim.so/libnagleshim-observe.so}
    T=$BATS_TEST_TMPDIR
    unset LD_PRELOAD NAGLESHIM_POLICY NAGLESHIM_OFF NAGLESHIM_LOG NAGLESHIM_LOG_FILE
    # No policy of the machine that the tests run on may decide what they see.
    export NAGLESHIM_POLICY_DIR=$T/policies LC_ALL=C
    umask 022 # what others may write to is warned of
    mkdir "$NAGLESHIM_POLICY_DIR"
}

setup() {
    command_setup
}

# All skips go one way.
cannot_here() {
    ns_skip "$1"
}

seen() {
    printf 'status: %s\nstdout: %s\nstderr: %s\n' "$status" "$output" "${stderr:-}"
}

expect_status() {
    [[ $status -eq $1 ]] || {
        echo "expected status $1"
        seen
        return 1
    }
}

# The whole of a stream ("output" or "stderr") is this text.
expect_whole() {
    [[ ${!1} == "$2" ]] || {
        echo "expected $1 to be: $2"
        seen
        return 1
    }
}

# A stream has this text somewhere.
expect_part() {
    [[ ${!1} == *"$2"* ]] || {
        echo "expected in $1: $2"
        seen
        return 1
    }
}

expect_no_part() {
    [[ ${!1} != *"$2"* ]] || {
        echo "not expected in $1: $2"
        seen
        return 1
    }
}

# policy NAME RULES: a policy file with these rules, in JSON; prints its path.
policy() {
    printf '{"version": 1, "rules": [%s]}\n' "$2" >"$T/$1.json"
    echo "$T/$1.json"
}

# A policy whose mistake is in line 2, column 24.
broken_policy() {
    printf '{"version": 1,\n "rules": [{"send": "fast"}]}\n' >"$T/broken.json"
    echo "$T/broken.json"
}

# expect STATUS [STREAM is|has|lacks TEXT]...: the status, and what the streams ("output" or "stderr") are.
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

# each_refused [COMMAND]: for each row WORDS|MESSAGE of standard input the command with these words fails with this one
# message. DIR stands for $T.
each_refused() {
    local row message words
    while IFS='|' read -r row message; do
        read -ra words <<<"${row//DIR/$T}"
        run --separate-stderr "$NS" "$@" "${words[@]}"
        expect 2 output is "" stderr is "nagleshim${1:+ $1: }${message//DIR/$T}"
    done
}

# Directories of root's may lead to DIR: an ordinary user needs a way in.
let_others_in() {
    local dir=$1
    while [[ $dir != / ]]; do
        chmod o+x "$dir" || cannot_here "no way in for another user"
        dir=${dir%/*}
        dir=${dir:-/}
    done
}

# Programs of which each makes one thing true that the shim cannot reach; they exit with 3.
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
        # e_machine, the halfword at 18: none that exists
        printf '\xee\xee' | dd of="$file" bs=1 seek=18 conv=notrunc status=none
    fi
}
