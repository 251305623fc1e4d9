# SPDX-License-Identifier: MIT
# Promise: `nagleshim host` changes everything that was asked for or nothing, also if it gets a signal or a system call fails.

load ../helpers/system

# with_fault FAULT WORDS...: runs `nagleshim host` WORDS with a fault that strace injects into a system call.
with_fault() {
    local fault=$1
    shift
    ns_needs_strace
    run --separate-stderr "${as_root[@]}" strace -qqo "$T/trace" -e inject="$fault" chroot "$R" /usr/bin/nagleshim host "$@"
}

@test "a link to a directory that is missing is not followed, and one to another directory is" {
    unit app.service
    mkdir -p "$T/outside/system" "$R/etc/shared"
    ln -s "$T/outside" "$R/etc/systemd/system/app.service.d"
    snapshot >"$T/before"
    enable --unit app
    refused "nothing was changed"
    [[ $(find "$T/outside" -mindepth 1) == "$T/outside/system" ]]
    rm "$R/etc/systemd/system/app.service.d"
    ln -s /etc/shared "$R/etc/systemd/system/app.service.d"
    snapshot >"$T/before"
    enable --unit app
    expect_status 0
    [[ -s $R/etc/shared/zz-nagleshim.conf ]]
    # The directory that the link leads to was there before, and stays.
    host disable
    expect_whole output "app.service will not have the library at its next start"
    expect_untouched
}

@test "a signal while the library is tried does not leave the change half done" {
    local host signal
    # true is slow if the library comes from the file.
    printf '%s\n' '#include <unistd.h>' \
        'int main(void) { if (access("/etc/ld.so.preload", F_OK) == 0) sleep(1); return 0; }' >"$T/slow.c"
    gcc -o "$R/bin/true" "$T/slow.c"
    for signal in TERM QUIT; do
        rm -f "$R/etc/ld.so.preload"
        # A background job ignores QUIT.
        "${as_root[@]}" env --default-signal chroot "$R" /usr/bin/nagleshim host enable --preload --library /usr/lib/libnagleshim.so >"$T/out" 2>/dev/null &
        host=$!
        until [[ -e $R/etc/ld.so.preload || ! -e /proc/$host ]]; do sleep 0.01; done
        kill -"$signal" "$host"
        wait "$host"
        [[ -e $R/etc/ld.so.preload && $(<"$T/out") == *"every program that starts from now on loads it" ]]
    done
}

@test "after it is killed half-way, systemd and the loader find no incomplete file, and it can be run again" {
    local fault
    unit a.service
    unit b.service
    for fault in fsync:signal=KILL:when=1 rename:signal=KILL:when=1 rename:signal=KILL:when=2; do
        with_fault "$fault" enable --unit a b --library /usr/lib/libnagleshim.so
        [[ $status -eq 137 ]]
        [[ ! $(find "$R/etc" -name '*.conf' ! -size +0) ]]
        enable --unit a b
        expect 0 output has "b.service will have the library at its next start"
        host disable
        expect_status 0
        with_fault "$fault" enable --preload --library /usr/lib/libnagleshim.so
        [[ $status -eq 137 || ($status -eq 0 && $fault == *when=2) ]]
        # Whatever the loader finds in the list is a complete library.
        [[ ! -e $R/etc/ld.so.preload ]] || for entry in $(<"$R/etc/ld.so.preload"); do
            cmp "$LIBRARY" "$R${entry/\$LIB/lib}"
        done
        enable --preload
        host disable
        # A temporary file may remain.
        find "$R/etc" -name '*.??????' -delete
        find "$R"/etc/systemd/system/*.service.d -delete 2>/dev/null || true
        expect_untouched
    done
}

@test "it reports if not everything could be restored" {
    unit a.service
    unit b.service
    # The rename of the second drop-in fails, and then the removal of the first.
    with_fault rename:error=ENOSPC:when=2 enable --unit a b --library /usr/lib/libnagleshim.so
    refused "b.service.d/zz-nagleshim.conf cannot be written: No space left on device"
    expect_part stderr "nothing was changed"
    run --separate-stderr "${as_root[@]}" strace -qqo "$T/trace" -e inject=rename:error=EROFS:when=2 -e inject=unlink:error=EROFS \
        chroot "$R" /usr/bin/nagleshim host enable --unit a b --library /usr/lib/libnagleshim.so
    expect 2 stderr has "cannot be written: Read-only file system"
    expect_part stderr "not everything could be restored: see 'nagleshim host status'"
    host status
    expect_part output "a.service: /usr/lib/libnagleshim.so"
}
