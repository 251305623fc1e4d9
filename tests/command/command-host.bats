# SPDX-License-Identifier: MIT
# Promise: `nagleshim host` enables the library for services or for a whole system, refuses what would break it, and undoes it.
# Most tests run on a small system in a directory, with a stub of systemctl.

load ../helpers/system

# What ld.so.preload names: the copy of /usr/lib/libnagleshim.so.
COPY=/usr/lib/nagleshim/usr-lib/libnagleshim.so

@test "enable --preload writes the library into the first line of ld.so.preload, and disable restores the file" {
    gcc -shared -fPIC -x c -o "$R/lib/other.so" - <<<"int other;"
    printf '/lib/other.so # of somebody else\n\n' >"$R/etc/ld.so.preload"
    snapshot >"$T/before"
    enable --preload
    expect_status 0
    [[ $stderr == "nagleshim host: note: programs built with gcc's -fsanitize=address do not start"*$'\n'*"': >/etc/ld.so.preload'"* ]]
    [[ $(wc -l <<<"$stderr") -eq 2 && $(cat "$R/etc/ld.so.preload") == "$COPY"$'\n/lib/other.so # of somebody else' ]]
    cmp "$LIBRARY" "$R$COPY"
    [[ $(stat -c %a "$R/etc/ld.so.preload") == 644 ]]
    snapshot >"$T/enabled"
    enable --preload
    expect 0 output has "names $COPY already, which is renewed"
    snapshot | diff "$T/enabled" -
    # The library of another installation is replaced, and its copy removed.
    mkdir "$R/opt"
    cp "$LIBRARY" "$R/opt"
    library=/opt/libnagleshim.so enable --preload
    [[ $(cat "$R/etc/ld.so.preload") == $'/usr/lib/nagleshim/opt/libnagleshim.so\n/lib/other.so # of somebody else' ]]
    [[ $(find "$R/usr/lib/nagleshim" -type f) == "$R/usr/lib/nagleshim/opt/libnagleshim.so" ]]
    host disable --preload --library /usr/lib/libnagleshim.so
    expect 0 output is "/etc/ld.so.preload does not name /usr/lib/libnagleshim.so"
    host disable --preload --library /opt/libnagleshim.so
    expect_status 0
    expect_untouched
    [[ ! -e $R/usr/lib/nagleshim ]]
    host disable --preload
    expect 0 output is "/etc/ld.so.preload does not name the library"
    expect_untouched
}

@test "disable removes every entry of the library from ld.so.preload, and a file that has no other entry" {
    local before after
    while IFS='|' read -r before after; do
        printf %b "$before" >"$R/etc/ld.so.preload"
        host disable
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
/lib/a.so:/opt/libnagleshim.so:/lib/b.so\n|/lib/a.so:/lib/b.so\n
/opt/libnagleshim.so # ours\n/lib/b.so\n|# ours\n/lib/b.so\n
# /opt/libnagleshim.so\n|# /opt/libnagleshim.so\n
/lib/mylibnagleshim.so\n|/lib/mylibnagleshim.so\n
CASES
    rm "$R/etc/ld.so.preload"
    enable --preload
    host disable
    expect_status 0
    expect_untouched
}

@test "disable --library removes that library, also behind links, and keeps the one of another installation" {
    local other=/usr/local/lib/libnagleshim.so
    unit ours.service
    unit theirs.service
    mkdir -p "$R/usr/local/lib" "$R/opt"
    cp "$LIBRARY" "$R$other"
    ln -s usr/lib "$R/lib64-of-old"
    ln -s /usr/lib/libnagleshim.so "$R/opt/libnagleshim.so"
    enable --unit ours
    library=$other enable --unit theirs
    printf '%s\n' /lib64-of-old/libnagleshim.so "$other" /opt/libnagleshim.so libnagleshim.so >"$R/etc/ld.so.preload"
    host disable --library /usr/lib/libnagleshim.so
    expect 0 output is "/etc/ld.so.preload no longer names /usr/lib/libnagleshim.so
ours.service will not have the library at its next start"
    # The loader finds that library by its name, too.
    [[ $(cat "$R/etc/ld.so.preload") == "$other" ]]
    [[ ! -e $R/etc/systemd/system/ours.service.d && $(dropin theirs.service) == *"$other"* ]]
    local words said
    while IFS='|' read -r words said; do
        # shellcheck disable=SC2086 # several words
        host disable $words --library /usr/lib/libnagleshim.so
        expect 0 output is "$said /usr/lib/libnagleshim.so"
    done <<'CASES'
--unit theirs|theirs.service is not enabled with
--preload|/etc/ld.so.preload does not name
|nothing is enabled with
CASES
    # The file is missing.
    rm "$R$other"
    host disable --library "$other"
    expect_whole output "/etc/ld.so.preload no longer names $other
theirs.service will not have the library at its next start"
    [[ ! -e $R/etc/ld.so.preload ]]
    host disable
    expect_whole output "nothing is enabled with the library"
    expect_untouched
}

@test "enable refuses a library with which /bin/true does not start: truncated, for another machine, noexec, or one that crashes or prints" {
    local source said mounts
    library=/usr/lib/bad/libnagleshim.so
    mkdir "$R/usr/lib/bad"
    enable --preload
    refused "$library: No such file or directory"
    head -c 20000 "$LIBRARY" >"$R$library"
    enable --preload
    refused "/bin/true, started with the library, is killed by signal 7"
    enable --unit x
    refused "is killed by signal 7"
    program other-machine "$R$library"
    enable --preload
    refused "/bin/true, started with the library, prints: ERROR: ld.so: object '$library'"
    while IFS='|' read -r source said; do
        gcc -shared -fPIC -x c -o "$R$library" - <<<"$source"
        enable --preload
        refused "/bin/true, started with the library, $said"
    done <<'CASES'
int puts(const char *); __attribute__((constructor)) static void begin(void) { puts("hello"); }|prints: hello
void abort(void); __attribute__((constructor)) static void begin(void) { abort(); }|is killed by signal 6
CASES
    # The first line of ld.so.preload may be the cause.
    echo /lib/none.so >"$R/etc/ld.so.preload"
    snapshot >"$T/before"
    library=/usr/lib/libnagleshim.so enable --preload
    refused "/bin/true prints: ERROR: ld.so: object '/lib/none.so'"
    expect_part stderr "also without the library: is a line of /etc/ld.so.preload wrong?"
    rm "$R/etc/ld.so.preload"
    ns_mount_namespace
    [[ ${#mounts[@]} -gt 0 ]] || ns_skip "no mount namespace"
    snapshot >"$T/before"
    export R NS LIBRARY
    mkdir "$R/opt"
    run --separate-stderr "${mounts[@]}" bash -c 'mount -t tmpfs -o noexec,mode=755 none "$R/opt" && cp "$LIBRARY" "$R/opt" &&
        chroot "$R" /usr/bin/nagleshim host enable --preload --library /opt/libnagleshim.so'
    refused "cannot be preloaded (failed to map segment"
}

@test "enable refuses a library that another user could replace, that users cannot read, or whose path LD_PRELOAD cannot express" {
    local path mode
    mkdir -p "$R/opt/app/1/lib" "$R/usr/lib/with space"
    cp "$LIBRARY" "$R/opt/app/1/lib"
    cp "$LIBRARY" "$R/usr/lib/with space"
    ln -s /opt/app/1/lib "$R/opt/lib"
    for path in /usr/lib:775 /usr/lib/libnagleshim.so:666 /opt/app:777; do
        mode=${path#*:} path=${path%:*}
        chmod "$mode" "$R$path"
        [[ $path != /opt/app ]] || library=/opt/lib/libnagleshim.so
        enable --preload
        refused "$path (user 0, mode 0$mode): another user than root could replace $library"
        chmod 0755 "$R$path"
    done
    # A link counts as what it leads to: here from one directory of root's to another, through one that others may write to.
    mkdir -p "$R/usr/lib/via" "$R/opt/theirs"
    chmod 0777 "$R/opt/theirs"
    ln -s /usr/lib/libnagleshim.so "$R/opt/theirs/link"
    ln -s /opt/theirs/link "$R/usr/lib/via/libnagleshim.so"
    library=/usr/lib/via/libnagleshim.so
    enable --preload
    refused "/opt/theirs (user 0, mode 0777): another user than root could replace $library"
    # Nor is such a program started.
    mv "$R/bin/true" "$R/bin/real"
    ln -s /bin/real "$R/opt/theirs/true"
    ln -s ../opt/./theirs/../theirs/true "$R/bin/true"
    library=/usr/lib/libnagleshim.so
    enable --preload
    refused "/bin/true was not started: /opt/theirs (user 0, mode 0777): another user than root could replace /bin/true"
    mv "$R/bin/real" "$R/bin/true"
    chmod 0640 "$R$library"
    enable --preload
    refused "$library is not a file that every user can read (mode 0640)"
    chmod 0644 "$R$library"
    library="/usr/lib/with space/libnagleshim.so" enable --preload
    refused "has a character that LD_PRELOAD or a unit cannot express"
    chown 65533 "$R$library" 2>/dev/null || return 0 # only root can change the owner
    enable --preload
    refused "$library (user 65533, mode 0644): another user than root could replace $library"
}

@test "enable --preload refuses a system of musl, whose loader does not read that file" {
    musl_loader
    gcc -x c -o "$R/bin/true" -Wl,--dynamic-linker="$musl" - <<<'int main(void) { return 0; }'
    enable --preload
    refused "this system's libc is musl, whose loader does not read /etc/ld.so.preload"
}

@test "enable --preload does not follow a link, and a failed write changes nothing" {
    ns_needs_strace
    ln -s /etc/passwd "$R/etc/ld.so.preload"
    snapshot >"$T/before"
    enable --preload
    refused "is not a regular file"
    rm "$R/etc/ld.so.preload"
    echo '#/lib/none.so' >"$R/etc/ld.so.preload"
    snapshot >"$T/before"
    local fault
    # The first file that is written is the copy.
    for fault in fsync:error=EIO:when=2 rename:error=EROFS:when=2; do
        run --separate-stderr "${as_root[@]}" strace -qqo "$T/trace" -e inject="$fault" \
            chroot "$R" /usr/bin/nagleshim host enable --preload --library /usr/lib/libnagleshim.so
        refused "/etc/ld.so.preload cannot be written: "
        [[ ! -e $R/usr/lib/nagleshim ]]
    done
}

@test "a library named through a link keeps that name, so that an upgrade can switch the link" {
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
    # ld.so.preload names a copy, which stays when the link is switched.
    [[ $(cat "$R/etc/ld.so.preload") == /usr/lib/nagleshim/opt-app-current-lib/libnagleshim.so ]]
    # An absolute link is resolved inside the system.
    ln -sfn /opt/app/2 "$R/opt/app/current"
    host status
    expect_status 0
    rm "$R/opt/app/2/lib/libnagleshim.so"
    host status
    expect 1 output has "wrong: $library cannot be read: No such file or directory"
    host disable
    expect_untouched
}

@test "without permission the status is 3" {
    [[ $EUID -eq 0 ]] || cannot_here "not root"
    local -a other=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all)
    "${other[@]}" true 2>/dev/null || cannot_here "no other user"
    cp "$NS" "$T"
    let_others_in "$T"
    local words
    for words in "enable --preload" "disable"; do
        # shellcheck disable=SC2086 # several words
        run --separate-stderr "${other[@]}" "$T/nagleshim" host $words
        expect 3 stderr is "nagleshim host: permission denied: only root can change a system; nothing was changed"
    done
}

@test "status shows where the library is enabled, and a library that would not load" {
    unit app.service
    host status
    expect 1 output is "nothing is enabled"
    enable --preload
    enable --unit app
    host status
    expect 0 output is "/etc/ld.so.preload: $COPY
app.service: /usr/lib/libnagleshim.so
'nagleshim doctor --all' lists the processes that run with it"
    head -c 20000 "$LIBRARY" >"$R/usr/lib/libnagleshim.so"
    host status --json
    expect_status 1
    python3 -c 'import json, sys
o = json.loads(sys.argv[1])
assert [e["unit"] for e in o["places"]] == [None, "app.service"] and o["good"] is False, o
assert any(f["name"] == "wrong" and "is truncated" in f["text"] for f in o["facts"]), o' "$output"
    # disable does not need a working library.
    host disable
    expect_status 0
    expect_untouched
}

@test "host prints what is wrong with its options" {
    local words said
    while IFS='|' read -r words said; do
        # shellcheck disable=SC2086 # words
        host $words
        refused "$said"
    done <<'CASES'
enable nginx|unexpected word 'nginx'; see 'nagleshim host --help'
enable|enable needs --unit UNIT, for a service, or --preload, for every program
enable --preload --unit x|--unit and --preload cannot be used together
status --preload|status takes neither --unit nor --preload nor --library
status --library /x|status takes neither
disable --library x|'x': the path of the library must be absolute
enable disable --preload|unexpected word 'disable'
enable --preload --library /usr/lib/other.so|'/usr/lib/other.so': the library must be called libnagleshim.so
enable --unit|needs a value
CASES
}

@test "after enable --preload, writing to the library harms no program; if the copy is damaged, the printed line of a shell ends that" {
    [[ $EUID -eq 0 ]] || cannot_here "only root can change its root"
    head -c 20000 "$LIBRARY" >"$R/half"
    # The shell runs before the library is enabled, and prints the status of each program that it starts.
    run --separate-stderr chroot "$R" /bin/bash -c '
        starts() { "$@"; echo "$?"; }
        copy=$1
        said=$(/usr/bin/nagleshim host enable --preload --library /usr/lib/libnagleshim.so 2>&1)
        [[ $said =~ type..(.*).\ in\ a\ root ]] || exit 1
        starts /bin/true
        /bin/cat /half >/usr/lib/libnagleshim.so
        starts /bin/true
        /bin/cat /half >"$copy"
        starts /bin/true
        starts /usr/bin/nagleshim host disable
        eval "${BASH_REMATCH[1]}"
        starts /bin/true' bash "$COPY"
    expect 0 output is $'0\n0\n135\n135\n0'
}

@test "on a read-only file system the error names it, and enable --preload names the library itself, which nothing can write to" {
    local mounts
    ns_mount_namespace
    [[ ${#mounts[@]} -gt 0 ]] || cannot_here "no mount namespace"
    unit app.service
    export R NS
    run --separate-stderr "${mounts[@]}" bash -c 'mount --bind "$R/etc" "$R/etc" && mount -o remount,bind,ro "$R/etc" &&
        chroot "$R" /usr/bin/nagleshim host enable --library /usr/lib/libnagleshim.so --unit app'
    refused "zz-nagleshim.conf cannot be written: Read-only file system"
    run -0 --separate-stderr "${mounts[@]}" bash -c 'mount --bind "$R/usr" "$R/usr" && mount -o remount,bind,ro "$R/usr" &&
        chroot "$R" /usr/bin/nagleshim host enable --library /usr/lib/libnagleshim.so --preload'
    [[ $(cat "$R/etc/ld.so.preload") == /usr/lib/libnagleshim.so ]]
}
