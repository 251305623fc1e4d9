#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Kubernetes' manifests are what Kubernetes takes, and a pod that they have changed runs without a stall.
# What needs an API server is asked of one by `make check-fleet`, which also holds it against the pod that is played here.

bats_require_minimum_version 1.5.0
load ../helpers/command

setup() {
    command_setup
    [[ -e .deps/fleet/openapi/version ]] || cannot_here 'tests/fleet/openapi has not fetched what Kubernetes says of its objects'
    cp -R config/kubernetes "$T/kubernetes"
    BASE=$T/kubernetes/base
}

# mistake TEXT: the manifests of $BASE have one, and it is told in that line.
mistake() {
    run tests/fleet/manifests "$BASE"
    expect_status 1
    expect_part output "$1"
}

@test "the manifests, the overlays and the example are as Kubernetes describes its objects" {
    run tests/fleet/manifests config/kubernetes/base config/kubernetes/overlays/* config/kubernetes/example.yaml
    expect_status 0
    expect_whole output ''
}

@test "a field that Kubernetes does not know, has of another type, or needs, is a mistake" {
    sed -i 's/^  failurePolicy: Ignore/  failurePolicies: Ignore/' "$BASE/inject.yaml"
    mistake 'MutatingAdmissionPolicy nagleshim.spec: failurePolicies is not known'
    cp config/kubernetes/base/inject.yaml "$BASE/"
    sed -i 's/operations: \["CREATE"\]/operations: "CREATE"/' "$BASE/inject.yaml"
    mistake 'resourceRules[0].operations: is no array'
    cp config/kubernetes/base/inject.yaml "$BASE/"
    sed -i '/^kind: ValidatingAdmissionPolicy$/s/$/s/' "$BASE/warn.yaml"
    mistake 'admissionregistration.k8s.io/v1 has no such kind'
    sed -i '/mountPath/d' "$T/kubernetes/example.yaml"
    sed -i 's/^        - name: application$/        - image2: x/' "$T/kubernetes/example.yaml"
    run tests/fleet/manifests "$T/kubernetes/example.yaml"
    expect_part output 'containers[0]: name is missing'
}

@test "a bracket, a name or a function too many in an expression is a mistake" {
    sed -i 's/size(variables.reachedContainers) == 0/(&/' "$BASE/inject.yaml"
    mistake 'mutation: a ( is not closed'
    cp config/kubernetes/base/inject.yaml "$BASE/"
    sed -i 's/variables.namedContainers) > 0/variables.namedContainer) > 0/' "$BASE/inject.yaml"
    mistake 'variable askedContainers: variables.namedContainer is not there yet'
    cp config/kubernetes/base/inject.yaml "$BASE/"
    sed -i 's/name.trim()/name.strip()/' "$BASE/inject.yaml"
    mistake 'variable namedContainers: strip is no function that is used here'
    cp config/kubernetes/base/inject.yaml "$BASE/"
    sed -i 's/entry.matches(variables.sanitizer)/item.matches(variables.sanitizer)/' "$BASE/inject.yaml"
    mistake 'mutation: item is not known'
}

@test "what an API server takes and fails at later is a mistake" {
    # A pod's namespace is not to be had in a match condition.
    sed -i 's/object.spec.?os.?name.orValue("linux")/namespaceObject.metadata.name/' "$BASE/inject.yaml"
    mistake 'matchConditions is-not-for-windows: namespaceObject is not known'
    cp config/kubernetes/base/inject.yaml "$BASE/"
    sed -i 's/path: "\/spec\/volumes", value: \[\]/path: "\/spec\/volumes", value: [Object.spec.volumes{name: "x"}]/' "$BASE/inject.yaml"
    mistake 'a list of Objects is the value of a patch'
}

@test "an overlay that changes another variable than it means is a mistake" {
    BASE=$T/kubernetes/overlays/image-volume
    sed -i 's#/variables/1/#/variables/0/#g' "$BASE/kustomization.yaml"
    mistake "patch: /spec/variables/0/name is 'image', and not 'carrier'"
}

@test "the policy as it is shipped never keeps a pod from being created" {
    [[ $(grep -h '^  failurePolicy: ' config/kubernetes/base/*.yaml | sort -u) == '  failurePolicy: Ignore' ]]
    [[ $(grep -h 'validationActions: ' config/kubernetes/base/*.yaml) == '  validationActions: [Warn, Audit]' ]]
}

@test "the policy's image is the one that is built from these sources" {
    [[ $(grep -o 'localhost/nagleshim:[^"]*' config/kubernetes/base/inject.yaml) == "localhost/nagleshim:$(sed -n 's/^VERSION := //p' Makefile)" ]]
}

# --- the image and a pod with it, where podman can be used ---------------------------------------------------------

@test "the pod as the API server returned it has 50 posts that do not stall, and all 50 without the variable" {
    [[ $EUID -eq 0 ]] || cannot_here 'podman needs root for this'
    MACHINES=$(dpkg --print-architecture) config/image/build "$T/image"
    IMAGE_DIRECTORY=$T/image tests/fleet/play "$T/play" images glibc
    # A machine that is busy may keep a post waiting for as long as a stall takes: that does not come three times.
    for _ in 1 2 3; do
        run tests/fleet/play "$T/play" tests/fleet/returned.json
        expect_status 0
        [[ $output != *'posts 50 stalled 0' ]] || break
    done
    expect_part output 'posts 50 stalled 0'
    jq 'del(.spec.containers[0].env)' tests/fleet/returned.json >"$T/without.json"
    run tests/fleet/play "$T/play" "$T/without.json"
    expect_status 0
    expect_part output 'posts 50 stalled 50'
}

# The program that the image runs, in a directory of this machine.
copier() {
    gcc -std=gnu11 -Os -D_GNU_SOURCE -Ishim -ffreestanding -fno-stack-protector -nostdlib -static \
        -o "$T/copy" shim/image/copy.c
    mkdir "$T/to"
    echo one >"$T/one"
    head -c 300000 /dev/urandom >"$T/two"
}

@test "the image's program copies whole files that anybody can read, and replaces those that are there" {
    copier
    echo old >"$T/to/one"
    echo half >"$T/to/.two.new"
    exec 5<"$T/to/one"
    umask 077
    run "$T/copy" "$T/to" "$T/one" "$T/two"
    expect_status 0
    cmp "$T/one" "$T/to/one"
    cmp "$T/two" "$T/to/two"
    [[ $(stat -c %a "$T/to/one" "$T/to/two") == $'444\n444' ]]
    # Who has it open or mapped keeps what he has.
    [[ $(cat <&5) == old ]]
    [[ $(ls -A "$T/to") == $'one\ntwo' ]]
}

@test "the image's program says in one line what it cannot do, and leaves nothing behind" {
    copier
    run --separate-stderr "$T/copy"
    expect_status 2
    expect_whole stderr 'usage: copy DIRECTORY FILE...'
    run --separate-stderr "$T/copy" "$T/none" "$T/one"
    expect_status 1
    expect_whole stderr "nagleshim: cannot write into $T/none: it is not there"
    run --separate-stderr "$T/copy" "$T/to" "$T/none"
    expect_status 1
    expect_whole stderr "nagleshim: cannot read $T/none: it is not there"
    [[ $EUID -eq 0 ]] || cannot_here 'mounting needs root'
    run --separate-stderr unshare --mount bash -c \
        'mount -t tmpfs -o size=64k tmpfs "$1/to" && "$1/copy" "$1/to" "$1/one" "$1/two"; s=$?; ls -A "$1/to"; exit $s' x "$T"
    expect_status 1
    expect_whole stderr "nagleshim: cannot write $T/to/two: no space is left"
    expect_whole output one
    run --separate-stderr unshare --mount bash -c \
        'mount -t tmpfs -o noexec tmpfs "$1/to" && "$1/copy" "$1/to" "$1/one"; s=$?; ls -A "$1/to"; exit $s' x "$T"
    expect_status 1
    expect_whole stderr "nagleshim: cannot write into $T/to: it is mounted noexec, and no library could be loaded from there"
    expect_whole output ''
    run --separate-stderr unshare --mount bash -c \
        'mount -t tmpfs -o ro tmpfs "$1/to" && "$1/copy" "$1/to" "$1/one"' x "$T"
    expect_status 1
    expect_whole stderr "nagleshim: cannot write $T/to/one: the file system is read-only"
}
