#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: `nagleshim host` on systems that are odd, full, in use, or left half-way: it changes what is meant, whole, and nothing else.
# shellcheck disable=SC2154 # bats sets $output, $stderr and $lines

bats_require_minimum_version 1.5.0
load ../helpers/system

setup() {
    system_setup
}

teardown() {
    ns_teardown
}

# with_fault FAULT WORDS...: `nagleshim host` WORDS, with a system call that goes as strace's inject says.
with_fault() {
    local fault=$1
    shift
    type -P strace >/dev/null || cannot_here "strace is not installed"
    run --separate-stderr "${as_root[@]}" strace -qqo "$T/trace" -e inject="$fault" "$NS" host "$@"
}

@test "no link of a system in a directory leads a drop-in out of it, and one within is followed" {
    unit app.service
    mkdir -p "$T/outside/system" "$R/etc/shared"
    ln -s "$T/outside" "$R/etc/systemd/system/app.service.d"
    snapshot >"$T/before"
    enable --unit app
    refused "/etc/systemd/system/app.service.d: it is a link that leads nowhere; nothing was changed"
    host disable --unit app --root "$R"
    expect_whole output "app.service is not enabled"
    rm "$R/etc/systemd/system/app.service.d"
    mv "$R/etc/systemd" "$R/etc/kept"
    ln -s "$T/outside" "$R/etc/systemd"
    snapshot >"$T/before"
    enable --unit app
    refused "nothing was changed"
    [[ $(find "$T/outside" -mindepth 1) == "$T/outside/system" ]]
    rm "$R/etc/systemd"
    mv "$R/etc/kept" "$R/etc/systemd"
    ln -s /etc/shared "$R/etc/systemd/system/app.service.d"
    snapshot >"$T/before"
    enable --unit app
    expect_status 0
    [[ -s $R/etc/shared/zz-nagleshim.conf ]]
    # The directory that the link leads to was there before, and stays.
    host disable --root "$R"
    expect_whole output "app.service has it no more at its next start"
    expect_untouched
}

@test "what systemd preloads into every service stays, unless the unit has its own" {
    mkdir -p "$R"/{etc,usr/lib}/systemd/system.conf.d
    printf '[Manager]\nDefaultEnvironment=LD_PRELOAD=/lib/first.so\n' >"$R/etc/systemd/system.conf"
    unit app.service 'Environment='
    unit own.service 'Environment=LD_PRELOAD=/lib/own.so'
    unit none.service 'Environment=LD_PRELOAD='
    enable --unit app own none
    expect_status 0
    [[ $(dropin app.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/first.so"' ]]
    [[ $(dropin own.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/own.so"' ]]
    [[ $(dropin none.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so"' ]]
    # A drop-in goes before it.
    printf '[Manager]\nDefaultEnvironment="LD_PRELOAD=/lib/second.so"\n' >"$R/usr/lib/systemd/system.conf.d/a.conf"
    enable --unit app
    [[ $(dropin app.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/second.so"' ]]
}

@test "a unit that hides directories gets the library bound into them" {
    unit app.service TemporaryFileSystem=/usr/lib:ro
    unit open.service TemporaryFileSystem=/usr/lib:ro TemporaryFileSystem=
    enable --unit app open
    expect_status 0
    [[ $(dropin app.service) == *$'\nBindReadOnlyPaths=-/usr/lib/libnagleshim.so -/etc/nagleshim' ]]
    [[ $(dropin open.service) != *BindReadOnlyPaths* ]]
}

@test "a link is another name whatever it looks like, and an instance that is a link to its template is not" {
    unit app.service
    unit serve@.service
    ln -s app.service "$R/usr/lib/systemd/system/short.service"
    ln -s ../../../usr/lib/systemd/system/serve@.service "$R/etc/systemd/system/serve@80.service"
    snapshot >"$T/before"
    enable --unit short
    refused "short.service: it is another name of app.service: name that"
    enable --unit 'serve@80'
    expect_status 0
    expect_whole output "serve@80.service has it at its next start"
    enable --unit serve@
    expect_whole output "every unit of serve@.service has it at its next start"
    host disable --root "$R"
    expect_untouched
}

@test "odd names of units are one line, and those that systemd escapes are names" {
    local name
    unit 'a\x2db.service'
    enable --unit 'a\x2db'
    expect_status 0
    [[ -s $R/etc/systemd/system/a\\x2db.service.d/zz-nagleshim.conf ]]
    host disable --root "$R"
    for name in $'a\nb' '../x' 'a/b' 'a b' 'a%i' '' - .service "$(printf '%300s' '' | tr ' ' a)"; do
        enable --unit "$name"
        refused "is no name of a unit"
    done
    for name in app.path app.swap app.automount app.device app.timer 'app@x.socket'; do
        enable --unit "$name"
        refused "'$name' is not a service: name the service that it starts"
    done
}

@test "a drop-in can be read by everybody, whatever the umask is" {
    unit app.service
    umask 077
    enable --unit app
    expect_status 0
    [[ $(stat -c %a "$R/etc/systemd/system/app.service.d" "$R/etc/systemd/system/app.service.d/zz-nagleshim.conf") == $'755\n644' ]]
}

@test "two at once do not undo each other: the second waits, and says so if that takes too long" {
    local locked
    unit app.service
    # strace makes the waits short.
    exec {locked}<"$R/etc"
    flock "$locked"
    with_fault clock_nanosleep:retval=0 enable --preload --root "$R" --library /usr/lib/libnagleshim.so
    refused "$R/etc has been locked for 30 seconds, by another 'nagleshim host' perhaps; nothing was changed"
    host status --root "$R"
    expect_whole output "nothing is enabled"
    # Whoever may only read /etc can lock it, and must not keep the library there.
    echo /usr/lib/libnagleshim.so >"$R/etc/ld.so.preload"
    with_fault clock_nanosleep:retval=0 disable --root "$R"
    expect_status 0
    expect_part stderr "by another 'nagleshim host' perhaps; going on"
    expect_untouched
    "${as_root[@]}" "$NS" host enable --preload --root "$R" --library /usr/lib/libnagleshim.so >"$T/second" {locked}<&- &
    until grep -qs nanosleep "/proc/$!/wchan" || [[ ! -e /proc/$! ]]; do :; done
    [[ ! -e $R/etc/ld.so.preload ]]
    exec {locked}<&-
    wait "$!"
    [[ $(cat "$R/etc/ld.so.preload") == /usr/lib/libnagleshim.so ]]
}

@test "interrupted while the library is tried, it takes back what nobody has tried" {
    local host
    # It takes its time where the library comes by the file, and not by LD_PRELOAD.
    printf '%s\n' '#include <stdlib.h>' '#include <unistd.h>' \
        'int main(void) { if (!getenv("LD_PRELOAD")) sleep(1); return 0; }' >"$T/slow.c"
    gcc -o "$R/bin/true" "$T/slow.c"
    "${as_root[@]}" "$NS" host enable --preload --root "$R" --library /usr/lib/libnagleshim.so >"$T/out" 2>"$T/err" &
    host=$!
    until [[ -e $R/etc/ld.so.preload || ! -e /proc/$host ]]; do sleep 0.01; done
    kill -TERM "$host"
    wait "$host" || true
    [[ ! -e $R/etc/ld.so.preload && $(<"$T/err") == *"interrupted"*"is as it was before" ]]
    [[ ! -s $T/out ]]
    # Of units each is taken back, the last one, too.
    printf '%s\n' '#include <unistd.h>' 'int main(void) { sleep(1); return 0; }' >"$T/slow.c"
    gcc -o "$R/bin/true" "$T/slow.c"
    unit a.service
    unit b.service
    snapshot >"$T/before"
    "${as_root[@]}" "$NS" host enable --unit a b --root "$R" --library /usr/lib/libnagleshim.so >"$T/out" 2>"$T/err" &
    host=$!
    until pgrep -P "$host" >/dev/null || [[ ! -e /proc/$host ]]; do sleep 0.01; done
    kill -TERM "$host"
    wait "$host" || true
    [[ $(<"$T/err") == *"interrupted; nothing was changed" && ! -s $T/out ]]
    expect_untouched
}

@test "ended half-way, it leaves nothing that systemd or a loader reads, and disable takes the rest" {
    local fault
    unit a.service
    unit b.service
    for fault in fsync:signal=KILL:when=1 rename:signal=KILL:when=1 rename:signal=KILL:when=2; do
        with_fault "$fault" enable --unit a b --root "$R" --library /usr/lib/libnagleshim.so
        [[ $status -eq 137 ]]
        [[ $(find "$R/etc" -name '*.nagleshim') ]]
        [[ ! $(find "$R/etc" -name '*.conf' ! -size +0) ]]
        host disable --root "$R"
        expect_status 0
        expect_untouched
        with_fault "$fault" enable --preload --root "$R" --library /usr/lib/libnagleshim.so
        host disable --root "$R"
        expect_status 0
        expect_untouched
    done
    # Or it is done again.
    with_fault rename:signal=KILL:when=2 enable --unit a b --root "$R" --library /usr/lib/libnagleshim.so
    enable --unit a b
    expect_whole output "a.service has it already
b.service has it at its next start"
    [[ ! $(find "$R/etc" -name '*.nagleshim') ]]
}

@test "it does not say that nothing was changed where it could not put everything back" {
    unit a.service
    unit b.service
    # The rename of the second, and the removal of the first that should follow: the first unlink is of what may be left.
    with_fault rename:error=ENOSPC:when=2 enable --unit a b --root "$R" --library /usr/lib/libnagleshim.so
    refused "b.service.d/zz-nagleshim.conf cannot be written: No space left on device; nothing was changed"
    run --separate-stderr "${as_root[@]}" strace -qqo "$T/trace" -e inject=rename:error=EROFS:when=2 -e inject=unlink:error=EROFS \
        "$NS" host enable --unit a b --root "$R" --library /usr/lib/libnagleshim.so
    expect_status 2
    expect_part stderr "cannot be written: Read-only file system; not everything could be put back: see 'nagleshim host status'"
    host status --root "$R"
    expect_part output "a.service: /usr/lib/libnagleshim.so"
}

@test "enable --preload tells where 32-bit programs would complain of the library" {
    local loader
    case $(uname -m) in
    x86_64) loader=/lib/ld-linux.so.2 ;;
    aarch64) loader=/lib/ld-linux-armhf.so.3 ;;
    *) cannot_here "no other programs run here" ;;
    esac
    mkdir -p "$R/lib"
    touch "$R$loader"
    enable --preload
    expect_status 0
    expect_part stderr "$R$loader is there: each 32-bit program complains at its start"
    [[ $(wc -l <<<"$stderr") -eq 1 ]]
}
