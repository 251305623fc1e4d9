# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Reads tests/policy/policies.table, the policies that the parser's tests and the fuzzer share.

# unpack_policies DIRECTORY: writes each policy to DIRECTORY/valid/NAME.json or DIRECTORY/bad/NAME.json, and the
# errors that are expected for the bad ones to DIRECTORY/expected.
unpack_policies() {
    local directory=$1 line name='' text kind
    local -a errors
    mkdir -p "$directory/valid" "$directory/bad"
    : >"$directory/expected"
    while IFS= read -r line || [[ $name ]]; do
        if [[ $line == '    '* ]]; then
            errors+=("${line#    }")
        elif [[ $name && -z $line ]]; then
            text=${errors[0]} kind=bad
            [[ ${#errors[@]} -gt 1 ]] || kind=valid
            printf %b "$text" >"$directory/$kind/$name.json"
            [[ $kind == valid ]] || printf "$name.json:%s\n" "${errors[@]:1}" >>"$directory/expected"
            name=''
        elif [[ $line != '#'* ]]; then
            name=$line errors=()
        fi
    done <tests/policy/policies.table
}
