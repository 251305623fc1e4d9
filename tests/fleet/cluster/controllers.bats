#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: The pods of a Deployment get the library, and its controllers make no extra pods.

load ../../helpers/cluster

setup_file() {
    cluster_setup_file
    start_controllers
    apply_policies
}

# pods_of NAMESPACE LABEL COUNT: waits for COUNT pods, and writes the first one to $T/pod.json.
pods_of() {
    cluster_until 30 has_pods "$@"
    jq '.items[0]' "$T/pods.json" >"$T/pod.json"
}

has_pods() {
    kubectl get pods -n "$1" -l "$2" -o json >"$T/pods.json" && jq -e ".items | length == $3" "$T/pods.json"
}

all_injected() {
    jq -e '.items | all(.metadata.labels."nagleshim.dev/injected" == "true" and .spec.initContainers[0].name == "nagleshim"
        and any(.spec.containers[0].env[]; .name == "LD_PRELOAD"))' "$T/pods.json" >/dev/null
}

not_injected() {
    create "$1" && holds '.spec | has("initContainers") | not'
}

is_injected_now() {
    create "$1" && is_injected
}

spec='{containers: [{name: "app", image: "app", args: ["1", "2"]}]}'

@test "the pods of a Deployment get it, and its ReplicaSet makes no extra pods" {
    jq -n "{apiVersion: \"apps/v1\", kind: \"Deployment\", metadata: {name: \"web\"}, spec: {replicas: 3,
        selector: {matchLabels: {app: \"web\"}}, template: {metadata: {labels: {app: \"web\"}}, spec: $spec}}}" |
        kubectl create -n asks -f -
    pods_of asks app=web 3
    all_injected
    sleep 2
    pods_of asks app=web 3
    # The templates stay as they were written: the next roll-out changes nothing by itself.
    [[ $(kubectl get replicasets -n asks -l app=web -o name | wc -l) == 1 ]]
    kubectl get deployment -n asks web -o json | jq -e '.spec.template.spec | has("initContainers") or has("volumes") | not'
}

@test "the pods of a Deployment with \"false\" in its template do not get it, and after a roll-out with \"true\" they do" {
    jq -n "{apiVersion: \"apps/v1\", kind: \"Deployment\", metadata: {name: \"no\"}, spec: {selector: {matchLabels: {app: \"no\"}},
        template: {metadata: {labels: {app: \"no\", \"nagleshim.dev/inject\": \"false\"}}, spec: $spec}}}" |
        kubectl create -n asks -f -
    pods_of asks app=no 1
    holds '.spec | has("initContainers") | not'
    kubectl patch deployment -n asks no --type merge \
        -p '{"spec": {"template": {"metadata": {"labels": {"nagleshim.dev/inject": "true"}}}}}'
    pods_of asks app=no,nagleshim.dev/injected=true 1
    all_injected
}

@test "existing pods of a newly labelled namespace are unchanged, and their replacements get it" {
    kubectl create namespace later
    jq -n "{apiVersion: \"apps/v1\", kind: \"Deployment\", metadata: {name: \"web\"}, spec: {replicas: 1, strategy: {type: \"Recreate\"},
        selector: {matchLabels: {app: \"web\"}}, template: {metadata: {labels: {app: \"web\"}}, spec: $spec}}}" |
        kubectl create -n later -f -
    pods_of later app=web 1
    kubectl label namespace later nagleshim.dev/inject=true
    cluster_until 20 is_injected_now later
    pods_of later app=web 1
    holds '.spec | has("initContainers") | not'
    kubectl rollout restart deployment -n later web
    pods_of later app=web,nagleshim.dev/injected=true 1
    all_injected
    # Without the label the next pods are as before.
    kubectl label namespace later nagleshim.dev/inject-
    cluster_until 20 not_injected later
    # Two restarts are distinguished by their time in seconds.
    sleep 1
    kubectl rollout restart deployment -n later web
    pods_of later 'app=web,!nagleshim.dev/injected' 1
    holds '.spec | has("initContainers") | not'
}

@test "the pod of examples/sidecar satisfies PodSecurity restricted, and the policy leaves it alone" {
    apply_policies
    create_file restricted examples/sidecar/pod.yaml
    [[ $(jq '[.spec.initContainers[], .spec.volumes[]] | map(select(.name | startswith("nagleshim"))) | length' "$T/pod.json") -eq 3 ]]
}

@test "the DaemonSet for programs that cannot be reached is accepted in its own namespace, and in no restricted one" {
    kubectl apply -f config/kubernetes/cure.yaml >"$T/said" 2>&1
    [[ $(<"$T/said") != *Warning* ]]
    kubectl get -n nagleshim daemonset nagleshim-cure -o json |
        jq '{apiVersion: "v1", kind: "Pod", metadata: {name: "cure"}, spec: .spec.template.spec}' >"$T/cure.json"
    create_file nagleshim "$T/cure.json"
    run kubectl create -n restricted --dry-run=server -f "$T/cure.json"
    [[ $status -ne 0 && $output == *'violates PodSecurity "restricted'* ]]
}
