# SPDX-License-Identifier: MIT
# Shared by runs on other releases of Debian: their mirror, and the table of results.

# fail MESSAGE: ends the script, whose path is in "here".
fail() {
    echo "${here#"$PWD/"}: $*" >&2
    exit 1
}

# Sets mirror to Debian's mirror in apt's sources, and proxy to apt's proxy for it.
find_mirror() {
    local format='$(ORIGIN)|$(LABEL)|$(REPO_URI)'
    mirror=$(apt-get indextargets --format "$format" 'Created-By: Packages' |
        sed -n 's/^Debian|Debian|//p' | head -n 1)
    if [[ -z $mirror ]]; then
        apt-get -qq update
        mirror=$(apt-get indextargets --format "$format" 'Created-By: Packages' |
            sed -n 's/^Debian|Debian|//p' | head -n 1)
    fi
    [[ -n $mirror ]] || fail 'apt has no source of Debian here'
    eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
    [[ -z ${http_proxy-} ]] || export http_proxy
    [[ -z ${https_proxy-} ]] || export https_proxy
}

# add_counts FILE: adds the counts of tests/run in FILE to passed, failed and skipped.
add_counts() {
    local p f s
    read -r p f s < <(tail -n 1 "$1" |
        sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p') || true
    # A run that was interrupted has failed.
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) skipped=$((skipped + ${s:-0}))
}

# print_table FILE...: prints a table with a row for each test, and a column for each FILE with the output of tests/run.
print_table() {
    awk -v files="$*" '
        function short(path) { sub(/.*\//, "", path); return path }
        BEGIN {
            n = split(files, file, " ")
            printf "%-9s", ""
            for (i = 1; i < n; i++)
                printf "%-9s", short(file[i])
            print short(file[n])
        }
        /^(not )?ok [0-9]+ / {
            verdict = /^not/ ? "FAILED" : / # skip/ ? "skipped" : "ok"
            name = $0
            sub(/^(not )?ok [0-9]+ /, "", name)
            sub(/ # (skip|in [0-9]+).*/, "", name)
            if (!(name in known)) { known[name] = 1; order[++rows] = name }
            is[name, FILENAME] = verdict
        }
        END {
            for (row = 1; row <= rows; row++) {
                printf "%-9s", ""
                for (i = 1; i <= n; i++)
                    printf "%-9s", ((order[row], file[i]) in is) ? is[order[row], file[i]] : "-"
                print order[row]
            }
        }' "$@"
}
