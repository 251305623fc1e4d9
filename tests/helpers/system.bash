# SPDX-License-Identifier: MIT
# A small system in a directory that a test may break, and `nagleshim host` on it.
load "${BASH_SOURCE[0]%/*}/doctor"

system_setup() {
    ns_setup
    as_root=()
    [[ $EUID -eq 0 ]] || as_root=(unshare --map-root-user)
    "${as_root[@]}" chroot / true 2>/dev/null || cannot_here "no chroot"
    make_system
    # The files of an unchanged system.
    snapshot >"$T/before"
}

setup() {
    system_setup
}

# Makes a system that can start cat, true, the shell and the command, with the library in /usr/lib. Sets R. systemd seems to run
# there. A stub of systemctl shows the properties in the file /show/UNIT. Once the drop-in exists, it shows the drop-in's
# Environment= instead, unless /show/UNIT.reset exists. /show/manager is for systemd itself.
make_system() {
    R=$T/system
    mkdir -p "$R"/{bin,etc/systemd/system,usr/lib/systemd/system,usr/bin,show,run/systemd/system}
    cp -L /bin/true /bin/cat /bin/bash "$R/bin"
    cp -L /bin/bash "$R/bin/sh"
    cp "$NS" "$R/usr/bin"
    add_libraries "$R" /bin/true /bin/cat /bin/bash "$NS" "$LIBRARY"
    cp "$LIBRARY" "$R/usr/lib/libnagleshim.so"
    cat >"$R/usr/bin/systemctl" <<'END'
#!/bin/bash
echo "$*" >>/log
unit=${*: -1}
case $1 in
daemon-reload) [[ ! -e /show/reload-fails ]] ;;
show)
    [[ $unit == *.service ]] || unit=manager
    dropin=/etc/systemd/system/$unit.d/zz-nagleshim.conf
    if [[ ! -e /show/$unit ]]; then
        [[ $unit == manager ]] || echo LoadState=not-found
    elif [[ ! -e $dropin ]]; then
        echo "$(</show/$unit)"
    else
        echo LoadState=loaded
        while read -r line; do
            [[ $line != Environment=* || -e /show/$unit.reset ]] || echo "${line//\"/}"
        done <$dropin
    fi
    ;;
esac
END
    chmod 755 "$R/usr/bin/systemctl"
    find "$R" -type d -exec chmod 0755 {} +
}

snapshot() {
    (cd "$R" && find etc -printf '%p %y %m\n' -type f -exec cat {} \; | sort)
}

# Nothing in /etc has changed.
expect_untouched() {
    snapshot >"$T/after"
    diff "$T/before" "$T/after"
}

# The directory of policies is not in that system.
in_system() {
    "${as_root[@]}" env -u NAGLESHIM_POLICY_DIR chroot "$R" "$@"
}

host() {
    run --separate-stderr in_system /usr/bin/nagleshim host "$@"
}

enable() {
    host enable --library "${library:-/usr/lib/libnagleshim.so}" "$@"
}

# unit NAME [PROPERTIES]: a loaded service of which systemctl shows these properties.
unit() {
    printf 'LoadState=loaded\n%b\n' "${2-}" >"$R/show/${1%.service}.service"
}

dropin() {
    cat "$R/etc/systemd/system/$1.d/zz-nagleshim.conf"
}

# refused WORDS: status 2, these words on standard error, and nothing is changed.
refused() {
    expect 2 stderr has "nagleshim host: " stderr has "$1" output is ""
    expect_untouched
}
