# SPDX-License-Identifier: MIT
# Promise: Kubernetes' API server adds the library to all pods that ask for it, and changes nothing else.
# The policy runs with failurePolicy Fail here, so that an error in it rejects the pod.

load ../../helpers/cluster
OURS=/opt/nagleshim/libnagleshim.so

setup_file() {
    cluster_setup_file
    apply_policies
}

# gets NAMESPACE [FILTER]: a pod that was changed like this gets the library.
gets() {
    create "$@"
    is_injected
}

# stays NAMESPACE [FILTER [WARNING]]: such a pod is not changed, and causes that warning.
stays() {
    create "$1" "${2:-.}"
    is_untouched
    [[ -z ${3-} ]] || grep -qF -- "$3" "$T/warnings"
}

# label VALUE: a filter that sets it on the pod.
label() {
    echo '.metadata.labels = {"nagleshim.dev/inject": "'"$1"'"}'
}

# needs KEY VALUE...: a filter: the pod's affinity requires a node whose label is one of these.
needs() {
    jq -nc '$ARGS.positional as [$key] | {matchExpressions: [{key: $key, operator: "In", values: $ARGS.positional[1:]}]}' \
        --args "$@" | sed 's/.*/.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms = [&]/'
}

# --- which pods ---------------------------------------------------------------------------------------------------

@test "a pod in a namespace that asks gets the library, the policies, the variable and the label" {
    gets asks
    [[ $(preloads app) == "$OURS" ]]
    holds '.spec.containers[0].volumeMounts == [
        {name: "nagleshim", mountPath: "/opt/nagleshim", readOnly: true},
        {name: "nagleshim-policy", mountPath: "/etc/nagleshim", readOnly: true}]'
    holds '.spec.volumes == [{name: "nagleshim", emptyDir: {}},
        {name: "nagleshim-policy", configMap: {name: "nagleshim-policy", optional: true, defaultMode: 420}}]'
    holds '.spec.initContainers | length == 1 and .[0].image == "localhost/nagleshim:local"
        and .[0].volumeMounts == [{name: "nagleshim", mountPath: "/opt/nagleshim"}]
        and .[0].terminationMessagePolicy == "FallbackToLogsOnError"'
    [[ ! -s $T/warnings ]]
}

@test "the label of the pod decides, and without one that of its namespace" {
    gets quiet "$(label true)"
    stays quiet
    [[ ! -s $T/warnings ]]
    stays refuses
    stays asks "$(label false)"
    [[ ! -s $T/warnings ]]
    gets refuses "$(label true)"
    stays asks "$(label yes)" 'is "yes", which is neither "true" nor "false": nothing is injected'
    stays odd
    stays kube-system "$(label true)" 'pods in kube-system never get nagleshim'
    gets asks '.metadata = {generateName: "some-"}'
    # This label only reports.
    gets asks '.metadata.labels = {"nagleshim.dev/injected": "true"}'
}

@test "a pod for Windows or for another machine stays as it is" {
    local filter
    stays asks '.spec.os.name = "windows"'
    stays asks '.spec.nodeSelector."kubernetes.io/os" = "windows"'
    for filter in "$(needs kubernetes.io/os windows)" '.spec.nodeSelector."beta.kubernetes.io/os" = "windows"' \
        '.spec.securityContext.windowsOptions.runAsUserName = "ContainerUser"' \
        '.spec.containers[0].securityContext.windowsOptions.runAsUserName = "ContainerUser"' \
        '.spec.initContainers = [{name: "once", image: "x", securityContext: {windowsOptions: {runAsUserName: "ContainerUser"}}}]' \
        '.spec.hostNetwork = true | .spec.containers[0].securityContext.windowsOptions.hostProcess = true'; do
        stays asks "$filter" 'asks for nagleshim but is for Windows: nothing is injected'
    done
    stays asks '.spec.nodeSelector."kubernetes.io/arch" = "s390x"'
    stays asks "$(needs kubernetes.io/arch amd64 s390x)" 'asks for nagleshim but is for a machine other than amd64 and arm64'
    gets asks "$(needs kubernetes.io/arch amd64 arm64)"
    gets asks '.spec.nodeSelector."kubernetes.io/arch" = "arm64"'
    gets asks "$(needs kubernetes.io/os linux)"' | .spec.os.name = "linux" | .spec.nodeSelector."kubernetes.io/os" = "linux"'
}

@test "a pod stays as it is if it is a mirror, or has a volume or a container of our name" {
    stays asks '.metadata.annotations."kubernetes.io/config.mirror" = "x" | .spec.nodeName = "node"'
    stays asks '.spec.volumes = [{name: "nagleshim", emptyDir: {}}]'
    stays asks '.spec.volumes = [{name: "nagleshim-policy", emptyDir: {}}]'
    stays asks '.spec.containers += [{name: "nagleshim", image: "x"}]'
    stays asks '.spec.initContainers = [{name: "nagleshim", image: "x"}]'
}

# --- which containers ---------------------------------------------------------------------------------------------

@test "every container gets it, and init containers that keep running, but not those that end" {
    gets asks '.spec.containers += [{name: "other", image: "x"}]
        | .spec.initContainers = [{name: "once", image: "x"}, {name: "stays", image: "x", restartPolicy: "Always"}]'
    [[ $(preloads app) == "$OURS" && $(preloads other) == "$OURS" && $(preloads stays) == "$OURS" ]]
    [[ -z $(preloads once) ]]
    holds '[.spec.initContainers[].name] == ["nagleshim", "once", "stays"]'
    holds '.spec.initContainers[1] | has("volumeMounts") or has("env") | not'
}

@test "the annotation names the containers and init containers that get it" {
    local three='.spec.containers += [{name: "other", image: "x"}, {name: "third", image: "x"}]
        | .spec.initContainers = [{name: "before", image: "x"}, {name: "once", image: "x"}]
        | .metadata.annotations."nagleshim.dev/containers" ='
    gets asks "$three \"other\""
    [[ -z $(preloads app)$(preloads third)$(preloads once) && $(preloads other) == "$OURS" ]]
    gets asks "$three \"once\""
    [[ -z $(preloads app)$(preloads before) && $(preloads once) == "$OURS" ]]
    # Blanks and empty names do no harm.
    gets asks "$three \" other , ,app,\""
    [[ $(preloads app) == "$OURS" && $(preloads other) == "$OURS" ]]
    stays asks '.metadata.annotations."nagleshim.dev/containers" = "nobody"' 'names unknown containers: nobody'
}

@test "a container with its own mount at our path is left alone, and the others get it" {
    gets asks '.spec.volumes = [{name: "mine", emptyDir: {}}] | .spec.containers = [
        {name: "app", image: "x"},
        {name: "at", image: "x", volumeMounts: [{name: "mine", mountPath: "/opt/nagleshim"}]},
        {name: "slash", image: "x", volumeMounts: [{name: "mine", mountPath: "/etc/nagleshim/"}]},
        {name: "below", image: "x", volumeMounts: [{name: "mine", mountPath: "/etc/nagleshim/default.json"}]},
        {name: "above", image: "x", volumeMounts: [{name: "mine", mountPath: "/opt"}]},
        {name: "above-slash", image: "x", volumeMounts: [{name: "mine", mountPath: "/opt/"}]},
        {name: "beside", image: "x", volumeMounts: [{name: "mine", mountPath: "/opt/nagleshim-else"}]}]'
    [[ $(preloads app) == "$OURS" && $(preloads beside) == "$OURS" ]]
    [[ -z $(preloads at)$(preloads slash)$(preloads below)$(preloads above)$(preloads above-slash) ]]
    grep -q 'at /opt/nagleshim or /etc/nagleshim: at, slash, below, above, above-slash$' "$T/warnings"
}

@test "other spellings of our path, and block devices there, are recognized" {
    local path told='at /opt/nagleshim or /etc/nagleshim: app'
    local mount='.spec.volumes = [{name: "mine", emptyDir: {}}] | .spec.containers[0].volumeMounts = [{name: "mine", mountPath: '
    local device='.spec.volumes = [{name: "disk", persistentVolumeClaim: {claimName: "disk"}}]
        | .spec.containers[0].volumeDevices = [{name: "disk", devicePath: '
    for path in //opt/nagleshim /opt//nagleshim /opt/./nagleshim /./opt/nagleshim/. opt/nagleshim ./opt opt . / /srv/../opt/nagleshim; do
        stays asks "$mount\"$path\"}]" "$told"
    done
    for path in /opt/nagleshim /etc/nagleshim/disk /opt/./nagleshim; do
        stays asks "$device\"$path\"}]" "$told"
    done
    for path in /opt/nagleshim.else //opt/./else opt/.nagleshim /opt/..nagleshim/x; do
        gets asks "$mount\"$path\"}]"
        [[ ! -s $T/warnings ]]
    done
    gets asks "$device\"/dev/disk\"}]"
    [[ ! -s $T/warnings ]]
}

# --- LD_PRELOAD ---------------------------------------------------------------------------------------------------

# preloading VALUE EXPECTED: a pod with this LD_PRELOAD between two other variables gets the expected one.
preloading() {
    create asks ".spec.containers[0].env = [{name: \"A\", value: \"a\"}, {name: \"LD_PRELOAD\", value: \"$1\"},
        {name: \"Z\", value: \"z\"}]"
    holds '[.spec.containers[0].env[].name] == ["A", "LD_PRELOAD", "Z"]'
    [[ $(preloads app) == "$2" ]]
}

@test "libraries that the pod preloads are kept, after ours, and sanitizers before it" {
    preloading libjemalloc.so.2 "$OURS:libjemalloc.so.2"
    preloading '/a/one.so  two.so::/three.so:' "$OURS:/a/one.so:two.so:/three.so"
    preloading 'x.so:/usr/lib/libasan.so.8:/c/libclang_rt.tsan-x86_64.so:libsane.so' \
        "/usr/lib/libasan.so.8:/c/libclang_rt.tsan-x86_64.so:$OURS:x.so:libsane.so"
    preloading '' "$OURS"
    # Another copy of the library.
    preloading '/usr/local/lib/libnagleshim.so:x.so' "$OURS:x.so"
    create asks '.spec.containers[0].env = [{name: "LD_PRELOAD"}]'
    [[ $(preloads app) == "$OURS" ]]
    # Of two variables the last one counts.
    create asks '.spec.containers[0].env = [{name: "LD_PRELOAD", value: "first.so"}, {name: "LD_PRELOAD", value: "last.so"}]'
    [[ $(preloads app) == $'first.so\n'"$OURS:last.so" ]]
}

@test "the policy puts the same libraries first as nagleshim run does" {
    local list='' expected='' kind
    for kind in asan hwasan lsan msan tsan ubsan; do
        list+="lib$kind.so:x$kind.so:/c/libclang_rt.$kind-x86_64.so:libclang_rt.$kind.so:"
    done
    expected=$(LD_PRELOAD=$list build/nagleshim run -- printenv LD_PRELOAD 2>/dev/null | sed -E "s#[^:]*/libnagleshim.so#$OURS#")
    [[ $expected == *"$OURS:xasan.so"* ]]
    preloading "$list" "$expected"
}

@test "a container whose LD_PRELOAD comes from elsewhere is left alone, and the others get it" {
    local elsewhere='{name: "LD_PRELOAD", valueFrom: {fieldRef: {fieldPath: "metadata.name"}}}'
    gets asks ".spec.containers += [{name: \"other\", image: \"x\", env: [$elsewhere]}]"
    holds '.spec.containers[1] | has("volumeMounts") or (.env | length != 1) | not'
    grep -q 'an LD_PRELOAD from valueFrom cannot be extended: other$' "$T/warnings"
    stays asks ".spec.containers[0].env = [$elsewhere]" 'asks for nagleshim but does not have it'
    stays asks ".spec.containers[0].env = [{name: \"LD_PRELOAD\", value: \"x.so\"}, $elsewhere]"
    # A later value replaces it.
    gets asks ".spec.containers[0].env = [$elsewhere, {name: \"LD_PRELOAD\", value: \"x.so\"}]"
    [[ $(preloads app | tail -n 1) == "$OURS:x.so" ]]
}

# --- the policies -------------------------------------------------------------------------------------------------

@test "an annotation names the ConfigMap of the policies, which need not exist" {
    create asks '.metadata.annotations."nagleshim.dev/policy" = "quotes.v2"'
    holds '.spec.volumes[] | select(.name == "nagleshim-policy").configMap | .name == "quotes.v2" and .optional'
}

@test "with a name that no ConfigMap can have the pod stays as it is, with a warning" {
    stays asks '.metadata.annotations."nagleshim.dev/policy" = "Quotes/x"' \
        'is "Quotes/x", which is not a valid name of a ConfigMap: nothing is injected'
    stays asks '.metadata.annotations."nagleshim.dev/policy" = "x" * 254' 'xxx", which is not a valid name of a ConfigMap: nothing is injected'
    gets asks '.metadata.annotations."nagleshim.dev/policy" = "x" * 253'
}

# --- resources and rights -----------------------------------------------------------------------------------------

@test "the class of a pod stays: Guaranteed, Burstable or BestEffort" {
    create asks '.spec.containers[0].resources.limits = {cpu: "1", memory: "64Mi"}'
    holds '.status.qosClass == "Guaranteed" and .spec.initContainers[0].resources == .spec.containers[0].resources'
    create asks '.spec.containers[0].resources.requests = {cpu: "1"}'
    holds '.status.qosClass == "Burstable"'
    create asks
    holds '.status.qosClass == "BestEffort"'
}

@test "the init container does not claim a device of the first container" {
    create asks '.spec.resourceClaims = [{name: "card", resourceClaimName: "card"}]
        | .spec.containers[0].resources = {claims: [{name: "card"}], limits: {cpu: "1"}}'
    holds '.spec.initContainers[0].resources | has("claims") | not'
    holds '.spec.initContainers[0].resources.limits.cpu == "1" and .spec.containers[0].resources.claims[0].name == "card"'
}

@test "the init container has no rights, and runs as the image's user, or as root if the pod does" {
    create asks
    holds '.spec.initContainers[0].securityContext == {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true,
        runAsNonRoot: true, capabilities: {drop: ["ALL"]}, seccompProfile: {type: "RuntimeDefault"}}'
    create asks '.spec.securityContext.runAsUser = 0'
    holds '.spec.initContainers[0].securityContext.runAsNonRoot == false'
}

@test "PodSecurity's restricted profile still admits a pod with the library" {
    create restricted '.spec.securityContext = {runAsNonRoot: true, seccompProfile: {type: "RuntimeDefault"}}
        | .spec.containers[0].securityContext = {allowPrivilegeEscalation: false, capabilities: {drop: ["ALL"]}}'
    is_injected
    run ! create restricted
}

# --- nothing else -------------------------------------------------------------------------------------------------

# A pod with many kinds of fields.
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

@test "everything else in a pod is unchanged" {
    create asks "$full_pod"
    is_injected
    create_untouched
    diff <(without_identity "$T/untouched.json") <(without_injection "$T/pod.json")
}

@test "a pod that already has the library is not changed again" {
    local first
    create asks "$full_pod"
    first=$(without_identity "$T/pod.json")
    jq 'del(.metadata.uid, .metadata.creationTimestamp, .status)' "$T/pod.json" >"$T/again.json"
    create_file asks "$T/again.json"
    diff <(echo "$first") <(without_identity "$T/pod.json")
    [[ ! -s $T/warnings ]]
}

@test "a pod of 50 containers with 100 variables and 20 mounts each gets it in every container" {
    create asks '.spec.volumes = [range(20) | {name: "v\(.)", emptyDir: {}}]
        | .spec.containers = [range(50) | {name: "c\(.)", image: "x", env: ([range(100) | {name: "V\(.)",
            value: "some value of an ordinary length"}] + [{name: "LD_PRELOAD", value: "libjemalloc.so.2 libasan.so.8"}]),
            volumeMounts: [range(20) | {name: "v\(.)", mountPath: "/srv/a/path/of/some/depth/v\(.)"}]}]'
    is_injected
    holds '[.spec.containers[] | select((.env | length) == 101
        and .env[100].value == "libasan.so.8:/opt/nagleshim/libnagleshim.so:libjemalloc.so.2")] | length == 50'
}

@test "after an error in the policy as shipped the pod is created unchanged" {
    kubectl create namespace shipped
    kubectl label namespace shipped nagleshim.dev/inject=true
    # A second copy of the policy, under another name, with an expression that fails.
    kubectl kustomize config/kubernetes/base | sed -e 's/name: nagleshim$/name: broken/' -e 's/policyName: nagleshim$/policyName: broken/' \
        -e 's/name: nagleshim-\(namespace\|pod\)-asks/name: broken-\1-asks/' -e 's#"localhost/nagleshim:local"#string(1 / 0)#' \
        >"$T/broken.yaml"
    kubectl delete mutatingadmissionpolicybinding nagleshim-namespace-asks
    kubectl apply -f "$T/broken.yaml" >/dev/null
    # The server counts its decisions.
    cluster_until 30 broken_policy_was_asked
    create shipped
    is_untouched
}

broken_policy_was_asked() {
    create shipped || return 1
    kubectl get --raw /metrics | grep -E '^apiserver_mutating_admission_policy_check_total\{.*policy="broken".*\} [1-9]'
}
