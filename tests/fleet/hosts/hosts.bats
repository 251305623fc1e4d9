# SPDX-License-Identifier: MIT
# Promise: A Debian boots with the library in one unit, in every program, and without it again, and nothing else changes.
# Each test continues with the system that the previous test has left, as an administrator would.

load ../../helpers/common
load ../../helpers/releases
load debian

setup_file() {
    export BATS_TEST_TIMEOUT=600
    new_debian_with_packages
    install -D -t "$LAYER/changes/etc/systemd/system" tests/fleet/hosts/units/*
    in_debian sh -c 'dpkg -i /packages/*.deb && cp "$(ls /lib/*/libm.so.6)" /app/other.so &&
        systemctl enable exchange.service other.service' >/dev/null 2>&1
    configuration >"$BATS_FILE_TMPDIR/before"
}

# Prints the files of the system with their checksums, without files that a boot writes.
configuration() {
    in_debian find /etc /usr/lib/systemd -type f -not -path '*/fleet-script.service' -not -name machine-id \
        -not -name 'ld.so.cache' -not -name '.updated' -exec sha256sum {} + | sort -k2
}

# Every boot first prints the failed units and the state of the system.
state() {
    cat <<'END'
systemctl --failed --no-legend --plain | sed 's/^/failed: /'
echo "exchange: $(cat /exchange.ms)"
echo "init: $(grep -c libnagleshim.so /proc/1/maps)"
END
}

# exchange_is stalls|flows: so was the unit's exchange of 20 requests in the last boot. One that flows takes less than half the time of
# the first one.
exchange_is() {
    local took
    took=$(sed -n 's/^exchange: //p' <<<"$output")
    case $1 in
    stalls) ((took > 20 * 30)) ;;
    flows) ((2 * took < $(<"$BATS_FILE_TMPDIR/stalled"))) ;;
    esac || wrong "it took $took ms: not $1"
}

@test "unchanged, the system boots, nothing fails, and the unit stalls" {
    run -0 boot_debian <<<"$(state)"
    [[ $output != *failed:* && $output == *'init: 0'* ]]
    exchange_is stalls
    sed -n 's/^exchange: //p' <<<"$output" >"$BATS_FILE_TMPDIR/stalled"
}

@test "an enabled unit stops stalling at its next start; one with its own LD_PRELOAD keeps that, with the text that is printed for it" {
    run -0 boot_debian <<END
mkdir /etc/systemd/system/other.service.d
nagleshim host enable --unit exchange.service other.service 2>&1 | sed 1d >/etc/systemd/system/other.service.d/override.conf
systemctl daemon-reload
nagleshim host enable --unit exchange.service other.service; echo "status \$?"
nagleshim host enable --unit exchange.service other.service; echo "again \$?"
systemctl restart exchange.service other.service
$(state)
systemctl show -p Environment --value other.service
grep -oE '/(app/other|usr/lib/[^ ]*/libnagleshim).so' /proc/\$(systemctl show -p MainPID --value other.service)/maps | sort -u
nagleshim host status; echo "enabled \$?"
END
    [[ $output == *'status 0'* && $output == *'again 0'* && $output == *'enabled 0'* && $output != *failed:* ]]
    exchange_is flows
    grep -qx /app/other.so <<<"$output"
    grep -qE '^/usr/lib/.*/libnagleshim.so$' <<<"$output"
}

@test "after the next boot the library is in the enabled units and nowhere else" {
    run -0 boot_debian <<<"$(state)"
    [[ $output != *failed:* && $output == *'init: 0'* ]]
    exchange_is flows
}

@test "disable leaves nothing, and the unit stalls as before" {
    run -0 boot_debian <<END
nagleshim host disable; echo "status \$?"
rm -r /etc/systemd/system/other.service.d
systemctl daemon-reload
systemctl restart exchange.service
$(state)
END
    [[ $output == *'status 0'* && $output != *failed:* ]]
    exchange_is stalls
    diff "$BATS_FILE_TMPDIR/before" <(configuration)
}

@test "enable --preload reaches every program, also init, and the system boots without a failed unit" {
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
    exchange_is flows
}

@test "after disable the system boots as before" {
    run -0 boot_debian <<<'nagleshim host disable; echo "status $?"'
    [[ $output == *'status 0'* ]]
    run -0 boot_debian <<<"$(state)"
    [[ $output != *failed:* && $output == *'init: 0'* ]]
    exchange_is stalls
    diff "$BATS_FILE_TMPDIR/before" <(configuration)
}

@test "instances, escaped names and aliases work; hidden directories, a filter and what systemd preloads for all with the printed text" {
    run -0 boot_debian <<'END'
library=$(ls /usr/lib/*/libnagleshim.so)
install -D -m 644 "$library" /opt/odd/libnagleshim.so
for unit in 'odd\x2dname' odd@; do
    printf '[Service]\nExecStart=/bin/sleep 1000\n' >"/etc/systemd/system/$unit.service"
done
ln -s odd@.service /etc/systemd/system/odd@link.service
ln -s 'odd\x2dname.service' /etc/systemd/system/alias.service
preloaded() {
    for unit in 'odd\x2dname' odd@link odd@a@b; do
        systemctl restart "$unit"
        sleep 0.2
        printf '%s: %s:' "$1" "$unit"
        grep -oE '/(app/other|opt/odd/libnagleshim).so' "/proc/$(systemctl show -p MainPID --value "$unit")/maps" | sort -u | tr '\n' ' '
        echo
    done
}
systemctl daemon-reload
nagleshim host enable --library /opt/odd/libnagleshim.so --unit alias odd@link odd@a@b
preloaded written
nagleshim host disable >/dev/null
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\nDefaultEnvironment=LD_PRELOAD=/app/other.so\n' >/etc/systemd/system.conf.d/odd.conf
printf 'TemporaryFileSystem=/opt\n' | tee -a '/etc/systemd/system/odd\x2dname.service' >>/etc/systemd/system/odd@.service
systemctl daemon-reexec
for unit in alias odd@link odd@a@b; do
    mkdir "/etc/systemd/system/$unit.service.d"
    nagleshim host enable --library /opt/odd/libnagleshim.so --unit "$unit" 2>&1 | sed 1d >"/etc/systemd/system/$unit.service.d/override.conf"
done
systemctl daemon-reload
preloaded pasted
nagleshim host enable --unit odd@ || echo "template $?"
printf '[Service]\nExecStart=/bin/true\nSystemCallFilter=~@network-io\nSystemCallFilter=socket\n' >/etc/systemd/system/odd.service
systemctl daemon-reload
nagleshim host enable --library /opt/odd/libnagleshim.so --unit odd || echo "filter $?"
rm -r /etc/systemd/system/{alias,odd@link,odd@a@b}.service.d
find /etc/ld.so.preload* /etc/systemd/system/*.service.d 2>/dev/null | sed 's/^/left: /'
systemctl stop 'odd@*' 'odd\x2dname'
rm -r /opt/odd /etc/systemd/system/{odd*,alias.service} /etc/systemd/system.conf.d
END
    local unit
    for unit in 'odd\x2dname' odd@link odd@a@b; do
        grep -qxF "written: $unit:/opt/odd/libnagleshim.so " <<<"$output"
        grep -qxF "pasted: $unit:/app/other.so /opt/odd/libnagleshim.so " <<<"$output"
    done
    grep -qxF "nagleshim host: 'odd@' stands for several services: name each one, an instance as odd@1 for example" <<<"$output"
    grep -qx 'template 2' <<<"$output"
    grep -qx "SystemCallFilter=getpeername getsockname getsockopt recvfrom setsockopt" <<<"$output"
    grep -qx 'filter 2' <<<"$output"
    [[ $(grep -c 'nagleshim host: ' <<<"$output") -eq 2 && $output != *'left: '* && $output != *'cannot be preloaded'* ]]
    diff "$BATS_FILE_TMPDIR/before" <(configuration)
}

@test "cure finds the processes of a unit" {
    export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
    run -0 boot_debian <<'END'
systemd-run --quiet --unit listens perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0); listen(S, 1); sleep 1000'
systemd-run --quiet --unit listens-too perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0); listen(S, 1); sleep 1000'
sleep 1
nagleshim cure --unit listens
nagleshim cure --unit no-such; echo "no such $?"
nagleshim cure --undo --all
# Without a BPF file system it fails, and restores what it has changed.
systemctl start nagleshim-cure; systemctl stop nagleshim-cure
journalctl -qo cat -u nagleshim-cure
END
    [[ $(grep -c 'perl.*1 listener: TCP_NODELAY set on 1' <<<"$output") -eq 3 ]]
    grep -qx 'no such 2' <<<"$output"
    [[ $(grep -c 'perl.*1 listener: TCP_NODELAY restored on 1' <<<"$output") -eq 3 ]]
}

@test "nagleshim-metrics.service counts the stalls of a client while it runs, and removes the counters when it stops" {
    run -0 boot_debian <<'END'
counters=/var/lib/prometheus/node-exporter/nagleshim.prom
mkdir -p "${counters%/*}"
/app/tcp_nodelay_server --connections 0 9001 0 >/listens &
until grep -qs port /listens; do sleep 0.01; done
/app/tcp_nodelay_client 127.0.0.1 9001 100000 >/dev/null 2>&1 &
systemctl start nagleshim-metrics
counts() { grep -qsE '^nagleshim_stalled_requests_total\{.*process="tcp_nodelay_client".*\} [1-9]' "$counters"; }
for _ in {1..300}; do ! counts || break; sleep 0.2; done
counts; echo "counts $?"
begun=$SECONDS
systemctl stop nagleshim-metrics
echo "stops at once: $((SECONDS - begun < 30))" # systemd waits for 90 s for a process that is left
find "${counters%/*}" -type f
kill $(jobs -p) 2>/dev/null
END
    [[ $output == $'counts 0\nstops at once: 1' ]]
}

@test "the kernel cures the new connections of a unit, until the undo" {
    export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
    run -0 boot_debian --capability=CAP_BPF,CAP_NET_ADMIN --system-call-filter=bpf <<'END'
exchange() { echo "$1 $(/app/tcp_nodelay_client --stats 127.0.0.1 9000 20 | grep -o 'stalls [0-9]*')"; }
mount -o remount,rw /sys && mkdir /sys/fs/bpf && mount -t bpf bpf /sys/fs/bpf
/app/tcp_nodelay_server --connections 0 9000 0 >/dev/null &
systemd-run --quiet --unit lives sleep 1000
echo $$ >/sys/fs/cgroup/system.slice/lives.service/cgroup.procs
sleep 0.5
exchange before
nagleshim cure --unit lives
nagleshim host status
exchange cured
nagleshim cure --undo --all
exchange after
# In this container a unit's group is the largest. The restrictions of the unit stay.
mkdir /etc/systemd/system/nagleshim-cure.service.d
printf '[Service]\nExecStart=\nExecStart=nagleshim cure --unit lives\n' >/etc/systemd/system/nagleshim-cure.service.d/only.conf
systemctl enable --now nagleshim-cure; echo "unit $(systemctl is-active nagleshim-cure)"
exchange "by the unit"
systemctl disable --now nagleshim-cure; echo "unit $(systemctl is-failed nagleshim-cure)"
exchange "after the unit"
rm -r /etc/systemd/system/nagleshim-cure.service.d
journalctl -qo cat -u nagleshim-cure
ls /sys/fs/bpf/nagleshim
END
    local group=/sys/fs/cgroup/system.slice/lives.service line
    for line in 'before stalls (1[5-9]|20)' 'cured stalls 0' 'after stalls (1[5-9]|20)' \
        'unit active' 'by the unit stalls 0' 'unit inactive' 'after the unit stalls (1[5-9]|20)' "$group: the kernel is set to cure new connections, until .*" \
        "$group: the kernel will cure new connections, until --undo or the end of the group" \
        "$group: the kernel will no longer cure new connections" '.*/nagleshim.: No such file or directory'; do
        grep -qxE "$line" <<<"$output" || wrong "no line: $line in:"$'\n'"$output"
    done
}
