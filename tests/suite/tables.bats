# SPDX-License-Identifier: MIT
# Promise: The tables of the tests are read completely, and the texts that count their rows are true.

load ../helpers/common
load ../helpers/policies
load ../helpers/seen
load ../helpers/victims

# refuses FILE COMMAND...: the command reads the table FILE of the tree in $T/tree: it fails if a line comes twice, and names it.
refuses() {
    local file=$T/tree/$1 line
    shift
    line=$(grep -m 1 -nE "${line_of:-^    [a-z]}" "$file" | cut -d : -f 1)
    sed -i "${line}p" "$file"
    run "$@"
    [[ $status -ne 0 && $output == *"comes twice: "* ]] || wrong "a table with line $line twice is read:"$'\n'"$output"
}

@test "a table in which a name or a key comes twice is refused by each program that reads one" {
    local -A row=()
    mkdir "$T/tree"
    cp -R --parents tests/helpers tests/scenarios/seen.table tests/systems/{victims.table,strangers} tests/museum tests/relay \
        tests/policy/policies.table tests/deps "$T/tree"
    SEEN_TABLE=$T/tree/tests/scenarios/seen.table refuses tests/scenarios/seen.table seen_row redhat
    table=$T/tree/tests/systems/victims.table refuses tests/systems/victims.table pair WEBrick
    refuses tests/museum/museum.table "$T/tree/tests/museum/run" httpcore
    line_of='^pair ' refuses tests/relay/relay.table "$T/tree/tests/relay/run" nginx/curl
    refuses tests/systems/strangers/table "$T/tree/tests/systems/strangers/run" redis
    policies=$T/tree/tests/policy/policies.table line_of='^bounds ' refuses tests/policy/policies.table unpack_policies "$T"
    # The tables themselves are read.
    pair WEBrick && seen_row redhat && unpack_policies "$T"
}

@test "a name that no row has is refused by each program that runs rows by name" {
    local command
    for command in museum/run relay/run suite/sabotage systems/architectures/run systems/strangers/run; do
        FAULTS=nosuch run timeout 20 "tests/$command" nosuch
        [[ $status -ne 0 && $output =~ ^[a-z/]+:\ no\ [a-z]+\ nosuch$ ]] || wrong "$command: status $status: $output"
    done
}

@test "the README counts the rows of the museum, of the relay and of the strangers" {
    grep -qF "programs from $(grep -cE '^    report ' tests/museum/museum.table) public reports" README.md
    grep -qF "| $(grep -c '^pair ' tests/relay/relay.table) pairs of a client and a server" README.md
    grep -qF "| $(grep -c '^[a-z]' tests/systems/strangers/table) suites with" README.md
}
