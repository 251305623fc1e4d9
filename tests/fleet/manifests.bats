# SPDX-License-Identifier: MIT
# Promise: The Kubernetes manifests name what there is, prevent no pod from starting, and the image's program copies whole files.
# `make check-packaging` runs a pod that the policy has changed, and `make check-fleet` applies the manifests to a real API server.

load ../helpers/command

@test "the policy as shipped never prevents the creation of a pod" {
    [[ $(grep -h '^  failurePolicy: ' config/kubernetes/base/*.yaml | sort -u) == '  failurePolicy: Ignore' ]]
    [[ $(grep -h 'validationActions: ' config/kubernetes/base/*.yaml) == '  validationActions: [Warn, Audit]' ]]
}

@test "the policy names the image as make image names it" {
    local name='localhost/nagleshim:[^"]*'
    [[ $(grep -o "$name" config/kubernetes/base/inject.yaml) == "$(grep -o "$name" config/image/build)" ]]
}

@test "the policy, the commands and the probes of the DaemonSet for cure work" {
    local line words
    [[ $EUID -eq 0 ]] || cannot_here 'cure needs root here'
    sed -n 's/^    { "version"/{ "version"/p' config/kubernetes/cure.yaml >"$T/cure.json"
    "$NS" check "$T/cure.json"
    while read -r line; do
        IFS=', ' read -ra words <<<"${line//\"/}"
        words=("${words[@]/#\/policy/$T}")
        echo "${words[@]}"
        # The command runs until it is ended, and the probe says that the kernel takes the programs.
        run timeout 1 "$NS" "${words[@]:1}"
        [[ $status -eq $([[ " ${words[*]} " == *' --dry-run '* ]] && echo 0 || echo 124) ]] || unexpected "${words[*]}"
        [[ $output != *'does not cure'* ]] || unexpected "${words[*]}"
    done < <(sed -nE 's/.*command: \[(.*)\].*/\1/p' config/kubernetes/cure.yaml)
}

@test "the PodMonitor and the DaemonSets select the pods that are made, and the port has the name that the monitor reads" {
    local file label port
    cd config/kubernetes
    for file in cure.yaml metrics.yaml; do
        label=$(sed -n 's/^  selector: {matchLabels: {\(.*\)}}$/\1/p' "$file")
        [[ $label == 'app: nagleshim-'* ]]
        grep -qF "      labels: {$label, app.kubernetes.io/name: nagleshim, " "$file" ||
            grep -qF "    metadata: {labels: {$label, app.kubernetes.io/name: nagleshim, " "$file"
    done
    grep -qxF "  selector: {matchLabels: {$label}}" podmonitor.yaml
    port=$(sed -n 's/^    - port: //p' podmonitor.yaml)
    grep -qF "ports: [{name: $port, containerPort: 9105}]" metrics.yaml
    [[ $(sed -n 's/^  namespace: //p' podmonitor.yaml) == "$(sed -n 's/^  namespace: //p' metrics.yaml)" ]]
}

@test "check-fleet first says that Go is too old" {
    mkdir -p "$T/tests/fleet" "$T/bin"
    cp -r tests/helpers tests/fleet "$T/tests"
    printf '#!/bin/sh\necho go1.19.8\n' >"$T/bin/go"
    chmod +x "$T/bin/go"
    PATH=$T/bin:$PATH run "$T/tests/fleet/build" --check
    [[ $status -eq 1 && $output == "fleet: Kubernetes needs Go "*", and this machine has go1.19.8: see https://go.dev/dl" ]]
    sed -i 's/go1.19/go1.99/' "$T/bin/go" # the control
    PATH=$T/bin:$PATH "$T/tests/fleet/build" --check
}

# The program that the image runs, in a directory of this machine.
copier() {
    gcc -std=gnu11 -Os -D_GNU_SOURCE -Ishim -ffreestanding -fno-stack-protector -nostdlib -static \
        -o "$T/copy" shim/image/copy.c
    mkdir "$T/to"
    echo one >"$T/one"
    head -c 300000 /dev/urandom >"$T/two"
}

@test "the image's program copies whole files, readable by everybody, and replaces existing ones" {
    copier
    echo old >"$T/to/one"
    echo half >"$T/to/.two.new"
    exec 5<"$T/to/one"
    umask 077
    run -0 "$T/copy" "$T/to" "$T/one" "$T/two"
    cmp "$T/one" "$T/to/one"
    cmp "$T/two" "$T/to/two"
    [[ $(stat -c %a "$T/to/one" "$T/to/two") == $'444\n444' ]]
    # A process that has the old file open or mapped keeps it.
    [[ $(cat <&5) == old ]]
    [[ $(ls -A "$T/to") == $'one\ntwo' ]]
}

@test "the image's program reports an error in one line, and leaves nothing behind" {
    copier
    run --separate-stderr "$T/copy"
    expect 2 stderr is 'usage: copy DIRECTORY FILE...'
    run --separate-stderr "$T/copy" "$T/none" "$T/one"
    expect 1 stderr is "nagleshim: cannot write into $T/none: it is not there"
    run --separate-stderr "$T/copy" "$T/to" "$T/none"
    expect 1 stderr is "nagleshim: cannot read $T/none: it is not there"
    { [[ $EUID -eq 0 ]] && unshare --mount true; } || cannot_here 'mounting needs root'
    run --separate-stderr unshare --mount bash -c \
        'mount -t tmpfs -o size=64k tmpfs "$1/to" && "$1/copy" "$1/to" "$1/one" "$1/two"; s=$?; ls -A "$1/to"; exit $s' x "$T"
    expect 1 stderr is "nagleshim: cannot write $T/to/two: no space is left" output is one
    run --separate-stderr unshare --mount bash -c \
        'mount -t tmpfs -o noexec tmpfs "$1/to" && "$1/copy" "$1/to" "$1/one"; s=$?; ls -A "$1/to"; exit $s' x "$T"
    expect 1 stderr is "nagleshim: cannot write into $T/to: it is mounted noexec, and no library could be loaded from there"
    expect_whole output ''
    run --separate-stderr unshare --mount bash -c \
        'mount -t tmpfs -o ro tmpfs "$1/to" && "$1/copy" "$1/to" "$1/one"' x "$T"
    expect 1 stderr is "nagleshim: cannot write $T/to/one: the file system is read-only"
}
