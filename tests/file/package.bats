#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: `make deb` and `make rpm` build packages that hold what `make install` installs, and ask for nothing but libc.
# shellcheck disable=SC2154 # bats sets $output, helpers/common.bash the rest

bats_require_minimum_version 1.5.0
load ../helpers/common

setup_file() {
    export BATS_TEST_TIMEOUT=300
    export PACKAGES=$PWD/build/packages
    rm -rf "$PACKAGES"
    # make without what a make that runs the tests hands down.
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s deb rpm 3>&- >/dev/null
}

setup() {
    ns_setup
}

teardown() {
    ns_teardown
}

# Paths as both kinds of package have them: without a directory of the machine, a suffix of compression,
# and what each distribution adds by itself.
plainly() {
    sed -E 's#^\.?/*#/#; s#^/usr/lib(64|/[^/]*-linux-[^/]*)/#LIBDIR/#; s#\.gz$##' |
        grep -vE '/$|^/usr/share/(doc|licenses|lintian)(/|$)|/\.build-id(/|$)' | sort
}

# deb_files NAME: the files of a package, and its empty directories.
deb_files() {
    dpkg-deb -c "$PACKAGES/$1"_*.deb | awk '$1 ~ /^-/ || $6 ~ /^.\/etc\/nagleshim\/$/ { sub(/\/$/, "", $6); print $6 }' | plainly
}

# The spec names directories of its own, too, which hold files.
rpm_files() {
    rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$PACKAGES/$1"-[0-9]*.rpm |
        awk '$1 ~ /^-/ || $2 == "/etc/nagleshim" { print $2 }' | plainly
}

@test "Debian's two packages hold every file that make install installs" {
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s install DESTDIR="$T/installed" PREFIX=/usr \
        LIBDIR="/usr/lib/$(gcc -print-multiarch)" 3>&-
    diff <(cd "$T/installed" && { find . -type f; echo ./etc/nagleshim; } | plainly) \
        <({ deb_files libnagleshim; deb_files nagleshim; } | sort)
    [[ $(deb_files libnagleshim) == $'/etc/nagleshim\nLIBDIR/libnagleshim.so' ]]
}

@test "the packages of rpm hold the same files" {
    local name
    for name in libnagleshim nagleshim; do
        diff <(deb_files "$name") <(rpm_files "$name")
    done
}

@test "the library's package asks for libc 2.17 and nothing else, and the command for the library of its version" {
    local version
    version=$(dpkg-deb -f "$PACKAGES"/nagleshim_*.deb Version)
    [[ $(dpkg-deb -f "$PACKAGES"/libnagleshim_*.deb Depends) == 'libc6 (>= 2.17)' ]]
    [[ $(dpkg-deb -f "$PACKAGES"/nagleshim_*.deb Depends) =~ ^libnagleshim\ \(=\ $version\),\ libc6\ \([^,]*\)$ ]]
    [[ $version == "$(build/nagleshim version | grep -oE '[0-9.]+$')" ]]
}

@test "the library of the packages is the one that works everywhere" {
    local root=$T/root library
    dpkg-deb -x "$PACKAGES"/libnagleshim_*.deb "$root"
    library=$(echo "$root"/usr/lib/*/libnagleshim.so)
    [[ $(LD_PRELOAD=$library NAGLESHIM_LOG=debug /bin/true 2>&1) == *'rules are for this process'* ]]
    # As tests/file/elf.bats has it of the tree's own: no name that musl lacks.
    run -0 /lib/ld-musl-*.so.1 --list "$library"
    [[ $output != *'not found'* && $output != *relocating* ]]
}

# remove SCRIPT ARGUMENT: what a script that is run before the library goes makes of $T/preload.
remove() {
    sed "s#/etc/ld\.so\.preload#$T/preload#g" "$1" >"$T/script"
    sh "$T/script" "$2"
}

@test "whichever package goes takes its library out of /etc/ld.so.preload, and nothing else" {
    local library kind
    dpkg-deb -e "$PACKAGES"/libnagleshim_*.deb "$T/control"
    rpm -qp --qf '%{PREUN}' "$PACKAGES"/libnagleshim-[0-9]*.rpm >"$T/preun"
    for kind in deb rpm; do
        if [[ $kind == deb ]]; then
            set -- "$T/control/prerm" remove upgrade
            library=/usr/lib/$(gcc -print-multiarch)/libnagleshim.so
        else
            set -- "$T/preun" 0 1
            library=$(rpm -qpl "$PACKAGES"/libnagleshim-[0-9]*.rpm | grep '/libnagleshim\.so$')
        fi
        printf '%s %s:/lib/a.so\n# of us:\n%s\n/opt/libnagleshim.so\n' "$library" "$library" "$library" >"$T/preload"
        cp "$T/preload" "$T/before"
        remove "$1" "$3"
        cmp "$T/preload" "$T/before"
        remove "$1" "$2"
        [[ $(tr -s ' :' ' ' <"$T/preload") == $' /lib/a.so\n# of us \n\n/opt/libnagleshim.so' ]]
        echo "$library" >"$T/preload"
        remove "$1" "$2"
        [[ ! -e $T/preload ]]
        remove "$1" "$2"
    done
}
