#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: `nagleshim host` gives the shim to services or to a whole system, refuses what would break it, and takes it back.
# shellcheck disable=SC2154 # bats sets $output, $stderr and $lines
# shellcheck disable=SC2016 # for the inner shell
# `nagleshim host`, mostly on a small system in a directory that it may break.

bats_require_minimum_version 1.5.0
load ../helpers/system

setup() {
    system_setup
}

teardown() {
    ns_teardown
}

@test "enable --preload names the library first in ld.so.preload, and disable leaves it as it was" {
    gcc -shared -fPIC -x c -o "$R/lib/other.so" - <<<"int other;"
    printf '/lib/other.so # of somebody else\n\n' >"$R/etc/ld.so.preload"
    chmod 0640 "$R/etc/ld.so.preload"
    chmod o+r "$R/etc/ld.so.preload"
    snapshot >"$T/before"
    enable --preload
    expect_status 0
    expect_whole stderr ""
    [[ $(cat "$R/etc/ld.so.preload") == $'/usr/lib/libnagleshim.so\n/lib/other.so # of somebody else' ]]
    [[ $(stat -c %a "$R/etc/ld.so.preload") == 644 ]]
    snapshot >"$T/enabled"
    enable --preload
    expect_status 0
    expect_part output "names /usr/lib/libnagleshim.so already"
    snapshot | diff "$T/enabled" -
    host disable --preload --root "$R"
    expect_status 0
    expect_untouched
    host disable --preload --root "$R"
    expect_status 0
    expect_whole output "/etc/ld.so.preload does not name the library"
    expect_untouched
}

@test "disable takes every entry of the library out of ld.so.preload, and removes a file that has nothing else" {
    local before after
    while IFS='|' read -r before after; do
        printf %b "$before" >"$R/etc/ld.so.preload"
        host disable --root "$R"
        expect_status 0
        [[ $(cat "$R/etc/ld.so.preload" 2>/dev/null; echo x) == "$(printf %b "$after"; echo x)" ]] || {
            printf '%s: ' "$before"
            cat -A "$R/etc/ld.so.preload"
            return 1
        }
    done <<'CASES'
/usr/lib/libnagleshim.so\n|
libnagleshim.so|
/usr/lib/libnagleshim.so\n/lib/a.so\n|/lib/a.so\n
/lib/a.so\n/usr/lib/libnagleshim.so\n/lib/b.so|/lib/a.so\n/lib/b.so
/lib/a.so:/opt/libnagleshim.so:/lib/b.so\n|/lib/a.so::/lib/b.so\n
/opt/libnagleshim.so # ours\n/lib/b.so\n| # ours\n/lib/b.so\n
# /opt/libnagleshim.so\n|# /opt/libnagleshim.so\n
/lib/mylibnagleshim.so\n|/lib/mylibnagleshim.so\n
CASES
    rm "$R/etc/ld.so.preload"
    enable --preload
    host disable --root "$R"
    expect_status 0
    expect_untouched
}

@test "disable takes the library that --library names, by whatever links, and leaves that of another installation" {
    local other=/usr/local/lib/libnagleshim.so
    unit ours.service
    unit theirs.service
    mkdir -p "$R/usr/local/lib" "$R/opt"
    cp "$LIBRARY" "$R$other"
    ln -s usr/lib "$R/lib64-of-old"
    ln -s /usr/lib/libnagleshim.so "$R/opt/libnagleshim.so"
    host disable --library "$other" --root "$R"
    expect_status 0
    expect_whole output "nothing is enabled with $other"
    enable --unit ours
    library=$other enable --unit theirs
    printf '%s\n' /lib64-of-old/libnagleshim.so "$other" /opt/libnagleshim.so libnagleshim.so >"$R/etc/ld.so.preload"
    host disable --library /usr/lib/libnagleshim.so --root "$R"
    expect_status 0
    expect_whole output "$R/etc/ld.so.preload names /usr/lib/libnagleshim.so no more
ours.service has it no more at its next start"
    [[ $(cat "$R/etc/ld.so.preload") == "$other"$'\n'libnagleshim.so ]]
    [[ ! -e $R/etc/systemd/system/ours.service.d && $(dropin theirs.service) == *"$other"* ]]
    host disable --unit theirs --library /usr/lib/libnagleshim.so --root "$R"
    expect_status 0
    expect_whole output "theirs.service has $other, which stays"
    host disable --preload --library /usr/lib/libnagleshim.so --root "$R"
    expect_status 0
    expect_whole output "/etc/ld.so.preload does not name /usr/lib/libnagleshim.so"
    # A file that has gone, and the path of it outside of the system.
    rm "$R$other"
    host disable --library "$R$other" --root "$R"
    expect_whole output "$R/etc/ld.so.preload names $other no more
theirs.service has it no more at its next start"
    [[ $(cat "$R/etc/ld.so.preload") == libnagleshim.so ]]
    host disable --root "$R"
    expect_untouched
    host disable --root "$R"
    expect_status 0
    expect_whole output "nothing is enabled"
}

@test "enable refuses a library that would break programs: cut off, of another machine, none, or one that prints" {
    library=/usr/lib/bad/libnagleshim.so
    mkdir "$R/usr/lib/bad"
    enable --preload
    refused "$R$library: No such file or directory"
    head -c 20000 "$LIBRARY" >"$R$library"
    enable --preload
    refused "is cut off: it has 20000 bytes, and needs"
    enable --unit x
    refused "is cut off"
    program other-machine "$R$library"
    enable --preload
    refused "is built for another kind of machine"
    gcc -shared -fPIC -x c -o "$R$library" - <<<'int other;'
    enable --preload
    refused "/bin/cat, started with the library, has one that this command does not know"
    gcc -shared -fPIC -x c -o "$R$library" - <<<'#include <stdio.h>
__attribute__((constructor)) static void begin(void) { puts("hello"); }'
    enable --preload
    refused "/bin/true, started with the library, prints: hello"
    gcc -shared -fPIC -x c -o "$R$library" - <<<'#include <stdlib.h>
__attribute__((constructor)) static void begin(void) { abort(); }'
    enable --preload
    refused "/bin/true, started with the library, ended by signal 6"
    library=usr/lib/libnagleshim.so
    enable --preload
    refused "the library's path must be absolute"
}

@test "enable refuses a library that others could change, or that is not there for every program" {
    chmod 0775 "$R/usr/lib"
    enable --preload
    refused "$R/usr/lib can be changed by others than root (mode 0775)"
    chmod 0755 "$R/usr/lib"
    chmod 0666 "$R/usr/lib/libnagleshim.so"
    enable --preload
    refused "$R/usr/lib/libnagleshim.so can be changed by others than root (mode 0666)"
    chmod 0640 "$R/usr/lib/libnagleshim.so"
    enable --preload
    refused "cannot be read by everybody"
    chmod 0644 "$R/usr/lib/libnagleshim.so"
    local directory
    for directory in /home/user/lib /tmp /run/lib /root /mnt; do
        mkdir -p "$R$directory"
        cp "$LIBRARY" "$R$directory"
        library=$directory/libnagleshim.so enable --preload
        refused "$directory/libnagleshim.so is below /$(cut -d / -f 2 <<<"$directory"),"
    done
    # A link may not lead there either.
    mkdir -p "$R"/{usr/lib/link,home/user,opt/app/1/lib}
    ln -s /tmp/libnagleshim.so "$R/usr/lib/link/libnagleshim.so"
    library=/usr/lib/link/libnagleshim.so enable --preload
    refused "/tmp/libnagleshim.so is below /tmp"
    # Nor over there, nor lie where others could lead it elsewhere.
    ln -s /usr/lib "$R/home/user/lib64"
    ln -s /home/user/lib64 "$R/opt/lib"
    library=/opt/lib/libnagleshim.so enable --preload
    refused "/home/user/lib64 is below /home"
    cp "$LIBRARY" "$R/opt/app/1/lib"
    ln -s 1 "$R/opt/app/current"
    chmod 0777 "$R/opt/app"
    library=/opt/app/current/lib/libnagleshim.so enable --preload
    refused "$R/opt/app can be changed by others than root (mode 0777)"
    library=/usr/lib/other.so enable --preload
    refused "'/usr/lib/other.so': the library is called libnagleshim.so, by which it is found again"
    mkdir "$R/usr/lib/with space"
    cp "$LIBRARY" "$R/usr/lib/with space"
    library="/usr/lib/with space/libnagleshim.so" enable --preload
    refused "has a character that LD_PRELOAD or a unit cannot have"
    chown 65533 "$R/usr/lib/libnagleshim.so" 2>/dev/null || return 0 # only root can give a file away
    enable --preload
    refused "belongs to user 65533, who could run code in every program"
}

@test "enable refuses a file system that is mounted noexec, or that is not there at boot" {
    local mounts
    ns_mount_namespace
    [[ ${#mounts[@]} -gt 0 ]] || cannot_here "no mount namespace"
    export R NS LIBRARY
    mkdir "$R/opt"
    run --separate-stderr "${mounts[@]}" bash -c 'mount -t tmpfs -o noexec,mode=755 none "$R/opt" && cp "$LIBRARY" "$R/opt" &&
        "$NS" host enable --preload --root "$R" --library /opt/libnagleshim.so'
    refused "lies on a file system that is mounted noexec"
    run --separate-stderr "${mounts[@]}" bash -c 'mount -t tmpfs -o mode=755 none "$R/opt" && cp "$LIBRARY" "$R/opt" &&
        "$NS" host enable --preload --root "$R" --library /opt/libnagleshim.so'
    refused "lies on a file system of its own, which is not mounted when the first programs start"
}

@test "enable --preload refuses a system of musl, whose loader reads no such file" {
    musl_loader
    gcc -x c -o "$R/bin/cat" -Wl,--dynamic-linker="$musl" - <<<'int main(void) { return 0; }'
    enable --preload
    refused "this system's libc is musl, whose loader reads no /etc/ld.so.preload"
}

@test "enable --preload writes through no link, and a write that fails leaves everything as it was" {
    type -P strace >/dev/null || cannot_here "strace is not installed"
    ln -s /etc/passwd "$R/etc/ld.so.preload"
    snapshot >"$T/before"
    enable --preload
    refused "is not a regular file"
    rm "$R/etc/ld.so.preload"
    echo '#/lib/none.so' >"$R/etc/ld.so.preload"
    snapshot >"$T/before"
    local fault
    # The file's, that of the directory after the rename, and the rename.
    for fault in fsync:error=EIO:when=1 fsync:error=EIO:when=2 rename:error=EROFS; do
        run --separate-stderr "${as_root[@]}" strace -qqo "$T/trace" -e inject="$fault" \
            "$NS" host enable --preload --root "$R" --library /usr/lib/libnagleshim.so
        refused "nothing was changed"
    done
}

@test "a library that is named through a link keeps that name, so that an upgrade that switches the link is followed" {
    mkdir -p "$R/opt/app"/{1,2}/lib
    cp "$LIBRARY" "$R/opt/app/1/lib"
    cp "$LIBRARY" "$R/opt/app/2/lib"
    ln -s 1 "$R/opt/app/current"
    library=/opt/app/current/lib/libnagleshim.so
    unit app.service
    enable --unit app
    expect_status 0
    [[ $(dropin app.service) == *"LD_PRELOAD=$library\"" ]]
    enable --preload
    [[ $(cat "$R/etc/ld.so.preload") == "$library" ]]
    # An absolute link of the image is one in it.
    ln -sfn /opt/app/2 "$R/opt/app/current"
    host status --root "$R"
    expect_status 0
    rm "$R/opt/app/2/lib/libnagleshim.so"
    host status --root "$R"
    expect_status 1
    expect_part output "wrong: $R$library cannot be read: No such file or directory"
    host disable --root "$R"
    expect_untouched
}

@test "the path of an image's library may be the one outside, --library is named where it is missing, and directories are made" {
    mkdir -p "$R/usr/bin" "$T/elsewhere"
    cp "$NS" "$R/usr/bin"
    cp "$NS" "$LIBRARY" "$T/elsewhere"
    unit app.service
    run --separate-stderr "${as_root[@]}" "$R/usr/bin/nagleshim" host enable --unit app --root "$R"
    expect_status 0
    [[ $(dropin app.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so"' ]]
    host disable --root "$R"
    run --separate-stderr "${as_root[@]}" "$T/elsewhere/nagleshim" host enable --unit app --root "$R"
    refused "$R$T/elsewhere/libnagleshim.so: No such file or directory; --library FILE names the one in the system"
    rm -r "$R/etc/systemd"
    snapshot >"$T/before"
    type -P strace >/dev/null || cannot_here "strace is not installed"
    run --separate-stderr "${as_root[@]}" strace -qqo "$T/trace" -e inject=rename:error=EROFS "$NS" host enable --unit app \
        --root "$R" --library /usr/lib/libnagleshim.so
    refused "Read-only file system; nothing was changed"
    enable --unit app
    expect_status 0
    [[ $(stat -c %a "$R/etc/systemd" "$R/etc/systemd/system" "$R/etc/systemd/system/app.service.d") == $'755\n755\n755' ]]
}

@test "whoever lacks the rights is told so, with status 3" {
    [[ $EUID -eq 0 ]] || cannot_here "not root"
    local -a other=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all)
    "${other[@]}" true 2>/dev/null || cannot_here "no other user"
    cp "$NS" "$T"
    let_others_in "$T"
    chmod 755 "$R"
    unit app.service
    run --separate-stderr "${other[@]}" "$T/nagleshim" host enable --preload --root "$R" --library /usr/lib/libnagleshim.so
    expect_status 3
    expect_whole stderr "nagleshim host: the library cannot be tried with /bin/true: chroot: Operation not permitted"
    enable --preload
    enable --unit app
    snapshot >"$T/before"
    run --separate-stderr "${other[@]}" "$T/nagleshim" host disable --root "$R"
    expect_status 3
    expect_part stderr "$R/etc/ld.so.preload cannot be written: Permission denied; nothing was changed"
    expect_part stderr "app.service.d/zz-nagleshim.conf cannot be removed: Permission denied"
    expect_untouched
}

@test "status says what is enabled, and what is wrong with the library or a policy" {
    unit app.service
    host status --root "$R"
    expect_status 1
    expect_whole output "nothing is enabled"
    enable --preload
    enable --unit app
    host status --root "$R"
    expect_status 0
    expect_whole output "/etc/ld.so.preload: /usr/lib/libnagleshim.so
app.service: /usr/lib/libnagleshim.so"
    mkdir -p "$R/etc/nagleshim"
    printf '{"version": 2}\n' >"$R/etc/nagleshim/default.json"
    host status --root "$R"
    expect_status 1
    expect_part output "wrong: $R/etc/nagleshim/default.json:1:13: "
    rm "$R/etc/nagleshim/default.json"
    head -c 20000 "$LIBRARY" >"$R/usr/lib/libnagleshim.so"
    mkfifo "$R/etc/nagleshim/default.json"
    host status --root "$R"
    expect_part output "wrong: $R/etc/nagleshim/default.json: cannot be read: it is not a regular file; the programs"
    rm "$R/etc/nagleshim/default.json"
    host status --root "$R" --json
    expect_status 1
    python3 -c 'import json, sys
o = json.loads(sys.argv[1])
assert [e["unit"] for e in o["enabled"]] == [None, "app.service"] and o["good"] is False, o
assert any(f["name"] == "wrong" and "is cut off" in f["text"] for f in o["facts"]), o' "$output"
    # Taking it away needs no library that works.
    host disable --root "$R"
    expect_status 0
    rm -r "$R/etc/nagleshim"
    expect_untouched
}

@test "what is meant must be clear, and needs the rights" {
    local words said
    while IFS='|' read -r words said; do
        # shellcheck disable=SC2086 # words
        host --root "$R" $words
        refused "$said"
    done <<'CASES'
|host is followed by enable, disable or status; see 'nagleshim host --help'
enable nginx|'nginx': enable takes no such word; see 'nagleshim host --help'
frobnicate|'frobnicate': host is followed by enable, disable or status
enable|enable what? --unit UNIT for a service, --preload for every program of the system
enable --preload --unit x|--unit and --preload cannot be used together
status --preload|status tells of everything
status --library /x|--library is for enable and disable
disable --library x|'x': the library's path must be absolute
enable disable --preload|'disable': enable takes no such word
enable --unit|needs a value
CASES
    host status --root "$T/nosuch"
    expect_status 2
    expect_whole stderr "nagleshim host: --root '$T/nosuch': No such file or directory"
    host status --root "$T"
    expect_status 2
    expect_whole stderr "nagleshim host: --root '$T': there is no system, for it has no directory etc"
    if [[ ! -e /run/systemd/system ]]; then
        host enable --unit x
        expect_status 2
        expect_whole stderr "nagleshim host: systemd does not run here, so that there are no units; use --preload, or --root for an image"
    fi
    local -a as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    "${as_other[@]}" true 2>/dev/null || as_other=()
    [[ ${#as_other[@]} -gt 0 || $EUID -ne 0 ]] || return 0
    cp "$NS" "$T"
    let_others_in "$T"
    run --separate-stderr "${as_other[@]}" "$T/nagleshim" host enable --preload
    expect_status 3
    expect_whole stderr "nagleshim host: permission denied: only root may change this system; nothing was changed"
}

@test "on the system itself every program has it after enable --preload, none after disable, and status knows those from before" {
    local mounts
    ns_mount_namespace
    [[ ${#mounts[@]} -gt 0 && $EUID -eq 0 ]] || cannot_here "no mount namespace of root's"
    [[ ! -e /etc/ld.so.preload ]] || cannot_here "there is an /etc/ld.so.preload"
    mkdir -p "$T/over"
    export T NS LIBRARY PROBES
    export -f holds
    run --separate-stderr unshare --mount --pid --fork --mount-proc bash -c 'set -e
        mount -t tmpfs none "$T/over"
        mkdir "$T/over"/{etc,usr}{,.work}
        mount -t overlay overlay -o "lowerdir=/etc,upperdir=$T/over/etc,workdir=$T/over/etc.work" /etc || exit 77
        mount -t overlay overlay -o "lowerdir=/usr,upperdir=$T/over/usr,workdir=$T/over/usr.work" /usr || exit 77
        chmod 755 /etc /usr; cp "$LIBRARY" /usr/lib/libnagleshim.so; chmod 644 /usr/lib/libnagleshim.so
        unset NAGLESHIM_POLICY_DIR
        "$PROBES/doctor_patient" pause >"$T/early" 3>&- &
        # The start of a process is known to a tick, and the time of a file to a jiffy.
        until holds "$(cut -d " " -f 1 /proc/uptime) > $(awk "{ print \$22 / 100 }" "/proc/$!/stat") + 0.1"; do sleep 0.01; done
        "$NS" host enable --preload --library /usr/lib/libnagleshim.so
        grep -q libnagleshim /proc/self/maps
        "$PROBES/doctor_patient" pause >"$T/late" 3>&- &
        echo "{bad" >"$T/bad.json"
        NAGLESHIM_POLICY=$T/bad.json "$PROBES/doctor_patient" pause >"$T/aside" 2>&1 3>&- &
        until grep -qs ready "$T/late" && grep -qs ready "$T/aside"; do :; done
        "$NS" host status >"$T/status" || echo "$?" >>"$T/status"
        "$NS" host disable
        [[ ! -e /etc/ld.so.preload ]]
        ! grep -q libnagleshim /proc/self/maps'
    [[ $status -ne 77 ]] || cannot_here "no overlay of /etc"
    expect_status 0
    # The shell and the one that it started first are from before; sleep and grep have ended.
    [[ $(cat "$T/status") == "/etc/ld.so.preload: /usr/lib/libnagleshim.so; 1 process with it; 1 in which it does nothing: the shim is disabled: $T/bad.json:1:2: "*"; 2 started before: start them again
1" ]] || {
        cat "$T/status"
        return 1
    }
}
