#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Kubernetes' own API server gives the library to the pods that ask, to all of them, and changes nothing else.
# The policy runs under failurePolicy Fail here: an error in it is a refused pod, not one that looks as if it had not asked.

bats_require_minimum_version 1.5.0
load ../../helpers/cluster
OURS=/opt/nagleshim/libnagleshim.so

setup_file() {
    cluster_setup_file
    apply_policies
}

teardown_file() {
    cluster_teardown_file
}

setup() {
    cluster_setup
}

# --- who asks -----------------------------------------------------------------------------------------------------

@test "a pod in a namespace that asks gets the library, the policies, the variable and the label" {
    create asks
    is_injected
    [[ $(preloads app) == "$OURS" ]]
    holds '.spec.containers[0].volumeMounts == [
        {name: "nagleshim", mountPath: "/opt/nagleshim", readOnly: true},
        {name: "nagleshim-policy", mountPath: "/etc/nagleshim", readOnly: true}]'
    holds '.spec.volumes == [{name: "nagleshim", emptyDir: {}},
        {name: "nagleshim-policy", configMap: {name: "nagleshim-policy", optional: true, defaultMode: 420}}]'
    holds '.spec.initContainers | length == 1 and .[0].image == "localhost/nagleshim:0.1.0"
        and .[0].volumeMounts == [{name: "nagleshim", mountPath: "/opt/nagleshim"}]
        and .[0].terminationMessagePolicy == "FallbackToLogsOnError"'
    [[ ! -s $T/warnings ]]
}

@test "a pod that asks for itself gets it in a namespace that says nothing" {
    create quiet '.metadata.labels = {"nagleshim.dev/inject": "true"}'
    is_injected
}

@test "a pod in a namespace that says nothing stays as it is" {
    create quiet
    is_untouched
    [[ ! -s $T/warnings ]]
}

@test "a pod in a namespace that says false stays as it is" {
    create refuses
    is_untouched
}

@test "a pod that says false stays as it is in a namespace that asks" {
    create asks '.metadata.labels = {"nagleshim.dev/inject": "false"}'
    is_untouched
    [[ ! -s $T/warnings ]]
}

@test "a pod that says true gets it in a namespace that says false" {
    create refuses '.metadata.labels = {"nagleshim.dev/inject": "true"}'
    is_injected
}

@test "a pod whose label is neither true nor false stays as it is, and that is told" {
    create asks '.metadata.labels = {"nagleshim.dev/inject": "yes"}'
    is_untouched
    grep -q 'is "yes", which is neither "true" nor "false": nothing is injected' "$T/warnings"
}

@test "a pod in a namespace whose label is neither stays as it is" {
    create odd
    is_untouched
}

@test "a pod in kube-system stays as it is, even where both ask" {
    create kube-system '.metadata.labels = {"nagleshim.dev/inject": "true"}'
    is_untouched
    grep -q 'nothing is ever injected in kube-system' "$T/warnings"
}

@test "a pod without a name of its own gets it" {
    create asks '.metadata = {generateName: "some-"}'
    is_injected
}

@test "a label that only says that a pod is injected keeps nobody from it" {
    create asks '.metadata.labels = {"nagleshim.dev/injected": "true"}'
    is_injected
}

# --- which pods are left alone ------------------------------------------------------------------------------------

@test "a pod for Windows stays as it is, by its os" {
    create asks '.spec.os.name = "windows"'
    is_untouched
}

@test "a pod for Windows stays as it is, by its node selector" {
    create asks '.spec.nodeSelector."kubernetes.io/os" = "windows"'
    is_untouched
}

# needs KEY VALUE...: a filter that has a pod's affinity ask for a node whose label is one of these.
needs() {
    jq -nc '$ARGS.positional as [$key] | {matchExpressions: [{key: $key, operator: "In", values: $ARGS.positional[1:]}]}' \
        --args "$@" | sed 's/.*/.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms = [&]/'
}

@test "a pod for Windows stays as it is, by its affinity, its old selector or its user" {
    local filter
    for filter in "$(needs kubernetes.io/os windows)" '.spec.nodeSelector."beta.kubernetes.io/os" = "windows"' \
        '.spec.securityContext.windowsOptions.runAsUserName = "ContainerUser"' \
        '.spec.containers[0].securityContext.windowsOptions.runAsUserName = "ContainerUser"' \
        '.spec.initContainers = [{name: "once", image: "x", securityContext: {windowsOptions: {runAsUserName: "ContainerUser"}}}]' \
        '.spec.hostNetwork = true | .spec.containers[0].securityContext.windowsOptions.hostProcess = true'; do
        create asks "$filter"
        is_untouched
        grep -q 'asks for nagleshim and is for Windows: nothing is injected' "$T/warnings"
    done
}

@test "a pod whose affinity lets it go to a machine that the image is not for stays as it is" {
    create asks "$(needs kubernetes.io/arch amd64 s390x)"
    is_untouched
    grep -q 'asks for nagleshim and is for a machine that its image is not for' "$T/warnings"
    create asks "$(needs kubernetes.io/arch amd64 arm64)"
    is_injected
}

@test "a pod that says that it is for Linux gets it" {
    create asks "$(needs kubernetes.io/os linux)"' | .spec.os.name = "linux" | .spec.nodeSelector."kubernetes.io/os" = "linux"'
    is_injected
}

@test "a pod for a machine that the image is not for stays as it is" {
    create asks '.spec.nodeSelector."kubernetes.io/arch" = "s390x"'
    is_untouched
}

@test "a pod for arm64 gets it" {
    create asks '.spec.nodeSelector."kubernetes.io/arch" = "arm64"'
    is_injected
}

@test "the mirror of a static pod stays as it is" {
    create asks '.metadata.annotations."kubernetes.io/config.mirror" = "x" | .spec.nodeName = "node"'
    is_untouched
}

@test "a pod with a volume called nagleshim of its own stays as it is" {
    create asks '.spec.volumes = [{name: "nagleshim", emptyDir: {}}]'
    is_untouched
}

@test "a pod with a volume called nagleshim-policy of its own stays as it is" {
    create asks '.spec.volumes = [{name: "nagleshim-policy", emptyDir: {}}]'
    is_untouched
}

@test "a pod with a container called nagleshim of its own stays as it is" {
    create asks '.spec.containers += [{name: "nagleshim", image: "x"}]'
    is_untouched
}

@test "a pod with an init container called nagleshim of its own stays as it is" {
    create asks '.spec.initContainers = [{name: "nagleshim", image: "x"}]'
    is_untouched
}

# --- which containers ---------------------------------------------------------------------------------------------

@test "every container of a pod gets it, and so does an init container that stays, but not one that ends" {
    create asks '.spec.containers += [{name: "other", image: "x"}]
        | .spec.initContainers = [{name: "once", image: "x"}, {name: "stays", image: "x", restartPolicy: "Always"}]'
    is_injected
    [[ $(preloads app) == "$OURS" && $(preloads other) == "$OURS" && $(preloads stays) == "$OURS" ]]
    [[ -z $(preloads once) ]]
    holds '[.spec.initContainers[].name] == ["nagleshim", "once", "stays"]'
    holds '.spec.initContainers[1] | has("volumeMounts") or has("env") | not'
}

@test "the annotation names the containers that get it" {
    create asks '.spec.containers += [{name: "other", image: "x"}, {name: "third", image: "x"}]
        | .metadata.annotations."nagleshim.dev/containers" = "other"'
    is_injected
    [[ -z $(preloads app) && $(preloads other) == "$OURS" && -z $(preloads third) ]]
}

@test "the annotation names init containers, too" {
    create asks '.spec.initContainers = [{name: "before", image: "x"}, {name: "once", image: "x"}]
        | .metadata.annotations."nagleshim.dev/containers" = "once"'
    is_injected
    [[ -z $(preloads app) && -z $(preloads before) && $(preloads once) == "$OURS" ]]
}

@test "blanks and empty names in the annotation do no harm" {
    create asks '.spec.containers += [{name: "other", image: "x"}]
        | .metadata.annotations."nagleshim.dev/containers" = " other , ,app,"'
    [[ $(preloads app) == "$OURS" && $(preloads other) == "$OURS" ]]
}

@test "an annotation that names no container of the pod leaves it as it is, and that is told" {
    create asks '.metadata.annotations."nagleshim.dev/containers" = "nobody"'
    is_untouched
    grep -q 'names what is no container here: nobody' "$T/warnings"
}

@test "a container with something of its own at our path is left alone, and the others get it" {
    create asks '.spec.volumes = [{name: "mine", emptyDir: {}}] | .spec.containers = [
        {name: "app", image: "x"},
        {name: "at", image: "x", volumeMounts: [{name: "mine", mountPath: "/opt/nagleshim"}]},
        {name: "slash", image: "x", volumeMounts: [{name: "mine", mountPath: "/etc/nagleshim/"}]},
        {name: "below", image: "x", volumeMounts: [{name: "mine", mountPath: "/etc/nagleshim/default.json"}]},
        {name: "above", image: "x", volumeMounts: [{name: "mine", mountPath: "/opt"}]},
        {name: "above-slash", image: "x", volumeMounts: [{name: "mine", mountPath: "/opt/"}]},
        {name: "beside", image: "x", volumeMounts: [{name: "mine", mountPath: "/opt/nagleshim-else"}]}]'
    is_injected
    [[ $(preloads app) == "$OURS" && $(preloads beside) == "$OURS" ]]
    [[ -z $(preloads at)$(preloads slash)$(preloads below)$(preloads above)$(preloads above-slash) ]]
    grep -q 'at /opt/nagleshim or /etc/nagleshim: at, slash, below, above, above-slash$' "$T/warnings"
}

@test "so is a container whose path is ours when it is written in another way" {
    local path
    for path in //opt/nagleshim /opt//nagleshim /opt/./nagleshim /./opt/nagleshim/. opt/nagleshim ./opt opt . / /srv/../opt/nagleshim; do
        create asks '.spec.volumes = [{name: "mine", emptyDir: {}}]
            | .spec.containers[0].volumeMounts = [{name: "mine", mountPath: "'"$path"'"}]'
        is_untouched
        grep -q 'at /opt/nagleshim or /etc/nagleshim: app$' "$T/warnings"
    done
    for path in /opt/nagleshim.else //opt/./else opt/.nagleshim /opt/..nagleshim/x; do
        create asks '.spec.volumes = [{name: "mine", emptyDir: {}}]
            | .spec.containers[0].volumeMounts = [{name: "mine", mountPath: "'"$path"'"}]'
        is_injected
        [[ ! -s $T/warnings ]]
    done
}

@test "so is a container that has a block device at our path" {
    local path
    for path in /opt/nagleshim /etc/nagleshim/disk /opt/./nagleshim; do
        create asks '.spec.volumes = [{name: "disk", persistentVolumeClaim: {claimName: "disk"}}]
            | .spec.containers[0].volumeDevices = [{name: "disk", devicePath: "'"$path"'"}]'
        is_untouched
        grep -q 'at /opt/nagleshim or /etc/nagleshim: app$' "$T/warnings"
    done
    create asks '.spec.volumes = [{name: "disk", persistentVolumeClaim: {claimName: "disk"}}]
        | .spec.containers[0].volumeDevices = [{name: "disk", devicePath: "/dev/disk"}]'
    is_injected
    [[ ! -s $T/warnings ]]
}

# --- LD_PRELOAD ---------------------------------------------------------------------------------------------------

# preloading VALUE: a pod with that LD_PRELOAD and another variable on each side.
preloading() {
    create asks ".spec.containers[0].env = [{name: \"A\", value: \"a\"}, {name: \"LD_PRELOAD\", value: \"$1\"},
        {name: \"Z\", value: \"z\"}]"
    holds '[.spec.containers[0].env[].name] == ["A", "LD_PRELOAD", "Z"]'
}

@test "a library that the pod preloads is kept, behind ours" {
    preloading libjemalloc.so.2
    [[ $(preloads app) == "$OURS:libjemalloc.so.2" ]]
}

@test "a list of them is kept in its order, whether colons or blanks are between" {
    preloading '/a/one.so  two.so::/three.so:'
    [[ $(preloads app) == "$OURS:/a/one.so:two.so:/three.so" ]]
}

@test "a sanitizer's library stays first, gcc's and clang's" {
    preloading 'x.so:/usr/lib/libasan.so.8:/c/libclang_rt.tsan-x86_64.so:libsane.so'
    [[ $(preloads app) == "/usr/lib/libasan.so.8:/c/libclang_rt.tsan-x86_64.so:$OURS:x.so:libsane.so" ]]
}

@test "whatever nagleshim run puts first, the policy puts first, too" {
    local list='' expected='' kind
    for kind in asan hwasan lsan msan tsan ubsan; do
        list+="lib$kind.so:x$kind.so:/c/libclang_rt.$kind-x86_64.so:libclang_rt.$kind.so:"
    done
    preloading "$list"
    expected=$(LD_PRELOAD=$list build/nagleshim run -- printenv LD_PRELOAD 2>/dev/null | sed -E "s#[^:]*/libnagleshim.so#$OURS#")
    [[ $expected == *"$OURS:xasan.so"* && $(preloads app) == "$expected" ]]
}

@test "an empty LD_PRELOAD becomes ours" {
    preloading ''
    [[ $(preloads app) == "$OURS" ]]
}

@test "an LD_PRELOAD that names neither a value nor a source becomes ours" {
    create asks '.spec.containers[0].env = [{name: "LD_PRELOAD"}]'
    [[ $(preloads app) == "$OURS" ]]
}

@test "of two LD_PRELOADs the last counts, and is the one that is joined" {
    create asks '.spec.containers[0].env = [{name: "LD_PRELOAD", value: "first.so"}, {name: "LD_PRELOAD", value: "last.so"}]'
    [[ $(preloads app) == $'first.so\n'"$OURS:last.so" ]]
}

@test "another copy of the library gives way to ours" {
    preloading '/usr/local/lib/libnagleshim.so:x.so'
    [[ $(preloads app) == "$OURS:x.so" ]]
}

@test "a container whose LD_PRELOAD comes from elsewhere is left alone, and the others get it" {
    create asks '.spec.containers += [{name: "other", image: "x",
        env: [{name: "LD_PRELOAD", valueFrom: {configMapKeyRef: {name: "c", key: "k"}}}]}]'
    is_injected
    holds '.spec.containers[1] | has("volumeMounts") or (.env | length != 1) | not'
    grep -q 'nothing can be added to an LD_PRELOAD that comes from valueFrom: other$' "$T/warnings"
}

@test "a pod of which no container can get it stays as it is, and that is told" {
    create asks '.spec.containers[0].env = [{name: "LD_PRELOAD", valueFrom: {fieldRef: {fieldPath: "metadata.name"}}}]'
    is_untouched
    grep -q 'asks for nagleshim but does not have it' "$T/warnings"
}

@test "one from elsewhere that a value behind it replaces is no hindrance" {
    create asks '.spec.containers[0].env = [
        {name: "LD_PRELOAD", valueFrom: {fieldRef: {fieldPath: "metadata.name"}}}, {name: "LD_PRELOAD", value: "x.so"}]'
    [[ $(preloads app | tail -n 1) == "$OURS:x.so" ]]
}

@test "a value that one from elsewhere replaces leaves the container alone" {
    create asks '.spec.containers[0].env = [{name: "LD_PRELOAD", value: "x.so"},
        {name: "LD_PRELOAD", valueFrom: {fieldRef: {fieldPath: "metadata.name"}}}]'
    is_untouched
}

# --- the policies -------------------------------------------------------------------------------------------------

@test "the annotation names the ConfigMap of the policies, which need not exist" {
    create asks '.metadata.annotations."nagleshim.dev/policy" = "quotes.v2"'
    holds '.spec.volumes[] | select(.name == "nagleshim-policy").configMap | .name == "quotes.v2" and .optional'
}

@test "a name that no ConfigMap can have leaves the pod as it is, and that is told" {
    create asks '.metadata.annotations."nagleshim.dev/policy" = "Quotes/x"'
    is_untouched
    grep -q 'is "Quotes/x", which no ConfigMap can be called: nothing is injected' "$T/warnings"
    create asks '.metadata.annotations."nagleshim.dev/policy" = "x" * 254'
    is_untouched
    grep -q 'xxx", which no ConfigMap can be called: nothing is injected' "$T/warnings"
    create asks '.metadata.annotations."nagleshim.dev/policy" = "x" * 253'
    is_injected
}

# --- resources and rights -----------------------------------------------------------------------------------------

@test "a Guaranteed pod stays Guaranteed" {
    create asks '.spec.containers[0].resources.limits = {cpu: "1", memory: "64Mi"}'
    holds '.status.qosClass == "Guaranteed" and .spec.initContainers[0].resources == .spec.containers[0].resources'
}

@test "a Burstable pod stays Burstable, and a BestEffort pod BestEffort" {
    create asks '.spec.containers[0].resources.requests = {cpu: "1"}'
    holds '.status.qosClass == "Burstable"'
    create asks
    holds '.status.qosClass == "BestEffort"'
}

@test "a LimitRange without defaults gives the container that copies no other share" {
    kubectl create namespace limited
    kubectl label namespace limited nagleshim.dev/inject=true
    kubectl create -n limited -f - <<<'{apiVersion: v1, kind: LimitRange, metadata: {name: limits}, spec: {limits: [
        {type: Container, min: {memory: 32Mi}, max: {cpu: "2", memory: 1Gi}}]}}'
    create limited '.spec.containers[0].resources = {limits: {cpu: "500m", memory: "64Mi"}}'
    holds '.spec.initContainers[0].resources.limits == {cpu: "500m", memory: "64Mi"}'
}

@test "a quota that has room for the pod has room for it with the library" {
    kubectl create namespace counted
    kubectl label namespace counted nagleshim.dev/inject=true
    kubectl create quota -n counted all --hard=limits.cpu=1,limits.memory=64Mi,requests.cpu=1,requests.memory=64Mi,pods=1
    # No controller is here that would say what is used so far.
    kubectl get quota -n counted all -o json |
        jq '.status = {hard: .spec.hard, used: (.spec.hard | map_values("0"))}' |
        kubectl replace --subresource=status -f -
    create counted '.spec.containers[0].resources = {limits: {cpu: "1", memory: "64Mi"}}'
    is_injected
    ! create counted '.spec.containers[0].resources = {limits: {cpu: "1", memory: "65Mi"}}'
}

@test "a device that the first container claims is not claimed by ours" {
    create asks '.spec.resourceClaims = [{name: "card", resourceClaimName: "card"}]
        | .spec.containers[0].resources = {claims: [{name: "card"}], limits: {cpu: "1"}}'
    holds '.spec.initContainers[0].resources | has("claims") | not'
    holds '.spec.initContainers[0].resources.limits.cpu == "1" and .spec.containers[0].resources.claims[0].name == "card"'
}

@test "the container that copies has no rights, and its user is the image's" {
    create asks
    holds '.spec.initContainers[0].securityContext == {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true,
        runAsNonRoot: true, capabilities: {drop: ["ALL"]}, seccompProfile: {type: "RuntimeDefault"}}'
}

@test "a pod that runs as root may still do so" {
    create asks '.spec.securityContext.runAsUser = 0'
    holds '.spec.initContainers[0].securityContext.runAsNonRoot == false'
}

@test "a pod that PodSecurity's restricted profile lets in is let in with the library" {
    create restricted '.spec.securityContext = {runAsNonRoot: true, seccompProfile: {type: "RuntimeDefault"}}
        | .spec.containers[0].securityContext = {allowPrivilegeEscalation: false, capabilities: {drop: ["ALL"]}}'
    is_injected
    ! create restricted
}

# --- nothing else -------------------------------------------------------------------------------------------------

# A pod that has something of everything.
full_pod='.metadata.labels = {app: "x"} | .metadata.annotations = {note: "y"} | .spec = {
    volumes: [{name: "data", emptyDir: {}}, {name: "conf", configMap: {name: "c"}}],
    initContainers: [{name: "once", image: "x", command: ["a", "b"], volumeMounts: [{name: "data", mountPath: "/data"}]}],
    containers: [
        {name: "app", image: "x", args: ["1", "2"], env: [{name: "A", value: "$(B)"}, {name: "B", valueFrom: {fieldRef:
            {fieldPath: "status.podIP"}}}], envFrom: [{secretRef: {name: "s"}}], volumeMounts: [{name: "data",
            mountPath: "/data"}], ports: [{containerPort: 80}], livenessProbe: {httpGet: {path: "/", port: 80}},
            resources: {requests: {cpu: "10m"}, limits: {memory: "1Gi"}}},
        {name: "proxy", image: "y", securityContext: {readOnlyRootFilesystem: true}, lifecycle: {preStop: {exec:
            {command: ["x"]}}}}],
    securityContext: {fsGroup: 7, supplementalGroups: [8]}, terminationGracePeriodSeconds: 3, hostNetwork: true,
    tolerations: [{operator: "Exists"}], affinity: {nodeAffinity: {}}}'

@test "what a pod had before is there as it was" {
    create asks "$full_pod"
    is_injected
    create_untouched
    diff <(without_identity "$T/untouched.json") <(without_injection "$T/pod.json")
}

@test "a pod that has it already is not changed again" {
    local first
    create asks "$full_pod"
    first=$(without_identity "$T/pod.json")
    jq 'del(.metadata.uid, .metadata.creationTimestamp, .status)' "$T/pod.json" >"$T/again.json"
    create_file asks "$T/again.json"
    diff <(echo "$first") <(without_identity "$T/pod.json")
    [[ ! -s $T/warnings ]]
}

@test "a pod of 50 containers with 100 variables and 20 mounts each gets it in every one, and nothing more" {
    create asks '.spec.volumes = [range(20) | {name: "v\(.)", emptyDir: {}}]
        | .spec.containers = [range(50) | {name: "c\(.)", image: "x", env: ([range(100) | {name: "V\(.)",
            value: "some value of an ordinary length"}] + [{name: "LD_PRELOAD", value: "libjemalloc.so.2 libasan.so.8"}]),
            volumeMounts: [range(20) | {name: "v\(.)", mountPath: "/srv/a/path/of/some/depth/v\(.)"}]}]'
    is_injected
    holds '[.spec.containers[] | select((.env | length) == 101
        and .env[100].value == "libasan.so.8:/opt/nagleshim/libnagleshim.so:libjemalloc.so.2")] | length == 50'
}

@test "an error in the policy as it is shipped lets the pod be created as it is" {
    kubectl create namespace shipped
    kubectl label namespace shipped nagleshim.dev/inject=true
    # The policy is shipped a second time, under another name, and its image cannot be told.
    kubectl kustomize config/kubernetes/base | sed -e 's/name: nagleshim$/name: broken/' -e 's/policyName: nagleshim$/policyName: broken/' \
        -e 's/name: nagleshim-\(namespace\|pod\)-asks/name: broken-\1-asks/' -e 's#"localhost/nagleshim:0.1.0"#string(1 / 0)#' \
        >"$T/broken.yaml"
    kubectl delete mutatingadmissionpolicybinding nagleshim-namespace-asks
    kubectl apply -f "$T/broken.yaml" >/dev/null
    # What it has made shows in the server's own count.
    cluster_until 30 broken_policy_was_asked
    create shipped
    is_untouched
}

broken_policy_was_asked() {
    create shipped || return 1
    kubectl get --raw /metrics | grep -E '^apiserver_mutating_admission_policy_check_total\{.*policy="broken".*\} [1-9]'
}
