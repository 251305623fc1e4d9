# SPDX-License-Identifier: MIT
# Promise: A mistake that would otherwise be silent causes a warning of one line; nothing is rejected.

load ../../helpers/cluster

setup_file() {
    cluster_setup_file
    apply_policies
}

# workload KIND [FILTER]: one of that kind, changed by a filter of jq; apply it by `applied NAMESPACE`.
workload() {
    jq -n --arg kind "$1" '
        {metadata: {labels: {app: "x"}}, spec: {containers: [{name: "app", image: "app"}]}} as $template
        | {selector: {matchLabels: {app: "x"}}, template: $template} as $selecting
        | {Job: ["batch/v1", {template: ($template | .spec.restartPolicy = "Never")}],
           CronJob: ["batch/v1", {schedule: "@daily", jobTemplate: {spec: {template:
                ($template | .spec.restartPolicy = "Never")}}}],
           Deployment: ["apps/v1", $selecting], DaemonSet: ["apps/v1", $selecting], ReplicaSet: ["apps/v1", $selecting],
           StatefulSet: ["apps/v1", $selecting + {serviceName: "x"}],
           ReplicationController: ["v1", {selector: {app: "x"}, template: $template}]}[$kind]
        | {apiVersion: .[0], kind: $kind, metadata: {name: "x"}, spec: .[1]} | '"${2:-.}" >"$T/workload.json"
}

# applied NAMESPACE: prints the warnings, one a line.
applied() {
    kubectl create -n "$1" --dry-run=server -f "$T/workload.json" 2>&1 >/dev/null | sed -n "s/^Warning: .*'nagleshim-warnings': //p"
}

# says NAMESPACE TEXT: the warnings are exactly this text.
says() {
    local said
    said=$(applied "$1")
    [[ $said == "$2" ]] || {
        printf 'said: %s\nexpected: %s\n' "$said" "$2"
        return 1
    }
}

@test "correct workloads of every kind cause no warning" {
    for kind in Deployment StatefulSet DaemonSet ReplicaSet ReplicationController Job CronJob; do
        workload "$kind"
        says asks ''
        says quiet ''
        workload "$kind" '(.spec.jobTemplate.spec // .spec).template.metadata |= {
            labels: {app: "x", "nagleshim.dev/inject": "true"},
            annotations: {"nagleshim.dev/containers": "app", "nagleshim.dev/policy": "p"}}'
        grep -q '"nagleshim.dev/policy": "p"' "$T/workload.json"
        says quiet ''
    done
}

@test "a label on the workload instead of its template causes a warning, for every kind" {
    for kind in Deployment StatefulSet DaemonSet ReplicaSet ReplicationController Job CronJob; do
        workload "$kind" '.metadata.labels."nagleshim.dev/inject" = "true"'
        says quiet "nagleshim.dev/inject: set on the $kind instead of its pod template (spec.template.metadata), so it has no effect on the pods"
    done
}

@test "annotations on the workload instead of its template cause a warning, and a label on both does not" {
    workload Deployment '.metadata.annotations = {"nagleshim.dev/policy": "p", "nagleshim.dev/containers": "app"}'
    says asks "nagleshim.dev/containers, nagleshim.dev/policy: set on the Deployment instead of its pod template (spec.template.metadata), so it has no effect on the pods"
    workload Deployment '.metadata.labels."nagleshim.dev/inject" = "true"
        | .spec.template.metadata.labels."nagleshim.dev/inject" = "true"'
    says quiet ''
}

@test "a value other than true and false causes a warning, on a template and on a namespace" {
    workload StatefulSet '.spec.template.metadata.labels."nagleshim.dev/inject" = "1"'
    says asks 'the label nagleshim.dev/inject is "1", which is neither "true" nor "false": nothing is injected'
    run kubectl label namespace quiet nagleshim.dev/inject=enabled --dry-run=server
    [[ $output == *'the label nagleshim.dev/inject is "enabled", which is neither "true" nor "false"'* ]]
    run kubectl label namespace quiet nagleshim.dev/inject=true --dry-run=server
    [[ $output != *Warning* ]]
}

@test "an annotation instead of the label causes a warning" {
    workload Deployment '.spec.template.metadata.annotations."nagleshim.dev/inject" = "true"'
    says quiet 'nagleshim.dev/inject is an annotation here, but only the label of that name has an effect'
    run kubectl annotate namespace quiet nagleshim.dev/inject=true --dry-run=server
    [[ $output == *'nagleshim.dev/inject is an annotation here'* ]]
}

@test "an unknown name with our prefix causes a warning: misspelt, in the wrong place, or on a namespace" {
    workload Deployment '.spec.template.metadata.labels."nagleshim.dev/injekt" = "true"'
    says quiet 'nagleshim.dev/injekt: unknown label; allowed is nagleshim.dev/inject, and as annotations of a pod nagleshim.dev/containers and nagleshim.dev/policy'
    workload Deployment '.spec.template.metadata.labels."nagleshim.dev/policy" = "p"'
    says asks 'nagleshim.dev/policy: unknown label; allowed is nagleshim.dev/inject, and as annotations of a pod nagleshim.dev/containers and nagleshim.dev/policy'
    workload Job '.spec.template.metadata.annotations = {"nagleshim.dev/container": "app", "other.dev/container": "app"}'
    says asks 'nagleshim.dev/container: unknown annotation; allowed are nagleshim.dev/containers and nagleshim.dev/policy'
    run kubectl annotate namespace asks nagleshim.dev/policy=p --dry-run=server
    [[ $status -eq 0 && ${lines[0]} == *"'nagleshim-warnings': nagleshim.dev/policy: unknown annotation of a namespace; use it on a pod" ]]
}

@test "a label on kube-system causes a warning" {
    run kubectl annotate namespace kube-system some=thing --dry-run=server
    [[ $output == *'pods in kube-system never get nagleshim'* ]]
    workload DaemonSet
    says kube-system 'pods in kube-system never get nagleshim'
}

@test "a volume or a container with our name causes a warning" {
    local told='asks for nagleshim but already has a volume called nagleshim or nagleshim-policy, or a container called nagleshim: nothing is injected'
    workload Job '.spec.template.spec.volumes = [{name: "nagleshim-policy", emptyDir: {}}]'
    says asks "$told"
    workload Job '.spec.template.spec.initContainers = [{name: "nagleshim", image: "x"}]'
    says asks "$told"
    says quiet ''
}

@test "a label on an existing pod causes a warning" {
    pod '.metadata.name = "early"' | kubectl create -n quiet -f -
    run kubectl label pod -n quiet early nagleshim.dev/inject=true --dry-run=server
    [[ $status -eq 0 && $output == *'this pod asks for nagleshim but does not have it; a pod can get it only when it is created'* ]]
    run kubectl label pod -n quiet early other=label --dry-run=server
    [[ $status -eq 0 && $output != *Warning* ]]
    run kubectl annotate pod -n quiet early other=annotation --dry-run=server
    [[ $status -eq 0 && $output != *Warning* ]]
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

@test "an object of a controller causes no second warning" {
    workload ReplicaSet '.spec.template.metadata.labels."nagleshim.dev/inject" = "1"'
    says asks 'the label nagleshim.dev/inject is "1", which is neither "true" nor "false": nothing is injected'
    workload ReplicaSet '.spec.template.metadata.labels."nagleshim.dev/inject" = "1" | .metadata.ownerReferences = [
        {apiVersion: "apps/v1", kind: "Deployment", name: "x", uid: "1", controller: true}]'
    says asks ''
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
