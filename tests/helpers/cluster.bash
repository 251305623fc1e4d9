# SPDX-License-Identifier: MIT
# Starts a Kubernetes API server with etcd on loopback. There are no controllers, no scheduler and no kubelet, so pods stay
# pending. The tests check what admission has changed in them. Ends only processes that it started.

CLUSTER_SERVERS=$PWD/.deps/fleet
CLUSTER_ADMIN=cluster-admin-token

# start_cluster_server NAME ARGUMENT...: starts it in the background, with its messages in a file of its name.
start_cluster_server() {
    local name=$1
    shift
    "$CLUSTER_SERVERS/$name" "$@" >"$CLUSTER/$name.log" 2>&1 3>&- &
    echo "$!" >>"$CLUSTER/started"
}

# cluster_until SECONDS COMMAND...: repeats the command until it succeeds.
cluster_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS > end)); then
            echo "not within its time: $*" >&2
            return 1
        fi
        sleep 0.1
    done
}

kubectl() {
    "$CLUSTER_SERVERS/kubectl" --kubeconfig "$CLUSTER/config" "$@"
}

cluster_ready() {
    kubectl get --raw /readyz && kubectl get namespace default
}

# start_cluster DIRECTORY [SERVER OPTION...]: starts the cluster, which writes only there. SERVER is the file of another version
# of kube-apiserver, and gets these options, too.
start_cluster() {
    CLUSTER=$1
    local etcd=http://127.0.0.1:2379 peers=http://127.0.0.1:2380 port=6443
    mkdir -p "$CLUSTER/certificates"
    openssl genrsa -out "$CLUSTER/accounts.key" 2048 2>/dev/null
    echo "$CLUSTER_ADMIN,admin,admin,system:masters" >"$CLUSTER/tokens"
    start_cluster_server etcd --data-dir "$CLUSTER/etcd" --unsafe-no-fsync --log-level error \
        --listen-client-urls "$etcd" --advertise-client-urls "$etcd" --listen-peer-urls "$peers" \
        --initial-advertise-peer-urls "$peers" --initial-cluster "default=$peers"
    start_cluster_server "${2:-kube-apiserver}" "${@:3}" --etcd-servers "$etcd" --bind-address 127.0.0.1 --secure-port "$port" \
        --advertise-address 127.0.0.1 --endpoint-reconciler-type none --cert-dir "$CLUSTER/certificates" \
        --token-auth-file "$CLUSTER/tokens" --authorization-mode RBAC --allow-privileged \
        --service-cluster-ip-range 10.0.0.0/24 \
        --disable-admission-plugins ServiceAccount --service-account-issuer https://cluster.test \
        --service-account-key-file "$CLUSTER/accounts.key" --service-account-signing-key-file "$CLUSTER/accounts.key"
    cat >"$CLUSTER/config" <<END
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:$port", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $CLUSTER_ADMIN}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
END
    cluster_until 60 cluster_ready || {
        tail -n 20 "$CLUSTER"/*.log >&2
        return 1
    }
}

cluster_ended() {
    ! kill -0 "$1" 2>/dev/null || [[ $(ps -o stat= -p "$1") == Z* ]]
}

stop_cluster() {
    local pid
    [[ -e $CLUSTER/started ]] || return 0
    # The API server ends before its store.
    while read -r pid; do
        kill "$pid" 2>/dev/null || continue
        cluster_until 20 cluster_ended "$pid" || kill -KILL "$pid"
    done < <(tac "$CLUSTER/started")
    rm -f "$CLUSTER/started"
}

# --- manifests, and what admission does with a pod ---------------------------------------------------------------------

# manifests [OVERLAY]: prints the manifests as shipped, but with failurePolicy Fail, so that an error of the policy rejects
# a pod. Under Ignore the pod would look as if it had not asked for the library.
manifests() {
    kubectl kustomize "config/kubernetes/${1:-base}" | sed 's/failurePolicy: Ignore/failurePolicy: Fail/'
}

# apply_policies [OVERLAY]: applies them, and waits until they are in force.
apply_policies() {
    manifests "$@" >"$CLUSTER/manifests.yaml"
    kubectl apply -f "$CLUSTER/manifests.yaml" >/dev/null
    cluster_until 30 policies_act
}

# Are the applied manifests in force, for changes and for warnings?
policies_act() {
    local volume=emptyDir variable=LD_PRELOAD
    ! grep -q "expression: '\"image-volume\"'$" "$CLUSTER/manifests.yaml" || volume=image
    ! grep -q "expression: '\"ld.so.preload\"'$" "$CLUSTER/manifests.yaml" || variable=
    pod '.metadata.name = "try" | .spec.containers += [{name: "other", image: "x",
            env: [{name: "LD_PRELOAD", valueFrom: {fieldRef: {fieldPath: "metadata.name"}}}]}]' |
        kubectl create -n asks --dry-run=server -o json -f - >"$CLUSTER/try" 2>"$CLUSTER/said" &&
        jq -e --arg volume "$volume" --arg variable "$variable" '
            (.spec.volumes | any(.name == "nagleshim" and has($volume))) and
            (.spec.containers[0].env[0].name // "") == $variable' "$CLUSTER/try" &&
        [[ ($variable && $(<"$CLUSTER/said") == *valueFrom*) || (! $variable && ! -s $CLUSTER/said) ]]
}

make_namespaces() {
    local name
    for name in asks refuses odd quiet restricted; do
        kubectl create namespace "$name"
    done
    kubectl label namespace asks restricted nagleshim.dev/inject=true
    kubectl label namespace refuses nagleshim.dev/inject=false
    kubectl label namespace odd nagleshim.dev/inject=yes
    kubectl label namespace kube-system nagleshim.dev/inject=true
    kubectl label namespace restricted pod-security.kubernetes.io/enforce=restricted
}

# pod [FILTER]: prints a pod of one container, changed by a filter of jq.
pod() {
    jq -n '{apiVersion: "v1", kind: "Pod", metadata: {name: "pod"}, spec: {containers: [{name: "app", image: "app"}]}}
        | '"${1:-.}"
}

# create NAMESPACE [FILTER]: creates the pod, and writes the pod that the API server returns to $T/pod.json and its warnings
# to $T/warnings. Fails if the pod is rejected.
create() {
    pod "${2:-.}" >"$T/asked.json"
    create_file "$1" "$T/asked.json"
}

create_file() {
    kubectl create -n "$1" --dry-run=server -o json -f "$2" >"$T/pod.json" 2>"$T/warnings" || {
        cat "$T/warnings"
        return 1
    }
}

# holds FILTER: the filter of jq is true for the pod.
holds() {
    jq -e "$1" "$T/pod.json" >/dev/null || {
        echo "does not hold: $1"
        jq '{labels: .metadata.labels, spec: .spec | {containers, initContainers, volumes}}' "$T/pod.json"
        return 1
    }
}

# preload CONTAINER: prints each value of its LD_PRELOAD on a line.
preloads() {
    jq -r --arg name "$1" '.spec | .containers + (.initContainers // []) | .[] | select(.name == $name).env // []
        | .[] | select(.name == "LD_PRELOAD") | .value // "nothing"' "$T/pod.json"
}

is_injected() {
    holds '.metadata.labels."nagleshim.dev/injected" == "true"'
    holds '.spec.initContainers[0].name == "nagleshim" or any(.spec.volumes[]; .name == "nagleshim" and has("image"))'
    holds '.spec.volumes | any(.name == "nagleshim") and any(.name == "nagleshim-policy")'
}

# The pod contains nothing of nagleshim.
is_untouched() {
    create_untouched || return
    diff <(without_identity "$T/untouched.json") <(without_identity "$T/pod.json")
}

# Prints the same pod as the API server returns it in a namespace that does not ask for the library.
create_untouched() {
    jq '.metadata.labels |= (. // {} | del(."nagleshim.dev/inject"))' "$T/asked.json" |
        kubectl create -n quiet --dry-run=server -o json -f - >"$T/untouched.json" 2>/dev/null
}

without_identity() {
    jq -S 'del(.metadata.uid, .metadata.creationTimestamp, .metadata.namespace, .metadata.generateName,
        .metadata.labels."nagleshim.dev/inject", .metadata.name)
        | if .metadata.labels == {} then del(.metadata.labels) else . end' "$1"
}

# Removes exactly what the policy has added. The rest must be unchanged.
without_injection() {
    without_identity "$1" | jq -S '
        del(.metadata.labels."nagleshim.dev/injected")
        | if .metadata.labels == {} then del(.metadata.labels) else . end
        | def without(f): map(select(f | not)) | if . == [] then empty else . end;
        .spec.volumes |= without(.name | startswith("nagleshim"))
        | .spec.initContainers |= ((. // []) | without(.name == "nagleshim"))
        | (.spec.containers[], .spec.initContainers[]?) |= (
            (select(.volumeMounts).volumeMounts |= without(.name | startswith("nagleshim")))
            | (select(.env).env |= without(.value == "/opt/nagleshim/libnagleshim.so")))'
}

# Each test file below fleet/cluster has its own cluster in $CLUSTER, with these namespaces.
cluster_setup_file() {
    start_cluster "$BATS_FILE_TMPDIR/cluster"
    make_namespaces >/dev/null
}

setup_file() {
    cluster_setup_file
}

teardown_file() {
    CLUSTER=$BATS_FILE_TMPDIR/cluster
    stop_cluster
}

setup() {
    CLUSTER=$BATS_FILE_TMPDIR/cluster
    T=$BATS_TEST_TMPDIR
}
