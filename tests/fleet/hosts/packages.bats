# SPDX-License-Identifier: MIT
# Promise: Debian's packages install, upgrade and leave a clean system as packages should, and the library is found by name.

load ../../helpers/common
load ../../helpers/releases
load debian

setup_file() {
    export BATS_TEST_TIMEOUT=600
    new_debian_with_packages
    newer_packages
    in_debian sh -c 'find / -xdev -not -path "/proc/*" -not -path "/dev/*" | sort' >"$BATS_FILE_TMPDIR/before"
}

# The same packages with a later version.
newer_packages() {
    local deb tree=$BATS_FILE_TMPDIR/tree
    mkdir -p "$LAYER/changes/newer"
    for deb in "$LAYER"/changes/packages/*.deb; do
        rm -rf "$tree"
        dpkg-deb -R "$deb" "$tree"
        sed -i -E 's/^(Version: .*)$/\1+1/; s/(libnagleshim \(= [^)]*)\)/\1+1)/' "$tree/DEBIAN/control"
        dpkg-deb --root-owner-group -b "$tree" "$LAYER/changes/newer" >/dev/null
    done
}

# Prints the milliseconds of twenty packets in the system, with these variables or through this command.
exchange() {
    in_debian /app/exchange "$@"
}

@test "lintian finds no error in them" {
    # Messages about the user who runs lintian are ignored.
    run lintian --fail-on error,warning "$LAYER"/changes/packages/*.deb
    [[ $status -eq 0 ]]
}

@test "before the packages are installed, the client stalls" {
    ((20 * 30 < $(exchange env)))
}

@test "they install without a warning, and the library's name without a path works" {
    run -0 in_debian sh -c 'dpkg -i /packages/*.deb'
    [[ $output != *[Ww]arning* && $output != *error* ]]
    (($(exchange env LD_PRELOAD=libnagleshim.so) < 20 * 20))
    (($(exchange nagleshim run --) < 20 * 20))
}

@test "installing them enables the library nowhere" {
    run -1 in_debian test -e /etc/ld.so.preload
    ((20 * 30 < $(exchange env)))
    run -0 in_debian find /etc/systemd /usr/lib/systemd -name '*nagleshim*'
    [[ $(sort <<<"$output") == $'/usr/lib/systemd/system/nagleshim-cure.service\n/usr/lib/systemd/system/nagleshim-metrics.service' ]]
    run in_debian systemctl is-enabled nagleshim-cure nagleshim-metrics
    [[ $output == $'disabled\ndisabled' ]]
}

@test "an upgrade replaces the library under a program that runs, and enables nothing" {
    # The program continues to write with the library that it has loaded.
    run -0 in_debian bash -c '
        LD_PRELOAD=libnagleshim.so sleep 60 &
        dpkg -i /newer/*.deb && kill -0 "$!" && grep -c "libnagleshim.so" "/proc/$!/maps" && kill "$!"'
    [[ $(in_debian dpkg-query -W nagleshim) == *+1 ]]
    (($(exchange env LD_PRELOAD=libnagleshim.so) < 20 * 20))
}

@test "an upgrade keeps what is enabled for every program, and no program prints an error meanwhile" {
    run -0 in_debian bash -c '
        nagleshim host enable --preload >/dev/null 2>&1
        cp /etc/ld.so.preload /app/enabled
        while [[ ! -e /app/upgraded ]]; do /bin/true; done 2>/app/complaints &
        dpkg -i /packages/*.deb >/app/said 2>&1; dpkg -i /newer/*.deb >>/app/said 2>&1
        touch /app/upgraded
        wait "$!"
        cmp /etc/ld.so.preload /app/enabled && cmp "$(cat /app/enabled)" /usr/lib/*/libnagleshim.so && cat /app/complaints && grep "ld.so: object" /app/said
        grep -q libnagleshim.so /proc/self/maps'
    [[ -z $output ]]
}

@test "removing the command removes every drop-in that it wrote, disables its units, and removes its line of /etc/ld.so.preload" {
    run -0 in_debian bash -c '
        export SYSTEMD_OFFLINE=1 # then systemctl does nothing
        mkdir -p /run/systemd/system /app/stub
        find /etc/systemd | sort >/app/before
        printf "#!/bin/sh\n[ \$1 != show ] || { echo LoadState=loaded; grep -hs ^Environment= /etc/systemd/system/*.d/zz-*.conf |
            tr -d \"\\\\042\"; }\n" >/app/stub/systemctl
        chmod +x /app/stub/systemctl
        PATH=/app/stub:$PATH nagleshim host enable --unit dbus systemd-journald 2>&1 | grep -v "will have the library at its next start"
        systemctl --quiet enable nagleshim-cure nagleshim-metrics
        find /etc/systemd -name "*nagleshim*" | wc -l
        dpkg -r nagleshim 2>&1
        rmdir /run/systemd/system
        find /etc/systemd | sort | diff /app/before - && test ! -e /etc/ld.so.preload'
    [[ $output == $'4\n'* && $output != *'cannot be preloaded'* && $output == *'dbus.service will not have the library at its next start'* ]]
    in_debian sh -c 'dpkg -i /newer/*.deb' >/dev/null
}

@test "a stranger installs, diagnoses, enables, disables and purges them, and nothing of them is left" {
    run -0 in_debian bash -c '
        dpkg -i /packages/*.deb >/dev/null && nagleshim diagnose -- /app/exchange 2>&1 &&
        nagleshim host enable --preload >/dev/null 2>&1 && /app/exchange && nagleshim host disable >/dev/null 2>&1 && /app/exchange'
    [[ $output == *'it stalls: '*' of 20 requests of tcp_nodelay_client'* ]]
    [[ $output == *$'\n'+([0-9])$'\n'+([0-9]) ]]
    mapfile -t ms < <(tail -n 2 <<<"$output") # enabled, disabled
    ((ms[0] < 20 * 20 && 20 * 30 < ms[1]))
    in_debian dpkg -P nagleshim libnagleshim >/dev/null
    run in_debian sh -c 'find / -xdev -not -path "/proc/*" -not -path "/dev/*" | sort'
    # Files of dpkg and ldconfig, and the program of the previous test, are ignored.
    diff <(grep -vE '^/(var|app|root)|^/etc/ld.so.cache' "$BATS_FILE_TMPDIR/before") \
        <(grep -vE '^/(var|app|root)|^/etc/ld.so.cache' <<<"$output")
}

@test "the packages' own test passes in a system that has a compiler" {
    # The test runs on this machine's files, with a layer for changes.
    local DEBIAN=/ packages=$LAYER/changes/packages LAYER=$T/layer
    mkdir -p "$LAYER"/{changes/source/config/debian,work,root}
    cp -R "$packages" examples "$LAYER/changes/source"
    cp -R config/debian/tests "$LAYER/changes/source/config/debian"
    run -0 in_debian bash -c 'cd /source && dpkg -i packages/{lib,}nagleshim_*.deb >/dev/null 2>&1 && config/debian/tests/essence'
    [[ $output == *'20 packets: '* ]]
}
