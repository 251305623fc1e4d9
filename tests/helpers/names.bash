# SPDX-License-Identifier: MIT
# shellcheck shell=bash

# names_but PATTERN FILE: for FILTER, the tests of FILE whose names do not match.
names_but() {
    local names
    names=$(sed -nE 's/^@test "(.*)" \{$/\1/p' "$2" | grep -vE "$1" | sed 's/[^A-Za-z0-9 ]/./g' | paste -sd '|')
    echo "^($names)$"
}
