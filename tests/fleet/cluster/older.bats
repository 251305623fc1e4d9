# SPDX-License-Identifier: MIT
# Promise: With the overlay v1beta1, the API server of Kubernetes 1.34 changes pods and warns as the current one does.

load ../../helpers/cluster

setup_file() {
    start_cluster "$BATS_FILE_TMPDIR/cluster" kube-apiserver-older --feature-gates=MutatingAdmissionPolicy=true \
        --runtime-config=admissionregistration.k8s.io/v1beta1=true
    make_namespaces >/dev/null
    apply_policies overlays/v1beta1
}

@test "this server does not know the version of the base" {
    [[ $(kubectl version -o json | jq -r .serverVersion.gitVersion) == v1.34.* ]]
    manifests base >"$T/base.yaml"
    run kubectl apply --dry-run=server -f "$T/base.yaml"
    [[ $status -ne 0 && $output == *'no matches for kind "MutatingAdmissionPolicy" in version "admissionregistration.k8s.io/v1"'* ]]
}

@test "a pod that asks gets the library, behind a sanitizer and before an allocator, and nothing else changes" {
    create asks '.spec.initContainers = [{name: "once", image: "x", resources: {limits: {cpu: "1"}}}]
        | .spec.containers[0].env = [{name: "LD_PRELOAD", value: "libasan.so.8 libjemalloc.so.2"}]
        | .spec.containers += [{name: "other", image: "x"}]'
    is_injected
    [[ $(preloads app) == libasan.so.8:/opt/nagleshim/libnagleshim.so:libjemalloc.so.2 ]]
    [[ $(preloads other) == /opt/nagleshim/libnagleshim.so && -z $(preloads once) ]]
    create asks '.spec.containers += [{name: "other", image: "x"}]'
    create_untouched
    diff <(without_identity "$T/untouched.json") <(without_injection "$T/pod.json")
    create quiet
    is_untouched
}
