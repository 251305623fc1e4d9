# SPDX-License-Identifier: MIT
# Promise: `nagleshim cdi` prints a specification that gives the library to a container that asks for it, with paths that exist.

load ../helpers/doctor

setup() {
    ns_setup
    FILE=$PWD/config/container/ld.so.preload
}

cdi() {
    run --separate-stderr "$NS" cdi "$@"
}

# truth EXPRESSION: this Python expression is true for the printed object o.
truth() {
    python3 -c 'import json, sys
o = json.loads(sys.argv[1])
assert eval("(" + sys.argv[2] + ")"), o' "$output" "$1"
}

# edits NAME: what the device of this name adds, as a Python expression.
edits() {
    printf '[d["containerEdits"] for d in o["devices"] if d["name"] == "%s"][0]' "$1"
}

@test "cdi prints one JSON object with the devices default, log and keep-env, and the library for all of them" {
    cdi --preload-file "$FILE"
    expect_status 0
    truth 'set(o) == {"cdiVersion", "kind", "devices", "containerEdits"} and o["kind"] == "nagleshim.dev/shim"'
    # From 0.6 on podman 4.3 refuses it.
    truth 'tuple(map(int, o["cdiVersion"].split("."))) < (0, 6)'
    truth '[d["name"] for d in o["devices"]] == ["default", "log", "keep-env"]'
    truth 'o["containerEdits"]["mounts"][0]["hostPath"] == "'"$LIBRARY"'"
        and o["containerEdits"]["mounts"][0]["containerPath"] == "/opt/nagleshim/libnagleshim.so"'
    truth "$(edits default) == {'env': ['LD_PRELOAD=/opt/nagleshim/libnagleshim.so']}"
    truth "$(edits log)['env'][1] == 'NAGLESHIM_LOG=info'"
    truth "'env' not in $(edits keep-env) and $(edits keep-env)['mounts'][0]['hostPath'] == '$FILE'"
}

@test "cdi leaves out mounts of missing files, with which no container would start, and says so" {
    [[ ! -e /etc/nagleshim ]] || cannot_here "there is an /etc/nagleshim"
    cdi
    expect 0 stderr has "nagleshim cdi: note: /etc/nagleshim does not exist: containers get no policies of this machine"
    expect_part stderr "note: the device keep-env is left out, because "
    expect_part stderr "share/nagleshim/container/ld.so.preload is missing"
    truth '[d["name"] for d in o["devices"]] == ["default", "log"] and len(o["containerEdits"]["mounts"]) == 1'
}

@test "cdi of an installation has every device, with the paths of the installation" {
    mkdir -p "$T"/usr/{bin,lib,share/nagleshim/container}
    cp "$NS" "$T/usr/bin"
    cp "$LIBRARY" "$T/usr/lib"
    cp "$FILE" "$T/usr/share/nagleshim/container"
    run --separate-stderr "$T/usr/bin/nagleshim" cdi
    expect_status 0
    truth 'o["containerEdits"]["mounts"][0]["hostPath"] == "'"$T"'/usr/lib/libnagleshim.so"'
    truth "$(edits keep-env)['mounts'][0]['hostPath'] == '$T/usr/share/nagleshim/container/ld.so.preload'"
}

@test "cdi refuses a file that does not name the library, and a broken library" {
    echo /opt/other.so >"$T/file"
    cdi --preload-file "$T/file"
    expect 2 stderr is "nagleshim cdi: '$T/file' does not name /opt/nagleshim/libnagleshim.so" output is ""
    cdi --preload-file "$T/nosuch"
    expect_status 2
    cdi more
    expect 2 stderr is "nagleshim cdi: unexpected word 'more'; see 'nagleshim cdi --help'"
    cp "$NS" "$T"
    head -c 20000 "$LIBRARY" >"$T/libnagleshim.so"
    run --separate-stderr "$T/nagleshim" cdi
    expect 2 stderr has "nagleshim cdi: the library would not load: $T/libnagleshim.so is truncated"
}

# contained DEVICE COMMAND...: runs it in a podman container with a small root, whose LD_PRELOAD is another library. DEVICE
# may be "", for none.
contained() {
    run --separate-stderr unshare --mount bash -c '
        umount /sys/fs/cgroup/unified 2>/dev/null
        mkdir -p "$T/over"
        mount -t tmpfs none "$T/over" && mkdir "$T/over/etc" "$T/over/work" &&
            mount -t overlay overlay -o "lowerdir=/etc,upperdir=$T/over/etc,workdir=$T/over/work" /etc || exit 77
        mkdir -p /etc/cdi
        "$NS" cdi --preload-file "$FILE" >/etc/cdi/nagleshim.json 2>/dev/null
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
    export T NS FILE
    contained '' /bin/cat /dev/null
    [[ $status -eq 0 ]] || cannot_here "podman cannot start a container: $stderr"
    contained default /bin/cat /proc/self/maps
    expect 0 output has /opt/nagleshim/libnagleshim.so output lacks /lib/own.so
    contained keep-env /bin/cat /proc/self/maps
    expect 0 stderr is "" output has /opt/nagleshim/libnagleshim.so output has /lib/own.so
    contained log /bin/env
    expect 0 output has NAGLESHIM_LOG=info
}
