# SPDX-License-Identifier: MIT
# A clean Debian to install packages in, and to boot. It is made once with debootstrap below .deps/fleet, and never changed.
# The changes of each test file are in its own layer, which is removed after the file.

DEBIAN=$PWD/.deps/fleet/debian

# Makes the system, as root, from apt's mirror of this machine.
make_debian() {
    local mirror
    [[ ! -e $DEBIAN/usr/bin/systemctl ]] || return 0
    rm -rf "$DEBIAN.new"
    mkdir -p "${DEBIAN%/*}"
    find_mirror
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus "$(. /etc/os-release && echo "$VERSION_CODENAME")" \
        "$DEBIAN.new" "$mirror" >"$DEBIAN.log" 2>&1 || {
        tail -n 20 "$DEBIAN.log"
        return 1
    }
    mv "$DEBIAN.new" "$DEBIAN"
}

fail() {
    echo "$*"
    return 1
}

# Makes the layer and its mount point. Each call below mounts it in its own mount namespace.
new_debian() {
    LAYER=$BATS_FILE_TMPDIR/layer
    export LAYER
    mkdir -p "$LAYER/changes" "$LAYER/work" "$LAYER/root"
}

# The same with the packages of this tree in /packages, and a client that stalls, its server, and a script for both in /app.
new_debian_with_packages() {
    new_debian
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s deb PACKAGES="$LAYER/changes/packages" 3>&- >/dev/null
    rm -f "$LAYER"/changes/packages/{*-dbgsym_*,*.json}
    install -D -t "$LAYER/changes/app" build/examples/tcp_nodelay_{client,server} tests/fleet/hosts/exchange
}

# with_debian COMMAND...: runs it with the system at $LAYER/root, in its own network namespace.
with_debian() {
    unshare --mount --net bash -c '
        set -e
        ip link set lo up
        mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/changes,workdir=$2/work" "$2/root"
        shift 2
        "$@"' - "$DEBIAN" "$LAYER" "$@" 3>&-
}

# in_debian COMMAND...: runs it there, as in a system that has not been booted.
in_debian() {
    with_debian bash -c '
        root=$1
        shift
        mount -t proc proc "$root/proc"
        mount --bind /dev "$root/dev"
        exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"' - "$LAYER/root" "$@"
}

# boot_debian [OPTION]...: boots it, with these options of systemd-nspawn, runs the script on its standard input as the last of the units, and powers it off. The script's
# output is printed. What init says is in $BATS_FILE_TMPDIR/boot.
boot_debian() {
    local changes=$LAYER/changes
    mkdir -p "$changes/etc/systemd/system/multi-user.target.wants"
    cat >"$changes/script"
    rm -f "$changes/output"
    cat >"$changes/etc/systemd/system/fleet-script.service" <<'END'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /script
ExecStopPost=/bin/systemctl --no-block poweroff
StandardOutput=file:/output
StandardError=file:/output
END
    ln -sf ../fleet-script.service "$changes/etc/systemd/system/multi-user.target.wants/"
    with_debian bash -c '
        ! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified
        root=$1
        shift
        exec timeout 120 systemd-nspawn --quiet --directory="$root" --register=no --keep-unit --private-network \
            --link-journal=no --system-call-filter=pidfd_getfd "$@" --boot </dev/null' - "$LAYER/root" "$@" >"$BATS_FILE_TMPDIR/boot" 2>&1 || {
        echo "the system did not boot and power off:"
        tail -n 20 "$BATS_FILE_TMPDIR/boot"
        return 1
    }
    cat "$changes/output"
}
