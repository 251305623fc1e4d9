# SPDX-License-Identifier: MIT
# Promise: `make install` installs every file, the library is found by its name, and `make uninstall` disables it and removes every file.
# The installation without DESTDIR is made in a mount namespace, and does not change this machine.

load ../helpers/common

setup() {
    ns_setup
    INSTALLED=$T/installed
}

# make without the variables of a make that runs the tests, and with its own directories.
quiet_make() {
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u PREFIX -u LIBDIR make -s "$@" 3>&-
}

# Prints every file below a directory, with its mode and its path relative to the directory.
files_below() {
    (cd "$1" && find . -type f -printf '%m %P\n' | sort -k2)
}

# The files of an installation: $1 is PREFIX, $2 is LIBDIR.
expected_files() {
    local policy file
    {
        echo "755 $1/bin/nagleshim"
        echo "644 $2/libnagleshim.so"
        echo "644 $2/libnagleshim-observe.so"
        echo "644 $1/share/bash-completion/completions/nagleshim"
        echo "644 $1/share/fish/vendor_completions.d/nagleshim.fish"
        echo "644 $1/share/zsh/site-functions/_nagleshim"
        for file in nagleshim.1 nagleshim-{cure,diagnose,host,top}.1 nagleshim-policy.5 nagleshim.7; do
            echo "644 $1/share/man/man${file##*.}/$file"
        done
        echo "644 $1/share/nagleshim/default.json"
        echo "644 $1/share/nagleshim/output.schema.json"
        echo "644 $1/share/nagleshim/policy.schema.json"
        for policy in config/policies/*.json; do
            echo "644 $1/share/nagleshim/policies/${policy##*/}"
        done
        for file in config/systemd/*.service; do
            echo "644 $1/lib/systemd/system/${file##*/}"
        done
        for file in config/systemd/{README.md,nagleshim.conf} config/container/* $(find config/kubernetes config/prometheus -type f); do
            echo "644 $1/share/nagleshim/${file#config/}"
        done
    } | sort -k2
}

@test "make install puts every file below PREFIX, writes the library as a new file, and make uninstall removes exactly these" {
    local library=$INSTALLED/usr/local/lib/libnagleshim.so before
    quiet_make install DESTDIR="$INSTALLED"
    diff <(expected_files usr/local usr/local/lib) <(files_below "$INSTALLED")
    [[ $(stat -c %a "$INSTALLED/etc/nagleshim") == 755 ]]
    before=$(stat -c %i "$library")
    exec 7<"$library"
    quiet_make install DESTDIR="$INSTALLED"
    # A process that has the old file open or mapped keeps it.
    [[ $(stat -L -c %i /dev/fd/7) == "$before" && $(stat -c %i "$library") != "$before" ]]
    exec 7<&-
    touch "$INSTALLED/usr/local/lib/libother.so" "$INSTALLED/usr/local/bin/other"
    quiet_make uninstall DESTDIR="$INSTALLED"
    diff <(printf '644 usr/local/%s\n' bin/other lib/libother.so) <(files_below "$INSTALLED")
    [[ -d $INSTALLED/etc && ! -e $INSTALLED/etc/nagleshim ]]
}

@test "the installed command finds the installed library, the installed policies are valid, and the user's policies stay" {
    quiet_make install DESTDIR="$INSTALLED"
    local bin=$INSTALLED/usr/local/bin share=$INSTALLED/usr/local/share/nagleshim policy=$INSTALLED/etc/nagleshim/default.json file
    run "$bin/nagleshim" run -- printenv LD_PRELOAD
    [[ $status -eq 0 && $output == "$INSTALLED/usr/local/lib/libnagleshim.so" ]]
    "$bin/nagleshim" check "$share/default.json" "$share"/policies/*.json
    # A copy of a policy in another directory still names the schema.
    for file in "$share/default.json" "$share"/policies/*.json; do
        grep -qF '"$schema": "file:///usr/local/share/nagleshim/policy.schema.json"' "$file"
    done
    echo '{"version": 1, "rules": []}' >"$policy"
    quiet_make install DESTDIR="$INSTALLED"
    quiet_make uninstall DESTDIR="$INSTALLED"
    [[ $(<"$policy") == '{"version": 1, "rules": []}' && $(find "$INSTALLED" -type f) == "$policy" ]]
}

# For a mount namespace: makes /usr/local empty and /etc a copy.
own_directories() {
    trap 'umount -l /etc /usr/local /var/cache/ldconfig /usr/lib /run 2>/dev/null || true' EXIT
    mkdir "$T/etc"
    cp -a /etc/. "$T/etc" 2>/dev/null || true # an ordinary user may not read all of it
    mount --bind "$T/etc" /etc
    mount -t tmpfs -o mode=755 none /usr/local
    mount -t tmpfs none /var/cache/ldconfig || true # fails if its owner is unmapped; ldconfig then uses no cache
}

# Installs and uninstalls as a user would: with "mounts", in its own mount namespace; otherwise on a machine that is thrown
# away afterwards.
installed_for_real() {
    set -- "${1-}"
    set -euo pipefail
    if [[ $1 == mounts ]]; then
        own_directories
    else
        trap 'quiet_make -C "$TREE" uninstall' EXIT
    fi
    quiet_make install >"$T/installed"
    (cd / && NAGLESHIM_LOG=info LD_PRELOAD=libnagleshim.so "$PROBES/report" joins talks exit 2>"$T/with.err")
    LD_PRELOAD=libnagleshim.so grep -o '/[^ ]*libnagleshim.so' /proc/self/maps | sort -u >"$T/mapped"
    quiet_make uninstall
    LD_PRELOAD=libnagleshim.so /bin/true 2>"$T/uninstalled.err"
}

@test "after make install, LD_PRELOAD=libnagleshim.so works for a program that is started in /" {
    local mounts
    ns_mount_namespace
    export T PROBES
    export -f installed_for_real own_directories quiet_make
    export TREE=$PWD
    "${mounts[@]}" bash -c "installed_for_real ${mounts[0]:+mounts}" bash 3>&-
    # The loader finds the library by its name.
    [[ $(<"$T/installed") == "installed; next: /usr/local/bin/nagleshim diagnose -- PROGRAM, or LD_PRELOAD=libnagleshim.so PROGRAM" ]]
    # ld.so prints on stderr what it cannot preload.
    [[ $(<"$T/with.err") == *' nagleshim['*': report: 3 TCP sockets, '* && $(wc -l <"$T/with.err") -eq 1 ]]
    [[ $(<"$T/mapped") == /usr/local/lib/libnagleshim.so ]]
    grep -q 'libnagleshim.so.*cannot be preloaded' "$T/uninstalled.err"
}

# Uninstalls while the library is enabled for a service and for every program, in its own mount namespace. Since /usr/lib is
# read-only there, /etc/ld.so.preload names the library itself.
uninstalled_while_enabled() {
    set -euo pipefail
    own_directories
    mount -t tmpfs none /run # a systemd runs in the namespace that knows every unit
    mkdir -p /run/systemd/system "$T/stub"
    cat >"$T/stub/systemctl" <<'END'
#!/bin/sh
[ "$1" != show ] || { echo LoadState=loaded && sed -n '/^Environment=/s/"//gp' /etc/systemd/system/app.service.d/*.conf; } 2>/dev/null
exit 0
END
    chmod +x "$T/stub/systemctl"
    PATH=$T/stub:$PATH
    rm -f /etc/ld.so.preload
    quiet_make install
    mount --bind /usr/lib /usr/lib
    mount -o remount,bind,ro /usr/lib
    /usr/local/bin/nagleshim host enable --unit app
    /usr/local/bin/nagleshim host enable --preload
    quiet_make uninstall DESTDIR="$T/elsewhere"
    /usr/local/bin/nagleshim host status >"$T/enabled"
    mount -o remount,bind,ro /etc
    if quiet_make uninstall 2>"$T/refused"; then exit 1; fi
    mount -o remount,bind,rw /etc
    mv /usr/local/lib/libnagleshim.so /usr/local
    /bin/true 2>"$T/without.err"
    mv /usr/local/libnagleshim.so /usr/local/lib
    quiet_make uninstall >"$T/uninstalled"
    /bin/true 2>"$T/after.err"
    find /usr/local /etc/systemd/system /etc/ld.so.preload -path '*nagleshim*' -o -name ld.so.preload >"$T/left" 2>/dev/null || true
}

@test "make uninstall first disables the library, or removes nothing if it cannot" {
    local mounts
    ns_mount_namespace
    [[ $EUID -eq 0 && ${#mounts[@]} -gt 0 ]] || ns_skip "only root can enable the library, in a mount namespace"
    export T
    export -f uninstalled_while_enabled own_directories quiet_make
    "${mounts[@]}" bash -c uninstalled_while_enabled 3>&-
    # With DESTDIR nothing is disabled.
    [[ $(<"$T/enabled") == "/etc/ld.so.preload: /usr/local/lib/libnagleshim.so"$'\n'"app.service: /usr/local/lib/libnagleshim.so"* ]]
    grep -qF "make: nothing was removed: first type '/usr/local/bin/nagleshim host disable --library /usr/local/lib/libnagleshim.so'" "$T/refused"
    # Without the library, an entry that is left makes every program print an error.
    grep -q 'libnagleshim.so.*cannot be preloaded' "$T/without.err"
    [[ $(<"$T/uninstalled") == "/etc/ld.so.preload no longer names /usr/local/lib/libnagleshim.so
app.service will not have the library at its next start" ]]
    [[ ! -s $T/after.err && ! -s $T/left ]]
}

@test "the units are hardened as far as they can be, and systemd finds no mistake in them" {
    local unit
    type -P systemd-analyze >/dev/null || ns_skip "no systemd-analyze"
    quiet_make install DESTDIR="$INSTALLED"
    for unit in "$INSTALLED"/usr/local/lib/systemd/system/*.service; do
        run systemd-analyze security --offline=yes --threshold=40 "$unit"
        [[ $status -eq 0 ]] || wrong "$output" || return
        # The control: without its restrictions it is refused.
        grep -vE '^(Protect|Private|Restrict|SystemCall)' "$unit" >"$T/${unit##*/}"
        run -1 systemd-analyze security --offline=yes --threshold=40 "$T/${unit##*/}"
        sed 's#=/usr/local/bin/nagleshim#=/bin/true#' "$unit" >"$T/${unit##*/}"
        run -0 systemd-analyze verify --man=no "$T/${unit##*/}"
        [[ -z $output ]] || wrong "$output" || return
    done
}
