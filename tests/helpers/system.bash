# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # bats sets $output, $stderr and $lines
# A small system in a directory that a test may break, and `nagleshim host` on it.
load "${BASH_SOURCE[0]%/*}/doctor"

system_setup() {
    doctor_setup
    as_root=()
    [[ $EUID -eq 0 ]] || as_root=(unshare --map-root-user)
    "${as_root[@]}" chroot / true 2>/dev/null || cannot_here "no chroot"
    make_system
    # What a system looks like that nobody has touched.
    snapshot >"$T/before"
}

# A system that can start cat and true, with the library in /usr/lib: sets R.
make_system() {
    local file
    R=$T/system
    mkdir -p "$R"/{bin,etc/systemd/system,usr/lib/systemd/system}
    cp -L /bin/true /bin/cat "$R/bin"
    while read -r file; do
        mkdir -p "$R${file%/*}"
        cp -L "$file" "$R$file"
    done < <(ldd /bin/true /bin/cat "$LIBRARY" | grep -oE '/[^ :]+(\s|$)' | sort -u)
    cp "$LIBRARY" "$R/usr/lib/libnagleshim.so"
    find "$R" -type d -exec chmod 0755 {} +
}

snapshot() {
    (cd "$R" && find etc -printf '%p %y %m\n' -type f -exec cat {} \; | sort)
}

# Nothing in /etc differs from what it was.
expect_untouched() {
    snapshot >"$T/after"
    diff "$T/before" "$T/after"
}

host() {
    run --separate-stderr "${as_root[@]}" "$NS" host "$@"
}

enable() {
    host enable --root "$R" --library "${library:-/usr/lib/libnagleshim.so}" "$@"
}

# unit NAME LINE...: a unit of the distribution's with these lines in [Service].
unit() {
    local name=$1
    shift
    printf '%s\n' '[Unit]' 'Description=test' '[Service]' "$@" 'ExecStart=/bin/true' >"$R/usr/lib/systemd/system/$name"
    snapshot >"$T/before"
}

dropin() {
    cat "$R/etc/systemd/system/$1.d/zz-nagleshim.conf"
}

# refused WORDS: status 2, one line that has these words, and nothing is changed.
refused() {
    expect_status 2
    [[ $(wc -l <<<"$stderr") -eq 1 ]]
    expect_part stderr "nagleshim host: "
    expect_part stderr "$1"
    expect_whole output ""
    expect_untouched
}
