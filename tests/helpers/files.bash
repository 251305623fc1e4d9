# SPDX-License-Identifier: MIT
# Finds test files and their promises. Every function must be called in the root of the tree.
#
# `make check` runs tests/FOLDER/*.bats. Files one folder deeper need their own system and have their own make targets.
# NAME.gen prints a test file, which is written to the same place below build/tests.

# generate_tests: writes the generated files again, so that none is older than its table.
generate_tests() {
    local maker file new
    for maker in tests/*/*.gen tests/*/*/*.gen; do
        [[ -x $maker ]] || continue
        file=build/${maker%.gen}.bats
        mkdir -p "${file%/*}"
        new=$(mktemp "$file.XXXXXX")
        "$maker" >"$new" || {
            rm -f "$new"
            echo "tests/run: $maker has failed" >&2
            return 1
        }
        # Another run may be reading the old file.
        mv -f "$new" "$file"
    done
}

# test_files [DEEP]: prints the files of `make check`, one per line; with DEEP, the others.
test_files() {
    local depth=2
    [[ -z ${1-} ]] || depth=3
    find tests -mindepth "$depth" -maxdepth "$depth" '(' -name '*.bats' -o -name '*.gen' ')' |
        sed -E 's#^(.*)\.gen$#build/\1.bats#' | LC_ALL=C sort
}

# place_of FILE: prints its folder and name below tests or build/tests.
place_of() {
    local place=${1#build/}
    echo "${place#tests/}"
}

# find_tests WHAT: prints the files of a folder, or the file with this path or name.
find_tests() {
    local file wanted=${1#./} found=()
    if [[ -f $1 ]]; then
        realpath -s --relative-base=. "$1"
        return
    fi
    wanted=$(place_of "${wanted%/}")
    while read -r file; do
        case $(place_of "$file") in
        "$wanted" | "$wanted.bats" | "$wanted"/*.bats) found+=("$file") ;;
        */"$wanted" | */"$wanted.bats") [[ $wanted == */* ]] || found+=("$file") ;;
        esac
    done < <(test_files; [[ -d tests/$wanted && $wanted != */* ]] || test_files deep)
    if [[ ${#found[@]} -eq 0 ]]; then
        echo "tests/run: there are no tests called $1: 'tests/run --list' has the names" >&2
        return 1
    elif [[ ${#found[@]} -gt 1 && ! -d tests/$wanted ]]; then
        echo "tests/run: $1 may be each of: ${found[*]}" >&2
        return 1
    fi
    printf '%s\n' "${found[@]}"
}

# promise_of FILE: prints the promise in its first comments.
promise_of() {
    awk '!/^#/ { exit } sub(/^# Promise: /, "") { print; exit }' "$1"
}

# titles_of FILE: prints the names of its tests.
titles_of() {
    sed -nE 's/^@test "(.*)" \{.*$/\1/p' "$1"
}

# pattern_of: prints a FILTER that matches exactly the names on standard input, one per line.
pattern_of() {
    echo "^($(sed 's/[^A-Za-z0-9 ]/./g' | paste -sd '|'))$"
}

# names_but PATTERN FILE...: prints a FILTER for the tests of these files whose names do not match.
names_but() {
    local file
    for file in "${@:2}"; do
        titles_of "$file"
    done | grep -vE -- "$1" | pattern_of
}

# names_of_part FILE PART PARTS: prints a pattern for every PARTS-th test of FILE that matches FILTER, from PART on.
names_of_part() {
    titles_of "$1" | grep -E -- "${FILTER-}" | awk -v part="$2" -v parts="$3" 'NR % parts == part % parts' | pattern_of
}

# limit_of FILE: prints the seconds that each of its tests may take.
limit_of() {
    (
        eval "$(grep -m 1 -E '^ *(export )?BATS_TEST_TIMEOUT=' "$1")"
        echo "$BATS_TEST_TIMEOUT"
    )
}

# says FILE WORD: prints the word after "# WORD:" in its first comments; fails if there is none.
says() {
    local line
    while IFS= read -r line && [[ $line == '#'* ]]; do
        [[ $line != "# $2: "* ]] || break
    done <"$1"
    [[ $line == "# $2: "* ]] || return
    line=${line#"# $2: "}
    echo "${line%% *}"
}

# kind_of FILE: prints "Computes" or "Waits", if its first comments have this word.
kind_of() {
    if says "$1" Computes >/dev/null; then
        echo Computes
    elif says "$1" Waits >/dev/null; then
        echo Waits
    fi
}

# jobs_of KIND FILE...: prints FILE:PART:PARTS, one per line, for the files of this kind. Files with many tests come first, because
# they take longest.
jobs_of() {
    local kind=$1 file parts part tests
    shift
    for file in "$@"; do
        [[ $(kind_of "$file") == "$kind" ]] || continue
        tests=$(titles_of "$file" | grep -cE -- "${FILTER-}") || continue
        parts=$(says "$file" Parts) || parts=1
        ((parts <= tests)) || parts=$tests
        for ((part = 1; part <= parts; part++)); do
            echo "$tests $file:$part:$parts"
        done
    done | sort -s -k 1,1rn | cut -d ' ' -f 2
}

# list_tests: prints every file by its folder, with its number of tests and its promise.
list_tests() {
    local file place folder last='' promise deep status=0 files tests count
    for deep in '' deep; do
        files=0 tests=0
        while read -r file; do
            place=$(place_of "$file")
            folder=${place%/*}
            [[ $folder == "$last" ]] || echo "$folder"
            last=$folder
            promise=$(promise_of "$file")
            count=$(titles_of "$file" | wc -l)
            if [[ -z $promise ]]; then
                echo "tests/run: $file does not say what it promises, in a line '# Promise: ...' above its code" >&2
                status=1
            fi
            place=${place##*/}
            printf '  %-24s %3d  %s\n' "${place%.bats}" "$count" "$promise"
            files=$((files + 1)) tests=$((tests + count))
        done < <(test_files "$deep" | sed -E 's#^(build/)?tests/(.*)#\2 &#' | LC_ALL=C sort | cut -d ' ' -f 2)
        [[ $files -eq 0 ]] || printf '%d tests in %d files%s\n\n' "$tests" "$files" \
            "${deep:+, by make targets of their own: make help}"
    done
    return "$status"
}
