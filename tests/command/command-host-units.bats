# SPDX-License-Identifier: MIT
# Promise: `nagleshim host enable --unit` adds the library to a service's LD_PRELOAD, as systemctl shows it, and refuses units where it would have no effect.
# Most tests run on a small system in a directory: an image, or a system with a stub of systemctl.

load ../helpers/system

@test "the library of an image may be named by its path outside, and directories are made" {
    mkdir -p "$R/usr/bin" "$T/elsewhere"
    cp "$NS" "$R/usr/bin"
    cp "$NS" "$LIBRARY" "$T/elsewhere"
    unit app.service
    run --separate-stderr "${as_root[@]}" "$R/usr/bin/nagleshim" host enable --unit app --root "$R"
    expect_status 0
    [[ $(dropin app.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so"' ]]
    host disable --root "$R"
    run --separate-stderr "${as_root[@]}" "$T/elsewhere/nagleshim" host enable --unit app --root "$R"
    refused "$T/elsewhere/libnagleshim.so: No such file or directory"
    rm -r "$R/etc/systemd"
    umask 077
    enable --unit app
    expect_status 0
    [[ $(stat -c %a "$R/etc/systemd" "$R/etc/systemd/system" "$R/etc/systemd/system/app.service.d" \
        "$R/etc/systemd/system/app.service.d/zz-nagleshim.conf") == $'755\n755\n755\n644' ]]
}

@test "enable --unit in an image writes a drop-in, unless the unit's files mention LD_PRELOAD" {
    local system=$R/etc/systemd/system
    unit app.service Environment=A=b '# LD_PRELOAD=/lib/x.so' ' ; RootImage=/x LD_PRELOAD=/lib/x.so'
    unit root.service RootDirectory=/srv
    unit own.service Environment=LD_PRELOAD=/lib/own.so
    unit unset.service UnsetEnvironment=LD_PRELOAD
    unit many@.service Environment=LD_PRELOAD=/lib/many.so
    mkdir "$system/late.service.d"
    unit late.service
    printf '[Service]\nEnvironment=LD_PRELOAD=/lib/late.so\n' >"$system/late.service.d/x.conf"
    snapshot >"$T/before"
    enable --unit app own
    refused "own.service: /usr/lib/systemd/system/own.service mentions LD_PRELOAD; change that file instead"
    enable --unit unset
    refused "unset.service: /usr/lib/systemd/system/unset.service mentions LD_PRELOAD; change that file instead"
    enable --unit many@1
    refused "many@1.service: /usr/lib/systemd/system/many@.service mentions LD_PRELOAD; change that file instead"
    enable --unit late
    refused "late.service: /etc/systemd/system/late.service.d/x.conf mentions LD_PRELOAD; change that file instead"
    enable --unit app.service root
    expect 0 stderr is ""
    expect_whole output "app.service will have the library at its next start
root.service will have the library at its next start"
    [[ $(dropin app.service) == *'
[Service]
Environment="LD_PRELOAD=/usr/lib/libnagleshim.so"' ]]
    [[ $(dropin root.service) == *'
BindReadOnlyPaths=-/usr/lib/libnagleshim.so -/etc/nagleshim' ]]
    if type -P systemd-analyze >/dev/null; then
        run --separate-stderr systemd-analyze verify --root="$R" --man=no root.service
        expect_no_part stderr zz-nagleshim
    fi
    snapshot >"$T/enabled"
    enable --unit app
    expect_whole output "app.service has the library already"
    snapshot | diff "$T/enabled" -
    unit filtered.service '# SystemCallFilter=@basic-io' 'SystemCallFilter=@basic-io'
    ln -s ../usr/lib/systemd "$R/lib/systemd" # as where /lib is /usr/lib
    enable --unit filtered
    rm "$R/lib/systemd"
    expect 0 stderr is "nagleshim host: note: filtered.service: /usr/lib/systemd/system/filtered.service sets SystemCallFilter=, which is not examined in an image; nagleshim-host(1) lists the calls that it must allow"
    host disable --unit filtered --root "$R"
    enable --unit none
    expect 0 stderr is "nagleshim host: warning: none.service: the image has no such unit"
    host disable --unit app none other --root "$R"
    expect 0 output is "app.service will not have the library at its next start
none.service will not have the library at its next start
other.service is not enabled"
    host disable --root "$R"
    expect_untouched
}

@test "enable --unit joins the library to the LD_PRELOAD that systemctl shows" {
    local shown expected
    make_live
    snapshot >"$T/before"
    while IFS='|' read -r shown expected; do
        printf 'LoadState=loaded\n%b\n' "$shown" >"$R/show/app.service"
        live enable --unit app
        expect 0 stderr is ""
        expect_whole output "app.service will have the library at its next start: systemctl restart 'app.service'"
        [[ $(dropin app.service) == *"Environment=\"LD_PRELOAD=$(printf %b "${expected//OURS//usr/lib/libnagleshim.so}")" ]]
        live disable --unit app
        expect_status 0
        expect_untouched
    done <<'CASES'
Environment=|OURS"
Environment=A=b LD_PRELOAD=/lib/one.so C=d|OURS:/lib/one.so"
Environment="LD_PRELOAD=/lib/a.so /lib/libasan.so.8" C=d|/lib/libasan.so.8:OURS:/lib/a.so"
Environment=LD_PRELOADS=x|OURS"
RootDirectory=\nRootImage=\nTemporaryFileSystem=/usr:ro|OURS"\nBindReadOnlyPaths=-OURS -/etc/nagleshim
RootDirectory=/srv|OURS"\nBindReadOnlyPaths=-OURS -/etc/nagleshim
CASES
    # The LD_PRELOAD that systemd gives to every service, unless the unit sets its own.
    echo Environment=PATH=/bin LD_PRELOAD=/lib/all.so >"$R/show/manager"
    echo LoadState=loaded >"$R/show/app.service"
    printf 'LoadState=loaded\nEnvironment=LD_PRELOAD=/lib/a.so\n' >"$R/show/own.service"
    : >"$R/log"
    live enable --unit app own
    expect_status 0
    [[ $(dropin app.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/all.so"' ]]
    [[ $(dropin own.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/a.so"' ]]
    [[ $(grep -c daemon-reload "$R/log") -eq 1 ]]
    live enable --unit app own
    expect_whole output "app.service has the library already
own.service has the library already"
    live status
    expect 0 output has "'nagleshim doctor --all' lists the processes that run with it"
    live disable
    expect_untouched
}

@test "enable --unit changes nothing if systemd would not use the drop-in of one of the units" {
    local shown said
    make_live
    echo 'LoadState=loaded' | tee "$R/show/good.service" >"$R/show/app.service.after"
    snapshot >"$T/before"
    while IFS='|' read -r shown said; do
        printf '%b\n' "$shown" >"$R/show/app.service"
        live enable --unit good app
        refused "$said"
    done <<'CASES'
LoadState=not-found|app.service: systemctl reports LoadState=not-found; only a loaded unit can be changed
LoadState=masked|app.service: systemctl reports LoadState=masked
LoadState=loaded\nEnvironment="LD_PRELOAD=/lib/a\\\\\\"b.so"|app.service: its LD_PRELOAD has quotes, backslashes or %
CASES
    # systemctl shows this value once the drop-in exists, because another drop-in is read later.
    printf 'LoadState=loaded\nEnvironment=LD_PRELOAD=/lib/late.so\n' | tee "$R/show/app.service.after" >"$R/show/app.service"
    : >"$R/log"
    live enable --unit good app
    refused "app.service: its LD_PRELOAD is '/lib/late.so' even with the drop-in: a drop-in that is read later sets it, see 'systemctl cat app.service'"
    expect_part stderr "nothing was changed"
    [[ $(grep -c daemon-reload "$R/log") -eq 2 ]]
    # These settings override the drop-in, or seem to.
    printf 'A=b LD_PRELOAD=/lib/x.so\n# LD_PRELOAD=/lib/x.so\n' >"$R/etc/harmless"
    printf 'LD_PRELOAD=/usr/lib/libnagleshim.so\n' >"$R/etc/sets-1"
    printf 'A=b\n  LD_PRELOAD="/lib/a.so /lib/b.so"\n' >"$R/etc/sets-2"
    snapshot >"$T/before"
    echo LoadState=loaded >"$R/show/app.service"
    while IFS='|' read -r shown said; do
        printf 'LoadState=loaded\nEnvironment=LD_PRELOAD=/usr/lib/libnagleshim.so\n%b\n' "$shown" >"$R/show/app.service.after"
        live enable --unit good app
        if [[ $said ]]; then
            refused "$said"
        else
            expect_status 0
            live disable
        fi
    done <<'CASES'
EnvironmentFiles=/etc/none (ignore_errors=yes)\nEnvironmentFiles=/etc/harmless (ignore_errors=no)|
UnsetEnvironment=LD_PRELOAD2 MY_LD_PRELOAD LD_PRELOAD=/lib/x.so|
EnvironmentFiles=/etc/sets-? (ignore_errors=no)|app.service: its EnvironmentFile /etc/sets-2 sets LD_PRELOAD; the library must be named there
EnvironmentFiles=/etc/sets-2 (ignore_errors=yes)\nEnvironmentFiles=/etc/harmless (ignore_errors=no)|app.service: its EnvironmentFile /etc/sets-2 sets
UnsetEnvironment=A LD_PRELOAD|app.service: its UnsetEnvironment= removes LD_PRELOAD
CASES
    touch "$R/show/reload-fails"
    live enable --unit good
    expect 2 stderr has "'systemctl daemon-reload' failed"
    expect_untouched
    rm -r "$R/run/systemd"
    live enable --unit good
    refused "systemd is not running here; use --preload, or --root for an image"
}

@test "enable --unit refuses a SystemCallFilter= that forbids a call of the library, and prints what else a filter means" {
    local shown number said
    local default="clock_gettime clock_nanosleep execve exit futex getpid mmap prlimit64"
    local files="access close fcntl ioctl lseek openat read readlinkat statx write"
    local network="accept accept4 bind connect getpeername getsockname getsockopt recvfrom sendto setsockopt socket"
    make_live
    snapshot >"$T/before"
    # Each line is a filter, SystemCallErrorNumber, and a note, or why the unit is refused and the calls to allow first.
    while IFS='|' read -r shown number said; do
        printf 'SystemCallFilter=%s\nSystemCallErrorNumber=%s\nLoadState=loaded\n' "$shown" "$number" >"$R/show/app.service"
        live enable --unit app
        case $said in
        note:*) expect 0 stderr is "nagleshim host: note: app.service: its SystemCallFilter= ${said#note: }" ;;
        '') expect 0 stderr is "" ;;
        *)
            refused "app.service: with the library its SystemCallFilter= would ${said%:*}; first add 'SystemCallFilter=${said#*:}' to the unit"
            continue
            ;;
        esac
        live disable
        expect_untouched
    done <<CASES
~|2147483646|
||
~mount ppoll_time64 ioctls|2147483646|
~${network}|2147483646|note: forbids sockets: the library does nothing there
~${network} lseek|2147483646|kill it:lseek
~${network} lseek|1|note: forbids sockets: the library does nothing there
~setsockopt ppoll|2147483646|kill it:ppoll setsockopt
~setsockopt ppoll|0|kill it:ppoll setsockopt
~setsockopt ppoll|1|note: makes calls of the library fail, which does less there: ppoll setsockopt
~setsockopt:EACCES ppoll|2147483646|kill it:ppoll
~setsockopt:kill ppoll|1|kill it:setsockopt
~recvfrom ioctl|1|make its reads fail:recvfrom
~recvfrom:ENOSYS getpeername|0|kill it:getpeername recvfrom
${default} ${files} ${network} ppoll rt_sigprocmask|2147483646|
${default} ${files/ioctl /} ${network} ppoll|2147483646|kill it:ioctl rt_sigprocmask
${default} ${files/lseek /}|2147483646|kill it:lseek
${default} ${files}|1|note: forbids sockets: the library does nothing there
CASES
    # The manual lists all these calls.
    printf 'SystemCallFilter=socket\nLoadState=loaded\n' >"$R/show/app.service"
    live enable --unit app
    refused "'SystemCallFilter=clock_gettime ioctl lseek "
    shown=${stderr##*SystemCallFilter=}
    for shown in ${shown%%\'*}; do
        grep -qE "^\.Ql $shown( [,;.])?$" config/man/nagleshim-host.1
    done
}

@test "a zz-nagleshim.conf that this command did not write is neither replaced nor removed" {
    local own=$R/etc/systemd/system/app.service.d/zz-nagleshim.conf
    unit app.service
    unit good.service
    mkdir "${own%/*}"
    printf '[Service]\nEnvironment="LD_PRELOAD=/usr/lib/libnagleshim.so"\n' >"$own"
    snapshot >"$T/before"
    enable --unit good app
    refused "/etc/systemd/system/app.service.d/zz-nagleshim.conf: this command did not write it; nothing was changed"
    host disable --unit app --root "$R"
    expect_whole output "app.service is not enabled"
    host disable --root "$R"
    expect_whole output "nothing is enabled with the library"
    host status --root "$R"
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
    host status --root "$R"
    expect_part output 'a\x2db.service: /usr/lib/libnagleshim.so'
    host disable --root "$R"
    expect_untouched
}
