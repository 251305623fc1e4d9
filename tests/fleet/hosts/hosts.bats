#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: A Debian boots with the library in one of its units, in every program, and without it again, and only what was asked for changes.
# shellcheck disable=SC2154 # bats sets $output, helpers/common.bash the rest
# Each test goes on with the system that the one before has left, as its administrator would.

bats_require_minimum_version 1.5.0
load ../../helpers/common
load ../../helpers/releases
load debian

setup_file() {
    export BATS_TEST_TIMEOUT=600
    new_debian_with_packages
    install -D -t "$LAYER/changes/etc/systemd/system" tests/fleet/hosts/units/*
    # shellcheck disable=SC2016 # the system's shell expands them
    in_debian sh -c 'dpkg -i /packages/*.deb && cp "$(ls /lib/*/libm.so.6)" /app/other.so &&
        systemctl enable exchange.service other.service' >/dev/null 2>&1
    configuration >"$BATS_FILE_TMPDIR/before"
}

setup() {
    ns_setup
}

teardown() {
    ns_teardown
}

# What an administrator has in the system, with its contents; without what a boot itself writes.
configuration() {
    in_debian find /etc /usr/lib/systemd -type f -not -path '*/fleet-script.service' -not -name machine-id \
        -not -name 'ld.so.cache' -not -name '.updated' -exec sha256sum {} + | sort -k2
}

# What every boot says first: units that failed, and how the system is.
state() {
    cat <<'END'
systemctl --failed --no-legend --plain | sed 's/^/failed: /'
echo "exchange: $(cat /exchange.ms)"
echo "init: $(grep -c libnagleshim.so /proc/1/maps)"
END
}

# milliseconds: what the unit's exchange took in the last boot.
milliseconds() {
    sed -n 's/^exchange: //p' <<<"$output"
}

@test "as it is, the system boots, nothing fails, and the unit stalls" {
    run -0 boot_debian <<<"$(state)"
    [[ $output != *failed:* && $output == *'init: 0'* ]]
    (($(milliseconds) > 20 * 30))
}

@test "a truncated library and a foreign one are refused, in one line each, and nothing is changed" {
    # shellcheck disable=SC2016 # the system's shell expands them
    run -0 boot_debian <<'END'
library=$(ls /usr/lib/*/libnagleshim.so)
install -D "$library" /opt/cut/libnagleshim.so
truncate -s 20000 /opt/cut/libnagleshim.so
install -D "$library" /opt/foreign/libnagleshim.so
printf '\267' | dd of=/opt/foreign/libnagleshim.so bs=1 seek=18 conv=notrunc status=none # e_machine: aarch64
for place in cut foreign; do
    for way in '--unit exchange' --preload; do
        nagleshim host enable $way --library /opt/$place/libnagleshim.so
        echo "status $?"
    done
done
rm -r /opt/cut /opt/foreign
END
    [[ $(grep -c '^status 2$' <<<"$output") -eq 4 && $(grep -c '^nagleshim host: ' <<<"$output") -eq 4 ]]
    [[ ${#lines[@]} -eq 8 ]]
    diff "$BATS_FILE_TMPDIR/before" <(configuration)
}

@test "a unit that is enabled stops stalling at its next start, and its own LD_PRELOAD stays" {
    # shellcheck disable=SC2016
    run -0 boot_debian <<END
nagleshim host enable --unit exchange.service other.service; echo "status \$?"
nagleshim host enable --unit exchange.service other.service; echo "again \$?"
systemctl restart exchange.service other.service
$(state)
systemctl show -p Environment --value other.service
grep -oE '/(app/other|usr/lib/[^ ]*/libnagleshim).so' /proc/\$(systemctl show -p MainPID --value other.service)/maps | sort -u
nagleshim host status; echo "enabled \$?"
END
    [[ $output == *'status 0'* && $output == *'again 0'* && $output == *'enabled 0'* && $output != *failed:* ]]
    (($(milliseconds) < 20 * 20))
    grep -qx /app/other.so <<<"$output"
    grep -qE '^/usr/lib/.*/libnagleshim.so$' <<<"$output"
}

@test "the next boot has it in the units that are enabled, and in nothing else" {
    run -0 boot_debian <<<"$(state)"
    [[ $output != *failed:* && $output == *'init: 0'* ]]
    (($(milliseconds) < 20 * 20))
}

@test "disabled, nothing is left of it, and the unit is as it was" {
    run -0 boot_debian <<END
nagleshim host disable; echo "status \$?"
systemctl restart exchange.service
$(state)
END
    [[ $output == *'status 0'* && $output != *failed:* ]]
    (($(milliseconds) > 20 * 30))
    diff "$BATS_FILE_TMPDIR/before" <(configuration)
}

@test "in /etc/ld.so.preload it is in every program, init among them, and the system boots with nothing failed" {
    # shellcheck disable=SC2016
    run -0 boot_debian <<END
nagleshim host enable --preload; echo "status \$?"
cat /etc/ld.so.preload
END
    [[ $output == *'status 0'* && $output == *libnagleshim.so* ]]
    run -0 boot_debian <<END
$(state)
systemctl daemon-reexec && echo "again: \$(grep -c libnagleshim.so /proc/1/maps)"
su -s /bin/sh nobody -c 'grep -c libnagleshim.so /proc/self/maps' | sed 's/^/su: /'
nagleshim host status; echo "enabled \$?"
END
    [[ $output != *failed:* && $output != *'init: 0'* && $output != *'again: 0'* && $output == *'again: '* ]]
    [[ $output == *'su: '[1-9]* && $output == *'enabled 0'* ]]
    (($(milliseconds) < 20 * 20))
}

@test "disabled again, the system boots as before, and nothing is left" {
    run -0 boot_debian <<<'nagleshim host disable; echo "status $?"'
    [[ $output == *'status 0'* ]]
    run -0 boot_debian <<<"$(state)"
    [[ $output != *failed:* && $output == *'init: 0'* ]]
    (($(milliseconds) > 20 * 30))
    diff "$BATS_FILE_TMPDIR/before" <(configuration)
}

@test "units with odd names, with a directory that is hidden, and with what systemd preloads for all, get it; many at once leave nothing" {
    run -0 boot_debian <<'END'
library=$(ls /usr/lib/*/libnagleshim.so)
install -D -m 644 "$library" /opt/odd/libnagleshim.so
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\nDefaultEnvironment=LD_PRELOAD=/app/other.so\n' >/etc/systemd/system.conf.d/odd.conf
for unit in 'odd\x2dname' odd@; do
    printf '[Service]\nExecStart=/bin/sleep 1000\nTemporaryFileSystem=/opt\n' >"/etc/systemd/system/$unit.service"
done
ln -s odd@.service /etc/systemd/system/odd@link.service
systemctl daemon-reexec
nagleshim host enable --library /opt/odd/libnagleshim.so --unit 'odd\x2dname' odd@ odd@link
for unit in 'odd\x2dname' odd@link odd@a@b; do
    systemctl restart "$unit"
    sleep 0.2
    printf '%s:' "$unit"
    grep -oE '/(app/other|opt/odd/libnagleshim).so' "/proc/$(systemctl show -p MainPID --value "$unit")/maps" | sort -u | tr '\n' ' '
    echo
done
for i in 1 2 3 4; do
    nagleshim host enable --unit odd@ &
    nagleshim host enable --preload &
    nagleshim host disable &
done >/dev/null 2>/errors
wait
cat /errors
nagleshim host disable >/dev/null
find /etc/ld.so.preload* /etc/systemd/system/*.service.d 2>/dev/null | sed 's/^/left: /'
systemctl stop 'odd@*' 'odd\x2dname'
rm -r /opt/odd /errors /etc/systemd/system/odd* /etc/systemd/system.conf.d
END
    local unit
    for unit in 'odd\x2dname' odd@link odd@a@b; do
        grep -qxF "$unit:/app/other.so /opt/odd/libnagleshim.so " <<<"$output"
    done
    grep -qxF "every unit of odd@.service has it at its next start" <<<"$output"
    [[ $output != *'nagleshim host: '* && $output != *'left: '* && $output != *'cannot be preloaded'* ]]
    diff "$BATS_FILE_TMPDIR/before" <(configuration)
}

@test "a unit of a prefix or a template keeps what it preloads, and status tells of one without the library and of one where it does nothing" {
    run -0 boot_debian <<'END'
unit() { printf '%s\n' '[Service]' "${@:2}" 'ExecStart=/bin/sleep 1000' >"/etc/systemd/system/$1.service"; }
held() { sed -n 's/^\(.*: \).*\(; [0-9]* process.*\)/\1\2/p' | sed 's/: it was started.*//'; }
unit app-own Environment=LD_PRELOAD=/app/other.so
unit app-file EnvironmentFile=-/etc/app-file
unit w@ Environment=A=b
mkdir /etc/systemd/system/w@1.service.d /etc/broken
printf '[Service]\nEnvironment=LD_PRELOAD=/app/other.so\n' >/etc/systemd/system/w@1.service.d/10-x.conf
systemctl daemon-reload
nagleshim host enable --unit app- w@ && echo "taken from them"
nagleshim host enable --unit app- app-own w@ w@1 >/dev/null
systemctl restart app-own w@1
sleep 0.2
for unit in app-own w@1; do
    grep -oE '(other|libnagleshim).so' "/proc/$(systemctl show -p MainPID --value "$unit")/maps" | sort -u | sed "s/^/$unit: /"
done
nagleshim host status >/dev/null; echo "good $?"
echo LD_PRELOAD=/app/other.so >/etc/app-file
systemctl restart app-file
sleep 0.2
nagleshim host status | held; nagleshim host status >/dev/null; echo "without $?"
systemctl stop app-file
echo '{bad' >/etc/broken/sleep.json
echo 'Environment=NAGLESHIM_POLICY_DIR=/etc/broken' >>/etc/systemd/system/app-own.service
systemctl daemon-reload
systemctl restart app-own
sleep 0.2
nagleshim host status | held; nagleshim host status >/dev/null; echo "aside $?"
nagleshim host disable >/dev/null
systemctl stop app-own 'w@*'
rm -r /etc/systemd/system/{app-own,app-file,w@}.service /etc/systemd/system/w@1.service.d /etc/app-file /etc/broken
END
    [[ $output == *'name them, too: --unit app-own.service'* && $output != *'taken from them'* ]]
    [[ $(grep -cE '^(app-own|w@1): (other|libnagleshim).so$' <<<"$output") -eq 4 ]]
    grep -qx 'good 0' <<<"$output"
    grep -qx 'app-.service: ; 1 process with it; 1 without it, though started since' <<<"$output"
    grep -qx 'without 1' <<<"$output"
    grep -q '^app-own.service: ; 0 processes with it; 1 in which it does nothing: the shim stands aside: /etc/broken/sleep.json:1:2: ' <<<"$output"
    grep -qx 'aside 1' <<<"$output"
    diff "$BATS_FILE_TMPDIR/before" <(configuration)
}
