# SPDX-License-Identifier: MIT
# Promise: the installed CDI specification gives the library to a container that asks for it, with paths of the installation.

load ../helpers/doctor

# Installs in $INSTALLED, and writes the specification with the paths there into $T/cdi.json.
setup() {
    ns_setup
    INSTALLED=$T/installed
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u PREFIX -u LIBDIR make -s install DESTDIR="$INSTALLED" 3>&-
    sed "s#\"hostPath\": \"#&$INSTALLED#" "$INSTALLED/usr/local/share/nagleshim/container/cdi.json" >"$T/cdi.json"
}

@test "the specification has the devices default, log and keep-env, and mounts only installed files" {
    local file
    # From 0.6 on podman 4.3 refuses it.
    jq -e '(.cdiVersion | split(".") | map(tonumber)) < [0, 6] and .kind == "nagleshim.dev/shim" and
        [.devices[].name] == ["default", "log", "keep-env"]' "$T/cdi.json"
    jq -r '.. | .hostPath? // empty' "$T/cdi.json" >"$T/mounted"
    [[ $(wc -l <"$T/mounted") -eq 3 ]]
    while read -r file; do
        [[ -e $file ]] || wrong "not installed: $file"
    done <"$T/mounted"
    # The file of keep-env names the library where the specification mounts it.
    grep -qFx "$(jq -r '.containerEdits.mounts[] | select(.hostPath | endswith(".so")).containerPath' "$T/cdi.json")" \
        "$(jq -r '.devices[2].containerEdits.mounts[0].hostPath' "$T/cdi.json")"
}

@test "the former command cdi names the file" {
    run --separate-stderr "$NS" cdi
    expect 2 stderr is "nagleshim: no command 'cdi': its specification is the file /usr/local/share/nagleshim/container/cdi.json" \
        output is ""
}

# contained DEVICE COMMAND...: runs it in a podman container with a small root, whose LD_PRELOAD is another library. DEVICE
# may be "", for none.
contained() {
    run --separate-stderr unshare --mount bash -c '
        umount /sys/fs/cgroup/unified 2>/dev/null
        mkdir -p "$T/over"
        mount -t tmpfs none "$T/over" && mkdir "$T/over/etc" "$T/over/work" &&
            mount -t overlay overlay -o "lowerdir=/etc,upperdir=$T/over/etc,workdir=$T/over/work" /etc || exit 77
        install -D -m 0644 "$T/cdi.json" /etc/cdi/nagleshim.json
        export PODMAN_IGNORE_CGROUPSV1_WARNING=1
        podman --root "$T/over/storage" --runroot "$T/over/run" run --rm --cgroups=disabled --network=none --log-driver=none \
            --ulimit nofile=20000:20000 --ulimit nproc=10000:10000 \
            ${0:+--device "nagleshim.dev/shim=$0"} -e LD_PRELOAD=/lib/own.so --rootfs "$T/system" "$@"' "$@"
    [[ $status -ne 77 ]] || cannot_here "no overlay of /etc"
}

@test "podman gives the library to a container that asks for it, and keep-env keeps the container's LD_PRELOAD" {
    type -P podman >/dev/null || cannot_here "podman is not installed"
    [[ $EUID -eq 0 ]] || cannot_here "only root has the cgroups off"
    mkdir -p "$T/system"/{bin,etc,lib,proc,sys,dev,tmp,run}
    cp -L /bin/cat /usr/bin/env "$T/system/bin"
    add_libraries "$T/system" /bin/cat /usr/bin/env "$LIBRARY"
    gcc -shared -fPIC -x c -o "$T/system/lib/own.so" - <<<'int own;'
    export T
    contained '' /bin/cat /dev/null
    [[ $status -eq 0 ]] || cannot_here "podman cannot start a container: $stderr"
    contained default /bin/cat /proc/self/maps
    expect 0 output has /opt/nagleshim/libnagleshim.so output lacks /lib/own.so
    contained keep-env /bin/cat /proc/self/maps
    expect 0 stderr is "" output has /opt/nagleshim/libnagleshim.so output has /lib/own.so
    contained log /bin/env
    expect 0 output has NAGLESHIM_LOG=info
}
