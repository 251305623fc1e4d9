# SPDX-License-Identifier: MIT
# Promise: A mistake that would otherwise be silent causes a warning of one line; nothing is rejected.

load ../../helpers/cluster

setup_file() {
    cluster_setup_file
    apply_policies
}

# workload KIND FILTER: prints one of that kind, changed by a filter of jq, in which "pod" is the metadata of its pods.
workload() {
    jq -n --arg kind "$1" 'def pod: (.spec.jobTemplate.spec // .spec).template.metadata;
        {metadata: {labels: {app: "x"}}, spec: {containers: [{name: "app", image: "app"}]}} as $template
        | {selector: {matchLabels: {app: "x"}}, template: $template} as $selecting
        | {Job: ["batch/v1", {template: ($template | .spec.restartPolicy = "Never")}],
           CronJob: ["batch/v1", {schedule: "@daily", jobTemplate: {spec: {template:
                ($template | .spec.restartPolicy = "Never")}}}],
           Deployment: ["apps/v1", $selecting], DaemonSet: ["apps/v1", $selecting], ReplicaSet: ["apps/v1", $selecting],
           StatefulSet: ["apps/v1", $selecting + {serviceName: "x"}],
           ReplicationController: ["v1", {selector: {app: "x"}, template: $template}]}[$kind]
        | {apiVersion: .[0], kind: $kind, metadata: {name: "x"}, spec: .[1]} | '"$2"
}

# The first word is a namespace, in which a workload of the KIND is created that the filter has changed; or the words are those
# of kubectl that change an existing object. The last word is the only warning; if it is
# empty, there is no warning.
@test "each mistake that would be silent causes one warning, and nothing else does" {
    local where what filter said kind kinds
    pod '.metadata.name = "early"' | kubectl create -n quiet -f -
    while IFS='~' read -r where what filter said; do
        kinds=("$what")
        [[ $what != KIND ]] || kinds=(Deployment StatefulSet DaemonSet ReplicaSet ReplicationController Job CronJob)
        for kind in "${kinds[@]}"; do
            if [[ $where == *\ * ]]; then
                # shellcheck disable=SC2086 # words
                kubectl $where "$what" --dry-run=server >/dev/null 2>"$T/said"
            else
                workload "$kind" "$filter" | kubectl create -n "$where" --dry-run=server -f - >/dev/null 2>"$T/said"
            fi
            echo "$where $kind $filter: expected: $said; said: $(<"$T/said")"
            [[ $(<"$T/said") == "${said:+Warning: Validation failed for ValidatingAdmissionPolicy 'nagleshim-warnings' with binding 'nagleshim-warnings': ${said//KIND/$kind}}" ]]
        done
    done <<'CASES'
asks~KIND~.~
quiet~KIND~.~
quiet~KIND~pod |= {labels: {app: "x", "nagleshim.dev/inject": "true"}, annotations: {"nagleshim.dev/containers": "app", "nagleshim.dev/policy": "p"}}~
quiet~KIND~.metadata.labels."nagleshim.dev/inject" = "true"~nagleshim.dev/inject: set on the KIND instead of its pod template (spec.template.metadata), so it has no effect on the pods
asks~Deployment~.metadata.annotations = {"nagleshim.dev/policy": "p", "nagleshim.dev/containers": "app"}~nagleshim.dev/containers, nagleshim.dev/policy: set on the Deployment instead of its pod template (spec.template.metadata), so it has no effect on the pods
quiet~Deployment~.metadata.labels."nagleshim.dev/inject" = "true" | pod.labels."nagleshim.dev/inject" = "true"~
asks~StatefulSet~pod.labels."nagleshim.dev/inject" = "1"~the label nagleshim.dev/inject is "1", which is neither "true" nor "false": nothing is injected
label namespace quiet~nagleshim.dev/inject=enabled~~the label nagleshim.dev/inject is "enabled", which is neither "true" nor "false": nothing is injected
label namespace quiet~nagleshim.dev/inject=true~~
quiet~Deployment~pod.annotations."nagleshim.dev/inject" = "true"~nagleshim.dev/inject is an annotation here, but only the label of that name has an effect
annotate namespace quiet~nagleshim.dev/inject=true~~nagleshim.dev/inject is an annotation here, but only the label of that name has an effect
quiet~Deployment~pod.labels."nagleshim.dev/injekt" = "true"~nagleshim.dev/injekt: unknown label; allowed is nagleshim.dev/inject, and as annotations of a pod nagleshim.dev/containers and nagleshim.dev/policy
asks~Deployment~pod.labels."nagleshim.dev/policy" = "p"~nagleshim.dev/policy: unknown label; allowed is nagleshim.dev/inject, and as annotations of a pod nagleshim.dev/containers and nagleshim.dev/policy
asks~Job~pod.annotations = {"nagleshim.dev/container": "app", "other.dev/container": "app"}~nagleshim.dev/container: unknown annotation; allowed are nagleshim.dev/containers and nagleshim.dev/policy
annotate namespace asks~nagleshim.dev/policy=p~~nagleshim.dev/policy: unknown annotation of a namespace; use it on a pod
annotate namespace kube-system~some=thing~~pods in kube-system never get nagleshim
kube-system~DaemonSet~.~pods in kube-system never get nagleshim
asks~Job~.spec.template.spec.volumes = [{name: "nagleshim-policy", emptyDir: {}}]~asks for nagleshim but already has a volume called nagleshim or nagleshim-policy, or a container called nagleshim: nothing is injected
asks~Job~.spec.template.spec.initContainers = [{name: "nagleshim", image: "x"}]~asks for nagleshim but already has a volume called nagleshim or nagleshim-policy, or a container called nagleshim: nothing is injected
quiet~Job~.spec.template.spec.initContainers = [{name: "nagleshim", image: "x"}]~
label pod -n quiet early~nagleshim.dev/inject=true~~this pod asks for nagleshim but does not have it; a pod can get it only when it is created
label pod -n quiet early~other=label~~
annotate pod -n quiet early~other=annotation~~
asks~ReplicaSet~pod.labels."nagleshim.dev/inject" = "1"~the label nagleshim.dev/inject is "1", which is neither "true" nor "false": nothing is injected
asks~ReplicaSet~pod.labels."nagleshim.dev/inject" = "1" | .metadata.ownerReferences = [{apiVersion: "apps/v1", kind: "Deployment", name: "x", uid: "1", controller: true}]~
CASES
}

@test "a pod that is older than the label of its namespace causes no warning at other changes" {
    kubectl create namespace before
    pod '.metadata.name = "early"' | kubectl create -n before -f -
    kubectl label namespace before nagleshim.dev/inject=true
    cluster_until 20 pods_of_namespace_get_it before
    run kubectl annotate pod -n before early other=annotation --dry-run=server
    [[ $status -eq 0 && $output != *Warning* ]]
    run kubectl label pod -n before early other=label --dry-run=server
    [[ $output == *'this pod asks for nagleshim but does not have it'* ]]
}

pods_of_namespace_get_it() {
    create "$1" && is_injected
}

@test "a pod that asks for the library causes a warning if the policy is not installed" {
    kubectl delete mutatingadmissionpolicybinding nagleshim-namespace-asks
    cluster_until 20 not_injected
    grep -q 'this pod asks for nagleshim but does not have it' "$T/warnings"
    kubectl apply -f "$CLUSTER/manifests.yaml" >/dev/null
    cluster_until 20 policies_act
}

not_injected() {
    create asks && holds '.spec | has("initContainers") | not'
}

@test "the restricted profile admits the example without a warning" {
    kubectl apply -f config/kubernetes/example.yaml >"$T/said" 2>&1
    [[ $(grep -c created "$T/said") == 3 ]]
    [[ $(<"$T/said") != *[Ww]arning* ]]
    kubectl get deployment -n nagleshim-example application -o json |
        jq '{apiVersion: "v1", kind: "Pod", metadata: (.spec.template.metadata + {name: "x"}), spec: .spec.template.spec}' >"$T/asked.json"
    create_file nagleshim-example "$T/asked.json"
    is_injected
    holds '.status.qosClass == "Guaranteed"'
}

@test "the pod of examples/sidecar satisfies PodSecurity restricted, and the policy leaves it alone" {
    create_file restricted examples/sidecar/pod.yaml
    [[ $(jq '[.spec.initContainers[], .spec.volumes[]] | map(select(.name | startswith("nagleshim"))) | length' "$T/pod.json") -eq 3 ]]
}

@test "the DaemonSets for cure and for counters are accepted in their own namespaces, and in no restricted one" {
    local name space=nagleshim
    for name in cure metrics; do
        kubectl apply -f "config/kubernetes/$name.yaml" >"$T/said" 2>&1
        [[ $(<"$T/said") != *Warning* ]]
        kubectl get -n $space daemonset "nagleshim-$name" -o json |
            jq '{apiVersion: "v1", kind: "Pod", metadata: {name: "one"}, spec: .spec.template.spec}' >"$T/$name.json"
        create_file $space "$T/$name.json"
        run kubectl create -n restricted --dry-run=server -f "$T/$name.json"
        [[ $status -ne 0 && $output == *'violates PodSecurity "restricted'* ]]
        space=nagleshim-metrics
    done
}
