# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034 # the tests use what is set here
# A Kubernetes API server with etcd, and with its controllers where a test asks for them, on loopback. There is no scheduler
# and no kubelet: pods stay pending, and what is looked at is what admission has made of them. It ends only processes that
# it started.

CLUSTER_SERVERS=$PWD/.deps/fleet
CLUSTER_ADMIN=cluster-admin-token

# start_cluster_server NAME ARGUMENT...: in the background, its messages in a file of its name.
start_cluster_server() {
    local name=$1
    shift
    "$CLUSTER_SERVERS/$name" "$@" >"$CLUSTER/$name.log" 2>&1 3>&- &
    echo "$!" >>"$CLUSTER/started"
}

# cluster_until SECONDS COMMAND...: until it succeeds.
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

# start_cluster DIRECTORY: everything that it writes lies there.
start_cluster() {
    CLUSTER=$1
    local etcd=http://127.0.0.1:2379 peers=http://127.0.0.1:2380 port=6443
    mkdir -p "$CLUSTER/certificates"
    openssl genrsa -out "$CLUSTER/accounts.key" 2048 2>/dev/null
    echo "$CLUSTER_ADMIN,admin,admin,system:masters" >"$CLUSTER/tokens"
    start_cluster_server etcd --data-dir "$CLUSTER/etcd" --unsafe-no-fsync --log-level error \
        --listen-client-urls "$etcd" --advertise-client-urls "$etcd" --listen-peer-urls "$peers" \
        --initial-advertise-peer-urls "$peers" --initial-cluster "default=$peers"
    start_cluster_server kube-apiserver --etcd-servers "$etcd" --bind-address 127.0.0.1 --secure-port "$port" \
        --advertise-address 127.0.0.1 --endpoint-reconciler-type none --cert-dir "$CLUSTER/certificates" \
        --token-auth-file "$CLUSTER/tokens" --authorization-mode RBAC --service-cluster-ip-range 10.0.0.0/24 \
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

start_controllers() {
    start_cluster_server kube-controller-manager --kubeconfig "$CLUSTER/config" --leader-elect=false \
        --controllers deployment-controller,replicaset-controller,statefulset-controller,job-controller \
        --use-service-account-credentials=false --cert-dir "$CLUSTER/certificates"
}

cluster_ended() {
    ! kill -0 "$1" 2>/dev/null || [[ $(ps -o stat= -p "$1") == Z* ]]
}

stop_cluster() {
    local pid
    [[ -e $CLUSTER/started ]] || return 0
    # The API server before its store.
    while read -r pid; do
        kill "$pid" 2>/dev/null || continue
        cluster_until 20 cluster_ended "$pid" || kill -KILL "$pid"
    done < <(tac "$CLUSTER/started")
    rm -f "$CLUSTER/started"
}
