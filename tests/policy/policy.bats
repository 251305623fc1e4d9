# SPDX-License-Identifier: MIT
# Promise: Valid policies are accepted, and each mistake is rejected with one line that names the place and the mistake.
# Computes: the unit tests try many inputs.
# It also runs the unit tests of the parts that need no preloading.

BATS_TEST_TIMEOUT=600 # at a low priority
load ../helpers/command
load ../helpers/policies

@test "every unit test passes, and the build contains all of them" {
    local source program failed=0
    for source in tests/unit/test_*.c; do
        program=build/unit/$(basename "$source" .c)
        if ! "$program" >"$T/unit"; then
            echo "$program failed:"
            grep -v '^ok' "$T/unit" || true
            failed=1
        fi
        grep -q '^ok 1 ' "$T/unit" || {
            echo "$program tested nothing"
            [[ ${NAGLESHIM_MUST_WORK:-} != 1 ]] || failed=1
        }
    done
    [[ $failed -eq 0 ]]
}

@test "every mistake in a policy is rejected with one line that names the place and the mistake" {
    local expected line n=0
    unpack_policies "$T"
    cd "$T/bad"
    run --separate-stderr "$NS" check ./*.json
    expect 1 output is ''
    mapfile -t lines <<<"$stderr"
    while IFS= read -r expected; do
        line=${lines[n++]#./}
        [[ $expected != *'[...]' ]] || line=${line::${#expected}-5}'[...]'
        [[ $line == "$expected" ]] || wrong "expected: $expected"$'\n'"printed:  $line"
    done <"$T/expected"
    [[ $n -eq ${#lines[@]} && $n -gt 75 ]]
}

@test "the library rejects the policies that check rejects, with the same line" {
    local file line expected
    unpack_policies "$T"
    cd "$T/bad"
    for file in *.json; do
        line=$(NAGLESHIM_POLICY=$file LD_PRELOAD=$LIBRARY "$(type -P true)" 2>&1)
        expected=$(grep -m 1 "^$file:" "$T/expected")
        [[ $line == *": ${expected%'[...]'}"*'; no socket is touched' ]] ||
            wrong "expected: $expected"$'\n'"printed:  $line"
    done
}

@test "the default policy and every example policy are accepted without a warning" {
    run -0 --separate-stderr "$NS" check config/default.json config/policies/*.json
    [[ -z $stderr ]] || unexpected
}

@test "the schema and the parser agree" {
    ns_python jsonschema
    unpack_policies "$T"
    "$python" tests/policy/schema_check.py "$NS" "$T" >"$T/schema" || wrong "$(grep -v '^ok' "$T/schema")"
}
