# SPDX-License-Identifier: MIT
# Promise: check and explain search a list of policy directories as the library does.

load ../helpers/doctor

setup() {
    ns_setup
    mkdir "$T/namespace" "$T/fleet"
    export NAGLESHIM_POLICY_DIR=$T/namespace:$T/fleet
}

@test "check without a file checks the policies of every directory, in the order of the list" {
    policy fleet/default '{}'
    policy fleet/app '{}'
    policy namespace/other '{}'
    printf '{"version": 2}\n' >"$T/namespace/broken.json"
    run --separate-stderr "$NS" check
    expect 1 output is "$T/namespace/other.json: valid, 1 rule
$T/fleet/app.json: valid, 1 rule
$T/fleet/default.json: valid, 1 rule"
    expect_part stderr "$T/namespace/broken.json:1:13: "
    expect_no_part stderr warning
    rm "$T/namespace/broken.json" "$T/fleet/default.json"
    run --separate-stderr "$NS" check
    expect 0 output has "no default.json in $T/namespace:$T/fleet: programs without a file of their own get the built-in policy"
}

@test "check --dir checks the given directories, which must exist, and ignores the environment" {
    policy fleet/default '{}'
    policy namespace/default '{}'
    printf '{"version": 2}\n' >"$T/fleet/app.json"
    NAGLESHIM_POLICY=/nowhere run --separate-stderr "$NS" check --dir "$T/namespace"
    expect 0 output is "$T/namespace/default.json: valid, 1 rule" stderr is ""
    run --separate-stderr "$NS" check --dir "$T/namespace:$T/fleet" --json
    expect 1 output has "$T/fleet/app.json"
    # As Kubernetes puts a ConfigMap there: links, through a hidden directory.
    mkdir -p "$T/volume/..2026"
    policy volume/..2026/default '{}'
    ln -s ..2026 "$T/volume/..data"
    ln -s ..data/default.json "$T/volume/default.json"
    run --separate-stderr "$NS" check --dir "$T/volume"
    expect 0 output is "$T/volume/default.json: valid, 1 rule"
    run --separate-stderr "$NS" check --dir "$T/namespace:$T/missing"
    expect 2 stderr is "nagleshim check: the directory '$T/missing': No such file or directory"
    run --separate-stderr "$NS" check --dir "$T/fleet/default.json"
    expect 2 stderr is "nagleshim check: the directory '$T/fleet/default.json': Not a directory"
    run --separate-stderr "$NS" check --dir "$T/fleet" "$T/fleet/default.json"
    expect 2 stderr is "nagleshim check: '$T/fleet/default.json': a file and --dir cannot be used together"
}

@test "check reports a directory that cannot be read" {
    [[ $EUID -eq 0 ]] || cannot_here "not root"
    local -a as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups "$T/nagleshim")
    cp "$NS" "$T/nagleshim"
    policy fleet/app '{}'
    let_others_in "$T"
    chmod 0700 "$T/namespace"
    run --separate-stderr "${as_other[@]}" check
    expect 2 output is "$T/fleet/app.json: valid, 1 rule"
    expect_whole stderr "nagleshim check: the directory '$T/namespace': Permission denied"
    # The library is disabled then.
    run --separate-stderr "${as_other[@]}" explain --role client app
    expect 2 output has "tried: $T/namespace/app.json: Permission denied"
    chmod 0755 "$T/namespace"
    run -0 --separate-stderr "${as_other[@]}" check
}
