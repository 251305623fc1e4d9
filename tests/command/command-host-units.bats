# SPDX-License-Identifier: MIT
# Promise: `nagleshim host enable --unit` gives a service the library by a drop-in. It refuses units where that would have no effect
# or break something, and prints the text for those that need more than that.
# The tests run on a small system in a directory, with a stub of systemctl.

load ../helpers/system

# pasted UNIT REASON LINE...: refused, and this is the text to paste.
pasted() {
    local name=$1 reason=$2
    shift 2
    refused "nagleshim host: $name: $reason; nothing was changed. If that is right for it, type \"systemctl edit '$name'\" and add:"
    [[ $(tail -n +2 <<<"$stderr") == "$(printf '%s\n' '[Service]' "$@")" ]]
}

@test "the library that was installed with the command is taken, and directories are made for every user" {
    unit app
    host enable --unit app
    refused "cannot find libnagleshim.so beside this command, in ../lib or in /usr/local/lib"
    mkdir -p "$R/usr/local/lib"
    cp "$LIBRARY" "$R/usr/local/lib"
    rm -r "$R/etc/systemd"
    umask 077
    host enable --unit app
    expect 0 output is "app.service will have the library at its next start: systemctl restart 'app.service'"
    [[ $(dropin app.service) == *$'\n[Service]\nEnvironment="LD_PRELOAD=/usr/local/lib/libnagleshim.so"' ]]
    [[ $(stat -c %a "$R/etc/systemd" "$R/etc/systemd/system" "$R/etc/systemd/system/app.service.d" \
        "$R/etc/systemd/system/app.service.d/zz-nagleshim.conf") == $'755\n755\n755\n644' ]]
}

@test "enable --unit writes drop-ins, reloads systemd once, and disable removes them" {
    unit app 'Environment=A=b LD_PRELOADS=x\nRootDirectory=\nRootImage=\nTemporaryFileSystem='
    unit other 'EnvironmentFiles=/etc/none (ignore_errors=yes)\nEnvironmentFiles=/etc/harmless (ignore_errors=no)
UnsetEnvironment=LD_PRELOAD2 MY_LD_PRELOAD LD_PRELOAD=/lib/x.so'
    printf 'A=b LD_PRELOAD=/lib/x.so\n# LD_PRELOAD=/lib/x.so\n' >"$R/etc/harmless"
    snapshot >"$T/before"
    enable --unit app.service other
    expect 0 stderr is ""
    expect_whole output "app.service will have the library at its next start: systemctl restart 'app.service'
other.service will have the library at its next start: systemctl restart 'other.service'"
    [[ $(grep -c daemon-reload "$R/log") -eq 1 ]]
    enable --unit app other
    expect_whole output "app.service has the library already
other.service has the library already"
    host status
    expect 0 output has "'nagleshim doctor --all' lists the processes that run with it"
    host disable --unit app none
    expect 0 output is "app.service will not have the library at its next start
none.service is not enabled"
    host disable
    expect_whole output "other.service will not have the library at its next start"
    expect_untouched
    # Also if nobody reads what it says.
    enable --unit app other
    { sleep 0.3; in_system /usr/bin/nagleshim host disable || echo $? >"$T/status"; } | true
    expect_untouched
    [[ $(cat "$T/status") -eq 2 ]]
}

@test "a unit with an LD_PRELOAD of its own is refused, with the text that joins both; then the library has it already" {
    local shown expected
    unit good
    snapshot >"$T/before"
    while IFS='|' read -r shown expected; do
        unit app "Environment=$shown"
        enable --unit good app
        pasted app.service "it has another LD_PRELOAD" "Environment=\"LD_PRELOAD=${expected//OURS//usr/lib/libnagleshim.so}\""
    done <<'CASES'
A=b LD_PRELOAD=/lib/one.so C=d|OURS:/lib/one.so
"LD_PRELOAD=/lib/a.so /lib/libasan.so.8" C=d|/lib/libasan.so.8:OURS:/lib/a.so
CASES
    # The LD_PRELOAD that systemd gives to every service, unless the unit sets its own.
    echo Environment=PATH=/bin LD_PRELOAD=/lib/all.so >"$R/show/manager"
    unit app
    enable --unit app
    pasted app.service "it has another LD_PRELOAD" 'Environment="LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/all.so"'
    unit app Environment=LD_PRELOAD=/opt/libnagleshim.so:/lib/a.so
    enable --unit app
    pasted app.service "it has another LD_PRELOAD" 'Environment="LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/a.so"'
    # The text was pasted.
    unit app Environment=LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/all.so
    enable --unit app
    expect_whole output "app.service has the library already"
    expect_untouched
    unit app Environment=LD_PRELOAD=/opt/libnagleshim.so
    enable --unit app
    expect_status 0
    [[ $(dropin app.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so"' ]]
}

@test "a unit that hides files is refused, with the text that shows it the library" {
    local shown
    for shown in RootDirectory=/srv RootImage=/srv.raw TemporaryFileSystem=/usr:ro; do
        unit app "$shown"
        enable --unit app
        pasted app.service "RootDirectory=, RootImage= or TemporaryFileSystem= hides files from it" \
            'Environment="LD_PRELOAD=/usr/lib/libnagleshim.so"' "BindReadOnlyPaths=-/usr/lib/libnagleshim.so -/etc/nagleshim"
        if type -P systemd-analyze >/dev/null; then
            printf '%s\n' "${stderr#*$'\n'}" ExecStart=/bin/true >"$T/pasted.service"
            run --separate-stderr systemd-analyze verify --man=no "$T/pasted.service"
            expect_no_part stderr pasted.service:
        fi
        unit app "$shown\nEnvironment=LD_PRELOAD=/usr/lib/libnagleshim.so\nBindReadOnlyPaths=-/usr/lib/libnagleshim.so:/usr/lib/libnagleshim.so:norbind"
        enable --unit app
        expect_whole output "app.service has the library already"
    done
}

@test "enable --unit changes nothing if systemd would not use the drop-in of one of the units" {
    local shown said
    unit good
    printf 'LD_PRELOAD=/usr/lib/libnagleshim.so\n' >"$R/etc/sets-1"
    printf 'A=b\n  LD_PRELOAD="/lib/a.so /lib/b.so"\n' >"$R/etc/sets-2"
    echo A=b >"$R/etc/harmless"
    snapshot >"$T/before"
    while IFS='|' read -r shown said; do
        printf '%b\n' "$shown" >"$R/show/app.service"
        enable --unit good app
        refused "$said"
    done <<'CASES'
LoadState=not-found|app.service: systemctl reports LoadState=not-found; only a loaded unit can be changed
LoadState=masked|app.service: systemctl reports LoadState=masked
LoadState=loaded\nEnvironment="LD_PRELOAD=/lib/a\\\\\\"b.so"|app.service: its LD_PRELOAD has quotes, backslashes or %; add the library there
LoadState=loaded\nEnvironment=LD_PRELOAD=/lib/%n.so|app.service: its LD_PRELOAD has quotes, backslashes or %; add the library there
LoadState=loaded\nEnvironmentFiles=/etc/sets-? (ignore_errors=no)|app.service: its EnvironmentFile /etc/sets-2 sets LD_PRELOAD; the library must be named there
LoadState=loaded\nEnvironmentFiles=/etc/sets-2 (ignore_errors=yes)\nEnvironmentFiles=/etc/harmless (ignore_errors=no)|app.service: its EnvironmentFile /etc/sets-2 sets
LoadState=loaded\nUnsetEnvironment=A LD_PRELOAD|app.service: its UnsetEnvironment= removes LD_PRELOAD
CASES
    # A drop-in that is read later resets the variable.
    unit app
    touch "$R/show/app.service.reset"
    enable --unit good app
    expect 2 stderr has "app.service: its LD_PRELOAD is '' even with the drop-in: a drop-in that is read later sets it, see 'systemctl cat app.service'" stderr has "nothing was changed"
    expect_untouched
    rm "$R/show/app.service.reset"
    touch "$R/show/reload-fails"
    enable --unit good
    expect 2 stderr has "'systemctl daemon-reload' failed"
    expect_untouched
    rm -r "$R/run/systemd"
    enable --unit good
    refused "systemd is not running here, so no unit can be examined; use --preload, or write a drop-in as nagleshim-host(1) shows"
}

@test "a SystemCallFilter= that forbids a call of the library is refused, with the text that allows the call" {
    local shown lacks name
    local all="clock_gettime fcntl getpeername getpid getsockname getsockopt ioctl lseek ppoll readlinkat recvfrom statx setsockopt rt_sigprocmask"
    # Each line is a filter, and the calls that it lacks.
    while IFS='|' read -r shown lacks; do
        unit app "SystemCallFilter=$shown"
        enable --unit app
        if [[ $lacks ]]; then
            pasted app.service "its SystemCallFilter= forbids calls that the library makes" \
                'Environment="LD_PRELOAD=/usr/lib/libnagleshim.so"' "SystemCallFilter=$lacks"
            continue
        fi
        expect 0 stderr is ""
        host disable --unit app
        expect_untouched
    done <<CASES
|
~|
~mount ppoll_time64 ioctls|
~accept socket setsockopt ppoll|ppoll setsockopt
~setsockopt:EACCES recvfrom:kill mount:1|recvfrom setsockopt
access ${all} close|
${all/ppoll/ppoll_time64}|ppoll
${all/ioctl/ioctl:EPERM}|ioctl
execve|${all}
CASES
    # The manual lists all these calls.
    for name in $all; do
        grep -qE "^\.Ql $name( [,;.])?$" config/man/nagleshim-host.1
    done
}

@test "a zz-nagleshim.conf that this command did not write is neither replaced nor removed" {
    local own=$R/etc/systemd/system/app.service.d/zz-nagleshim.conf
    unit app
    unit good
    mkdir "${own%/*}"
    printf '[Service]\nEnvironment="LD_PRELOAD=/usr/lib/libnagleshim.so"\n' >"$own"
    snapshot >"$T/before"
    enable --unit good app
    refused "/etc/systemd/system/app.service.d/zz-nagleshim.conf: this command did not write it; nothing was changed"
    host disable --unit app
    expect_whole output "app.service is not enabled"
    host disable
    expect_whole output "nothing is enabled with the library"
    host status
    expect_whole output "nothing is enabled"
    expect_untouched
}

@test "a name that is not a service, or stands for several, is refused" {
    local name
    for name in $'a\nb' '../x' 'a/b' 'a b' 'a%i' '' - . .service "a'b" "$(printf '%300s' '' | tr ' ' a)"; do
        enable --unit "$name"
        refused "is not the name of a unit"
    done
    for name in app@ app- app-.service; do
        enable --unit "$name"
        refused "'$name' stands for several services: name each one, an instance as ${name}1 for example"
    done
    unit 'a\x2db.service'
    enable --unit 'a\x2db'
    expect_status 0
    [[ -s $R/etc/systemd/system/a\\x2db.service.d/zz-nagleshim.conf ]]
    host status
    expect_part output 'a\x2db.service: /usr/lib/libnagleshim.so'
    host disable
    expect_untouched
}
