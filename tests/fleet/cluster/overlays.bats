# SPDX-License-Identifier: MIT
# Promise: Each overlay changes only how the library gets into a pod; so does an overlay of the user.

load ../../helpers/cluster

restricted_pod='.spec.securityContext = {runAsNonRoot: true, seccompProfile: {type: "RuntimeDefault"}}
    | .spec.containers[0].securityContext = {allowPrivilegeEscalation: false, capabilities: {drop: ["ALL"]}}'

@test "image-volume mounts the image, without an init container" {
    apply_policies overlays/image-volume
    create asks '.spec.initContainers = [{name: "once", image: "x"}]'
    is_injected
    holds '.spec.volumes[0] == {name: "nagleshim",
        image: {reference: "localhost/nagleshim:local", pullPolicy: "IfNotPresent"}}'
    holds '[.spec.initContainers[].name] == ["once"]'
    [[ $(preloads app) == /opt/nagleshim/libnagleshim.so ]]
    holds '.spec.containers[0].volumeMounts[0] == {name: "nagleshim", mountPath: "/opt/nagleshim", readOnly: true}'
    create restricted "$restricted_pod"
    is_injected
}

@test "with image-volume a pod keeps everything else, and is not changed again" {
    apply_policies overlays/image-volume
    create asks
    create_untouched
    diff <(without_identity "$T/untouched.json") <(without_injection "$T/pod.json")
    cp "$T/pod.json" "$T/first.json"
    jq 'del(.metadata.uid, .metadata.creationTimestamp, .status)' "$T/pod.json" >"$T/again.json"
    create_file asks "$T/again.json"
    diff <(without_identity "$T/first.json") <(without_identity "$T/pod.json")
}

@test "ld-so-preload mounts the file, and changes no LD_PRELOAD" {
    apply_policies overlays/ld-so-preload
    create asks '.spec.containers += [
        {name: "own", image: "x", env: [{name: "LD_PRELOAD", value: "libjemalloc.so.2"}]},
        {name: "elsewhere", image: "x", env: [{name: "LD_PRELOAD", valueFrom: {configMapKeyRef: {name: "c", key: "k"}}}]}]'
    is_injected
    holds '.spec.containers[0] | has("env") | not'
    holds '.spec.containers[1].env == [{name: "LD_PRELOAD", value: "libjemalloc.so.2"}]'
    holds '[.spec.containers[].volumeMounts | length] == [3, 3, 3]'
    holds '.spec.containers[2].volumeMounts[2] ==
        {name: "nagleshim", mountPath: "/etc/ld.so.preload", subPath: "ld.so.preload", readOnly: true}'
    [[ ! -s $T/warnings ]]
    create restricted "$restricted_pod"
    is_injected
}

@test "with ld-so-preload a container with its own /etc/ld.so.preload is left alone, with a warning" {
    apply_policies overlays/ld-so-preload
    create asks '.spec.volumes = [{name: "mine", configMap: {name: "mine"}}]
        | .spec.containers[0].volumeMounts = [{name: "mine", mountPath: "/etc/ld.so.preload", subPath: "x"}]
        | .spec.containers += [{name: "other", image: "x"}]'
    is_injected
    holds '.spec.containers[0].volumeMounts | length == 1'
    grep -q 'at /opt/nagleshim or /etc/nagleshim or /etc/ld.so.preload: app$' "$T/warnings"
}

@test "the overlay in the README sets the image" {
    mkdir "$T/mine"
    ln -s "$PWD/config/kubernetes" "$T/kubernetes"
    sed -n '/^```yaml$/,/^```$/ { /^```/d; p }' config/kubernetes/README.md >"$T/mine/kustomization.yaml"
    grep -q 'registry.example/nagleshim' "$T/mine/kustomization.yaml"
    sed -i "s#- nagleshim/config/kubernetes/#- ../kubernetes/#" "$T/mine/kustomization.yaml"
    kubectl kustomize "$T/mine" | sed 's/failurePolicy: Ignore/failurePolicy: Fail/' >"$CLUSTER/manifests.yaml"
    kubectl apply -f "$CLUSTER/manifests.yaml" >/dev/null
    cluster_until 30 policies_act
    create asks
    holds '.spec.initContainers[0].image | startswith("registry.example/nagleshim@sha256:")'
}

@test "with both overlays the init container copies, because a single file of an image cannot be mounted" {
    kubectl kustomize config/kubernetes/overlays/ld-so-preload |
        sed -e 's/failurePolicy: Ignore/failurePolicy: Fail/' -e "s/expression: '\"init-container\"'/expression: '\"image-volume\"'/" \
            >"$CLUSTER/manifests.yaml"
    grep -q "expression: '\"image-volume\"'" "$CLUSTER/manifests.yaml"
    kubectl apply -f "$CLUSTER/manifests.yaml" >/dev/null
    cluster_until 30 copies
    holds '.spec.containers[0].volumeMounts[2].subPath == "ld.so.preload"'
    holds '.spec.volumes[0] == {name: "nagleshim", emptyDir: {}}'
}

copies() {
    create asks && is_injected && holds '(.spec.initContainers | length == 1) and (.spec.containers[0] | has("env") | not)'
}
