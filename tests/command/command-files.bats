# SPDX-License-Identifier: MIT
# Promise: What the command writes about other users' processes only its own user can read, no file of another user gets it,
# and nothing of it stays behind.

load ../helpers/doctor

setup() {
    ns_setup
    ns_python
}

# begin_diagnosis NAME: starts a diagnosis of a program that runs on. Sets made to its directory of records.
begin_diagnosis() {
    ns_start "$1" "${inside[@]}" "$NS" diagnose -- sh -c \
        'touch "$NAGLESHIM_RECORD/1-1.record"; echo "$$ $NAGLESHIM_RECORD"; exec sleep 60'
    ns_wait_for "$T/$1.out" '/nagleshim\.'
    read -r pid made <"$T/$1.out"
    also "$1-program" "$pid"
    "${inside[@]}" test -e "$made/1-1.record"
}

@test "reports and JSON are for their user only and are replaced as a whole; a policy is for every user" {
    victim
    echo old >"$T/o.json"
    exec {old}<"$T/o.json"
    local i
    for i in 1 2 3 4 5; do # on a busy machine stalls may not be proven
        [[ -e $T/p.json ]] || "$NS" diagnose --json="$T/o.json" --html "$T/o.html" --write-policy "$T/p.json" -- "${stalling[@]}"
    done >/dev/null 2>&1
    [[ $(stat -c %a "$T/o.json" "$T/o.html" "$T/p.json" | xargs) == '600 600 644' && $(cat <&"$old") == old ]]
    says "$T/o.json" 'o["status"] == 0'
    run --separate-stderr "$NS" compare --runs 5 --json="$T/c.json" -- true
    [[ $status -eq 0 && $(stat -c %a "$T/c.json") == 600 && -z $(find "$T" -name '.nagleshim.*') ]]
    # A link of one's own leads on, and stays.
    mkdir "$T/there"
    ln -s there/result.json "$T/link.json"
    echo old >"$T/there/result.json"
    "$NS" diagnose --json="$T/link.json" -- true 2>/dev/null
    says "$T/there/result.json" 'o["status"] == 0'
    [[ -L $T/link.json ]]
}

# with_mount FILE WHAT COMMAND...: runs COMMAND where WHAT is mounted on FILE: "itself", or "full", an empty file of a full disk.
with_mount() {
    run --separate-stderr unshare --mount sh -c 'file=$1 what=$1
        [ "$2" = itself ] || { mount -t tmpfs -o size=4k none "$T/disk" && what=$T/disk/file && touch "$what" &&
            ! head -c 8k /dev/zero >"$T/disk/more" 2>&1; } || exit 77
        mount --bind "$what" "$file" || exit 77
        shift 2 && exec "$@"' sh "$@"
    [[ $status -ne 77 ]] || cannot_here "no mounts"
}

@test "a result is written into a file that is mounted by itself; a file of the system is left as it is" {
    [[ $EUID -eq 0 ]] || ns_skip "only root can mount"
    local inode
    make_root
    mkdir -p "$T/disk" "$root/etc"
    export T
    printf '%9999s' old >"$T/o.json"
    chmod 640 "$T/o.json"
    inode=$(stat -c %i "$T/o.json")
    with_mount "$T/o.json" itself "$NS" diagnose --json="$T/o.json" -- true
    expect_status 0
    says "$T/o.json" 'o["status"] == 0'
    [[ $(stat -c '%i %a' "$T/o.json") == "$inode 640" && -z $(find "$T" -name '.nagleshim.*') ]]
    cp "$LIBRARY" "$root/libnagleshim.so"
    add_libraries "$root" /bin/true "$NS"
    cp --parents -L /bin/true "$root"
    cp "$NS" "$root"
    echo '# old' >"$root/etc/ld.so.preload"
    with_mount "$root/etc/ld.so.preload" itself chroot "$root" /nagleshim host enable --preload --library /libnagleshim.so
    expect 2 stderr has "Device or resource busy"
    [[ $(cat "$root/etc/ld.so.preload") == '# old' && -z $(find "$root/etc" -name 'ld.so.preload.*') ]]
}

@test "a result that does not fit on the disk is an error, wherever that is noticed" {
    [[ $EUID -eq 0 ]] || ns_skip "only root can mount"
    mkdir "$T/disk" "$T/own"
    export T
    touch "$T/own/o.json"
    # A file of a full disk that is mounted by itself, a new one there, and what is no file.
    with_mount "$T/own/o.json" full "$NS" diagnose --json="$T/own/o.json" -- true
    expect 2 stderr has "nagleshim diagnose: cannot write '$T/own/o.json': No space left on device"
    [[ -z $(find "$T" -name '.nagleshim.*') ]]
    with_mount "$T/own/o.json" full "$NS" diagnose --json="$T/disk/new" -- true
    expect 2 stderr has "nagleshim diagnose: cannot write '$T/disk/new': No space left on device"
    run --separate-stderr "$NS" diagnose --json=/dev/full -- true
    expect 2 stderr has "nagleshim diagnose: cannot write '/dev/full': No space left on device"
    # What has no other report, as of the options that cure has set, is printed.
    run --separate-stderr "$NS" doctor --json=/dev/full true
    expect 2 stderr has "nagleshim doctor: cannot write '/dev/full': No space left on device"
    jq -e '.status == 0 and .works == "yes"' <<<"$output"
    run --separate-stderr "$NS" doctor --json="$T/own/o.json" true
    expect 0 output is ""
}

@test "a result goes where its name leads: to a file without a name, into a directory that is read-only, or nowhere" {
    [[ $EUID -eq 0 ]] || ns_skip "only root can be two users"
    local name long
    mkdir "$T/there"
    # Standard output that is a removed file, by its name and by another descriptor. What stands there stays.
    for name in 1 9; do
        ln -s "/proc/self/fd/$name" "$T/there/$name"
        "$python" - "$NS" "$T/there/$name" >"$T/o.json" <<'PYTHON'
import os, subprocess, sys, tempfile
command, name = sys.argv[1:]
with tempfile.TemporaryFile() as file:
    os.dup2(file.fileno(), 9)
    file.write(b"before\n" if name[-1] == "1" else b"x" * 9999)
    file.flush()
    assert subprocess.call([command, "diagnose", "--json=" + name, "--", "true"], pass_fds=[9],
                           stdout=file if name[-1] == "1" else subprocess.DEVNULL) == 0
    file.seek(0)
    text = file.read().decode()
    assert text.startswith("before\n" if name[-1] == "1" else "{"), text
    print(text[text.index("{"):])
PYTHON
        says "$T/o.json" 'o["status"] == 0'
        [[ -L $T/there/$name ]]
    done
    # A link that leads nowhere is not replaced.
    ln -s gone "$T/there/link"
    run --separate-stderr "$NS" diagnose --json="$T/there/link" -- true
    expect 2 stderr is "nagleshim diagnose: cannot write '$T/there/link': No such file or directory"
    [[ -L $T/there/link ]]
    # One's own file in a directory of another user.
    printf '%9999s' old >"$T/there/o.json"
    chown 65534 "$T/there/o.json"
    let_others_in "$T"
    "${as_other[@]}" "$NS" diagnose --json="$T/there/o.json" -- true 2>/dev/null
    says "$T/there/o.json" 'o["status"] == 0'
    # The control: a new one is refused.
    run --separate-stderr "${as_other[@]}" "$NS" diagnose --json="$T/there/new" -- true
    expect 2 stderr is "nagleshim diagnose: cannot write '$T/there/new': Permission denied"
    # The longest name that a file may have.
    printf -v long '%0255d' 0
    "$NS" diagnose --json="$T/there/$long" -- true 2>/dev/null
    says "$T/there/$long" 'o["status"] == 0'
    [[ -z $(find "$T" -name '.nagleshim.*') ]]
}

@test "no link and no pipe of another user in a sticky directory gets a report" {
    [[ $EUID -eq 0 ]] || ns_skip "only root can be two users"
    mkdir -m 1777 "$T/sticky"
    let_others_in "$T"
    echo precious >"$T/precious"
    "${as_other[@]}" ln -s "$T/precious" "$T/sticky/link"
    "${as_other[@]}" mkfifo "$T/sticky/pipe"
    exec {reader}<>"$T/sticky/pipe"
    local name
    for name in link pipe; do
        run --separate-stderr "$NS" diagnose --json="$T/sticky/$name" -- true
        expect 2 stderr is "nagleshim diagnose: cannot write '$T/sticky/$name': Permission denied"
        run --separate-stderr "$NS" compare --runs 5 --json="$T/sticky/$name" -- true
        expect 2 stderr is "nagleshim compare: cannot write '$T/sticky/$name': Permission denied"
    done
    if read -rt 0 -u "$reader"; then wrong "the pipe has something"; fi
    [[ $(cat "$T/precious") == precious ]]
    # Those of one's own get it.
    ln -s "$T/precious" "$T/sticky/own"
    "$NS" diagnose --json="$T/sticky/own" -- true 2>/dev/null
    says "$T/precious" 'o["status"] == 0'
    # A file of another user is replaced, not written.
    "${as_other[@]}" sh -c 'echo theirs >"$1"' sh "$T/sticky/file"
    exec {theirs}<"$T/sticky/file"
    "$NS" diagnose --json="$T/sticky/file" -- true 2>/dev/null
    [[ $(cat <&"$theirs") == theirs && $(stat -c '%u %a' "$T/sticky/file") == '0 600' ]]
}

@test "a file that its owner exchanges for a link while it is looked at is replaced, and the link leads nowhere" {
    [[ $EUID -eq 0 ]] || ns_skip "only root can be two users"
    local name policy=$PWD/config/default.json
    mkdir -m 1777 "$T/sticky"
    let_others_in "$T"
    # The link comes right after the first look.
    gcc -D_FILE_OFFSET_BITS=64 -x c -shared -fPIC -o "$T/exchange.so" - <<'C'
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
int lstat(const char *path, struct stat *st)
{
    int result = fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
    if (strcmp(path, "file") == 0)
        rename("link", path);
    return result;
}
C
    cd "$T/sticky"
    # Another user's file, the control: one's own, which nobody else could exchange, and a name that is free.
    for name in theirs own free; do
        echo precious >"$T/$name"
        ln -s "$T/$name" link
        [[ $name == free ]] || echo old >file
        [[ $name != theirs ]] || chown 65534 file
        LD_PRELOAD=$T/exchange.so "$NS" check --json=file "$policy"
        [[ ! -e link ]] || cannot_here "a library cannot replace lstat"
        if [[ $name == own ]]; then
            says "$T/$name" 'o["status"] == 0'
        else
            says file 'o["status"] == 0'
            [[ ! -L file && $(cat "$T/$name") == precious ]]
        fi
        rm file
    done
}

@test "counters for Prometheus do not wait for the disk; a change of the system does" {
    ns_needs_strace
    strace -f -qq -e trace=fsync,fdatasync -o "$T/trace" "$NS" top --once --prometheus "$T/top.prom" --interval 0.5
    grep -q '^nagleshim_rounds_total' "$T/top.prom"
    [[ $(stat -c %a "$T/top.prom") == 644 ]]
    [[ $(grep -cE 'fsync|fdatasync' "$T/trace") -eq 0 ]]
    [[ $EUID -eq 0 ]] || ns_skip "only root can change a system"
    make_root
    cp "$LIBRARY" "$root/libnagleshim.so"
    add_libraries "$root" /bin/true "$NS"
    cp --parents -L /bin/true "$root"
    cp "$NS" "$root"
    strace -f -qq -e trace=fsync,rename -o "$T/trace" chroot "$root" /nagleshim host enable --preload --library /libnagleshim.so
    grep -A1 fsync "$T/trace" | grep -q 'rename(.*ld\.so\.preload'
}

@test "what a killed diagnose has recorded is removed by the next one, and nothing else is" {
    [[ $EUID -eq 0 ]] || ns_skip "only root can be two users"
    unset TMPDIR
    ns_start names unshare --mount sh -c 'mount -t tmpfs -o mode=1777 none /dev/shm && echo mounted; exec sleep 600'
    ns_wait_for "$T/names.out" mounted || ns_skip "no mount namespace"
    local pid made running killed left names=/proc/${NS_PID[names]}
    inside=(nsenter --mount="$names/ns/mnt" --root="$names/root" --wd="$names/cwd" --)
    begin_diagnosis runs
    running=$made
    begin_diagnosis ends
    killed=$made
    ns_stop ends KILL
    # Another user's directory, a link to a directory of one's own, and one that others may enter.
    "${inside[@]}" sh -c 'cd /dev/shm && mkdir -m 700 nagleshim.diagnose.theirs mine && mkdir -m 755 nagleshim.diagnose.public &&
        touch mine/x.record nagleshim.diagnose.public/x.record nagleshim.diagnose.theirs/x.record &&
        chown 65534 nagleshim.diagnose.theirs && ln -s mine nagleshim.diagnose.abcdef'
    "${inside[@]}" "$NS" diagnose -- true 2>/dev/null
    left=$("${inside[@]}" find /dev/shm -name '*.record' | sort | xargs)
    [[ $left == *"$running/1-1.record"* ]]
    [[ $left == *mine/x.record* && $left == *theirs/x.record* && $left == *public/x.record* && $left != *"$killed"* ]]
    ns_stop runs
    [[ -z $("${inside[@]}" find "$killed" "$running" 2>/dev/null) ]]
}
