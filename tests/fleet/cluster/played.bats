# SPDX-License-Identifier: MIT
# Promise: A pod as the API server returned it runs without stalls, on either libc and with other preloaded libraries.
# podman runs the pods, whose applications post 50 messages to a queue: 50 stall without the library, none with it.

load ../../helpers/cluster

setup_file() {
    [[ $EUID -eq 0 ]] || {
        echo "podman needs root here" >&2
        return 1
    }
    cluster_setup_file
    apply_policies
    # Files of images do not belong below a folder that bats cannot remove.
    tests/fleet/play "$BATS_FILE_TMPDIR/play" images glibc musl jemalloc
}

setup() {
    CLUSTER=$BATS_FILE_TMPDIR/cluster T=$BATS_TEST_TMPDIR PLAY=$BATS_FILE_TMPDIR/play
}

# returned NAMESPACE IMAGE [FILTER]: writes the pod with that image, as the API server returns it, to $T/pod.json.
returned() {
    create "$1" '.spec.restartPolicy = "Never" | .spec.containers[0] |= (.image = "localhost/'"$2"'" | .imagePullPolicy = "Never")
        | '"${3:-.}"
}

# played STALLED [CONFIGMAP]...: runs the pod of $T/pod.json, of whose 50 posts STALLED stall. Its output is in $T/said.
played() {
    local stalled
    tests/fleet/play "$PLAY" "${@:2}" "$T/pod.json" >"$T/said"
    stalled=$(sed -n '$s/^posts 50 stalled \([0-9]*\)$/\1/p' "$T/said")
    # A few of 50 may not stall.
    if [[ -n $stalled ]] && ((stalled != $1 && ($1 == 0 || stalled < 35))); then
        echo "expected $1:"
        cat "$T/said"
        return 1
    fi
}

# The strictest security settings.
strict='.spec.securityContext = {runAsNonRoot: true, runAsUser: 10001, seccompProfile: {type: "RuntimeDefault"}}
    | .spec.containers[0].securityContext = {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true,
        capabilities: {drop: ["ALL"]}}'

@test "with glibc 50 of 50 posts stall without the label, and none with it" {
    returned quiet queue-glibc
    played 50
    returned asks queue-glibc
    played 0
    [[ $(<"$T/said") != *ERROR* ]]
}

@test "also as a user other than root, without capabilities and with a read-only root file system" {
    returned quiet queue-glibc "$strict"
    played 50
    returned restricted queue-glibc "$strict"
    played 0
    returned restricted queue-musl "$strict"
    played 0
}

@test "an allocator that the pod preloads is loaded, too" {
    local preload='.spec.containers[0].env = [{name: "LD_PRELOAD", value: "/usr/lib/libjemalloc.so.2"},
        {name: "MALLOC_CONF", value: "stats_print:true"}]'
    returned quiet queue-jemalloc "$preload"
    played 50
    grep -q 'Begin jemalloc statistics' "$T/said"
    returned asks queue-jemalloc "$preload"
    played 0
    grep -q 'Begin jemalloc statistics' "$T/said"
}

@test "an allocator that the image preloads is lost, because the pod sets LD_PRELOAD, as the README says" {
    local statistics='.spec.containers[0].env = [{name: "MALLOC_CONF", value: "stats_print:true"}]'
    returned quiet queue-image-preloads "$statistics"
    played 50
    grep -q 'Begin jemalloc statistics' "$T/said"
    returned asks queue-image-preloads "$statistics"
    played 0
    run grep 'Begin jemalloc statistics' "$T/said"
    [[ $status -eq 1 ]]
}

@test "with ld-so-preload an allocator that the image preloads is kept, and nothing stalls" {
    apply_policies overlays/ld-so-preload
    returned asks queue-image-preloads '.spec.containers[0].env = [{name: "MALLOC_CONF", value: "stats_print:true"}]'
    played 0
    grep -q 'Begin jemalloc statistics' "$T/said"
    returned restricted queue-glibc "$strict"
    played 0
    # musl does not read this file.
    returned asks queue-musl
    played 50
}

@test "with image-volume nothing stalls, on either libc" {
    apply_policies overlays/image-volume
    returned asks queue-glibc
    played 0
    returned restricted queue-musl "$strict"
    played 0
    apply_policies
}

# config_map CONTENTS: makes a ConfigMap with that policy, under the default name.
config_map() {
    jq -n --arg policy "$1" '{apiVersion: "v1", kind: "ConfigMap", metadata: {name: "nagleshim-policy"},
        data: {"default.json": $policy}}' >"$T/config-map.json"
}

@test "the policy of the ConfigMap applies, and with a broken one the program runs as before" {
    returned asks queue-glibc
    config_map '{"version": 1, "rules": [{"name": "all", "send": "nodelay", "ack": "before-wait"}]}'
    played 0 "$T/config-map.json"
    config_map '{"version": 1, "rules": []}'
    played 50 "$T/config-map.json"
    config_map '{"version": 1, "rules": [{"send": "fast"}]}'
    played 50 "$T/config-map.json"
    [[ $(<"$T/said") != *nagleshim* ]]
}

@test "the pod that make check runs is what the API server returns" {
    local stored=tests/fleet/returned.json
    returned restricted queue-glibc "$strict"
    # A member of the specification is one line.
    jq -Sr 'def rows: to_entries | map("\(.key | tojson): \(.value | tojson)") | join(",\n");
        del(.metadata.uid, .metadata.creationTimestamp) | "{\(del(.spec) | rows),\n\"spec\": {\n\(.spec | rows)}}"' \
        "$T/pod.json" >"$T/now.json"
    # RETURNED=1 replaces the stored pod.
    [[ -z ${RETURNED-} ]] || cp "$T/now.json" "$stored"
    diff "$stored" "$T/now.json"
}
