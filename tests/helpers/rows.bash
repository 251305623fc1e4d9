# SPDX-License-Identifier: MIT
# Shared by tests/museum/run and tests/relay/run, whose rows are pairs of other people's programs. A run installs what each row
# needs, and then runs the rows in namespaces of its own. It defines: install_row NAME, run_row NAME, which prints the result
# and sets "wrong" to what is not as expected, and print_heads.

# The helpers were written for bats.
bats_require_minimum_version() {
    :
}
. tests/helpers/common.bash
. tests/helpers/victims.bash
BATS_TEST_TMPDIR=$(mktemp -d)
# Databases run as other users.
chmod 711 "$BATS_TEST_TMPDIR"
trap 'rm -rf "$BATS_TEST_TMPDIR"' EXIT
ns_setup
export NS_ISOLATED=1 left_out=${left_out-0}

# run_rows --inside NAME...: runs the rows in a network namespace. Without --inside, installs the rows first and enters one; a
# row that cannot be installed is skipped. run_row must not be called in a condition, because set -e would have no effect.
run_rows() {
    local passed=0 failed=0 name said ready=() as_root=()
    if [[ $1 != --inside ]]; then
        for name; do
            if said=$(install_row "$name" 2>&1); then
                ready+=("$name")
            else
                left_out=$((left_out + 1))
                printf '%s cannot be installed:\n%s\n' "$name" "$said"
            fi
        done
        ((EUID == 0)) || as_root=(--map-root-user)
        NS_SESSION=1 setpriv --pdeathsig KILL unshare "${as_root[@]}" --net --pid --fork --kill-child --mount-proc \
            setsid -w "$self" --inside "${ready[@]}"
        return
    fi
    ip link set lo up
    ns_prompt
    print_heads
    for name in "${@:2}"; do
        run_row "$name"
        [[ -z $wrong ]] && passed=$((passed + 1)) || failed=$((failed + 1))
    done
    echo "$passed passed, $failed failed, $left_out skipped"
    [[ $failed -eq 0 && ($left_out -eq 0 || ${NAGLESHIM_MUST_WORK-} != 1) ]]
}
