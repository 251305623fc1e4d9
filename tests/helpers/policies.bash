# SPDX-License-Identifier: MIT
# Reads tests/policy/policies.table, the policies that the parser's tests and the fuzzer share.

# unpack_policies DIRECTORY: writes each policy to DIRECTORY/valid/NAME.json or DIRECTORY/bad/NAME.json, and the
# errors that are expected for the bad ones to DIRECTORY/expected.
unpack_policies() {
    local directory=$1 line name='' kind
    awk -v keys=0 -f tests/helpers/twice.awk "${policies:-tests/policy/policies.table}" || return
    mkdir -p "$directory/valid" "$directory/bad"
    : >"$directory/expected"
    while IFS= read -r line; do
        if [[ $line == '    '* ]]; then
            [[ $kind == bad ]] || mv "$directory/valid/$name.json" "$directory/bad"
            kind=bad
            echo "$name.json:${line#    }" >>"$directory/expected"
        elif [[ $line && $line != '#'* ]]; then
            name=${line%% *} kind=valid
            printf %b "${line#* }" >"$directory/valid/$name.json"
        fi
    done <"${policies:-tests/policy/policies.table}"
}
