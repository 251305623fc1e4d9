# SPDX-License-Identifier: MIT
# Shared by the scripts that run a pod with podman, without a cluster or a registry: a private directory for podman's images
# ($work), and root file systems with the example programs. It is sourced after examples/lib.bash and never run.

pod_podman() {
    podman --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"
}

clean_up() {
    pod_podman pod rm --all --force >/dev/null 2>&1 || true
    # Files of a user's containers may belong to that user's subordinate ids.
    (( EUID == 0 )) || podman unshare rm -rf "$work/storage"
    rm -rf "$work"
}

# A runtime cannot use version 2 of control groups mounted beside version 1: the pod does without them.
leave_hybrid_cgroups() {
    mountpoint -q /sys/fs/cgroup/unified || return 0
    (( EUID == 0 )) || fail 'control groups are in hybrid mode, which podman needs root to leave'
    exec unshare --mount -- bash -c 'umount /sys/fs/cgroup/unified && exec "$0" "$@"' "$0" "$@"
}

# at_most NUMBER FLAG: prints NUMBER, or this process's hard limit if that is lower, in podman's form.
at_most() {
    local limit
    limit=$(ulimit -H "$2")
    if [[ $limit == unlimited ]] || (( limit > $1 )); then
        limit=$1
    fi
    echo "$limit:$limit"
}

# By default podman asks for higher limits than a process with lowered limits may set. The pod needs little.
configure() {
    cat >"$work/containers.conf" <<END
[containers]
default_ulimits = ["nofile=$(at_most 20000 -n)", "nproc=$(at_most 10000 -u)"]
END
    export CONTAINERS_CONF=$work/containers.conf
}

# add_objects DIRECTORY FILE: copies the shared objects that FILE needs into a root file system.
add_objects() {
    local object
    { ldd "$2" | grep -oE '/[^ ]+' || true; } | while read -r object; do
        install -D "$object" "$1$object"
    done
}

# add_programs DIRECTORY PROGRAM...
add_programs() {
    local directory=$1 program
    shift
    for program; do
        install -D "$program" "$directory/bin/${program##*/}"
        add_objects "$directory" "$program"
    done
}

# Adds musl and the programs of the application, built for musl.
add_musl() {
    local app=$1 program headers
    headers=(-idirafter /usr/include -idirafter "/usr/include/$(gcc -print-multiarch)")
    mkdir -p "$app/bin" "$app/lib"
    for program in queue_server queue_put; do
        musl-gcc "${headers[@]}" -O2 -D_GNU_SOURCE -o "$app/bin/$program" "$root/examples/$program.c"
    done
    musl-gcc -O2 -o "$app/bin/run" "$root/examples/sidecar/app.c"
    cp -L /lib/ld-musl-*.so.1 "$app/lib"
}

add_glibc() {
    local app=$1
    add_programs "$app" "$programs/queue_server" "$programs/queue_put"
    mkdir -p "$app/bin"
    gcc -O2 -o "$app/bin/run" "$root/examples/sidecar/app.c"
}

# make_app_image KIND NAME POSTS [CHANGE]...: makes an image whose program sends POSTS posts to its own queue. add_KIND adds
# the files, and each CHANGE is a line of a Containerfile.
make_app_image() {
    local app=$work/app-$1 change changes=()
    mkdir -p "$app"/{dev,etc,proc,sys,tmp}
    "add_$1" "$app"
    for change in "CMD [\"/bin/run\", \"$3\"]" "${@:4}"; do
        changes+=(--change "$change")
    done
    tar -C "$app" -c . | pod_podman import -q "${changes[@]}" - "$2" >/dev/null
}

# play_pod MANIFEST POD CONTAINER: runs the pod, and sets the container's output and the number of its stalled posts. Fails if
# the pod could not be run, or the container failed.
play_pod() {
    local code=
    if ! pod_podman kube play --network none "$1" >"$work/play" 2>&1; then
        output=$(<"$work/play")
        return 1
    fi
    code=$(pod_podman wait "$2-$3")
    output=$(pod_podman logs "$2-$3" 2>&1)
    pod_podman pod rm --force "$2" >/dev/null
    stalls=$(sed -n 's/.* stalls \([0-9]*\) .*/\1/p' <<<"$output")
    [[ $code == 0 ]]
}
