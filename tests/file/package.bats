#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: `make deb` and `make rpm` build packages that hold what `make install` installs, and ask for nothing but libc.
# shellcheck disable=SC2154 # bats sets $output, helpers/common.bash the rest
# shellcheck disable=SC2030,SC2031 # each test is a subshell

load ../helpers/common

setup_file() {
    export BATS_TEST_TIMEOUT=600
    export PACKAGES=$PWD/build/packages
    rm -rf "$PACKAGES"
    # make without what a make that runs the tests hands down.
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s deb rpm 3>&- >/dev/null
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
    make_apart install DESTDIR="$T/installed" PREFIX=/usr LIBDIR="/usr/lib/$(gcc -print-multiarch)"
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

# before_removal KIND: $T/script is what the package's manager runs before the library goes, with the paths of $T/root; $gone and
# $stays are its arguments where the package is removed and where it is upgraded, and $library is its file.
before_removal() {
    local named
    rm -rf "$T/root"
    if [[ $1 == deb ]]; then
        gone=remove stays=upgrade
        dpkg-deb -e "$PACKAGES"/libnagleshim_*.deb "$T/control"
        mv "$T/control/prerm" "$T/unchanged"
        named=/usr/lib/$(gcc -print-multiarch)/libnagleshim.so
    else
        gone=0 stays=1
        rpm -qp --qf '%{PREUN}' "$PACKAGES"/libnagleshim-[0-9]*.rpm >"$T/unchanged"
        named=$(rpm -qpl "$PACKAGES"/libnagleshim-[0-9]*.rpm | grep '/libnagleshim\.so$')
    fi
    grep -qFx "library=$named" "$T/unchanged"
    library=$T/root$named
    sed -E "s#(/etc/ld\.so\.preload|$named|/etc/cdi/|/var/run/cdi/)#$T/root\1#g" "$T/unchanged" >"$T/script"
    # A merged /usr, with the library, and another installation.
    mkdir -p "${library%/*}" "$T/root"/{etc/cdi,usr/local/lib,var/run}
    ln -s usr/lib "$T/root/lib"
    ln -s usr/lib64 "$T/root/lib64"
    cp build/libnagleshim.so "$library"
    cp build/libnagleshim.so "$T/root/usr/local/lib"
}

# removed ARGUMENT: runs it.
removed() {
    run -0 sh "$T/script" "$1"
}

# leaves BEFORE AFTER: a removal makes this of what /etc/ld.so.preload is, and says nothing; nothing of nothing: there is no file.
leaves() {
    local left=
    printf %b "$1" >"$T/root/etc/ld.so.preload"
    removed "$gone"
    [[ ! -e $T/root/etc/ld.so.preload ]] || left=$(<"$T/root/etc/ld.so.preload")
    [[ $left == "$(printf %b "$2")" && $output == '' && $(ls "$T/root/etc") == @(cdi|*$'\nld.so.preload') ]] || {
        printf 'left: %s\nsaid: %s\n' "$left" "$output"
        return 1
    }
    [[ $2 ]] || [[ ! -e $T/root/etc/ld.so.preload ]]
}

@test "whichever package goes takes its library out of /etc/ld.so.preload under any name, and nothing else" {
    local kind library gone stays
    for kind in deb rpm; do
        before_removal "$kind"
        printf '%s\n' "$library" >"$T/root/etc/ld.so.preload"
        removed "$stays"
        [[ $(<"$T/root/etc/ld.so.preload") == "$library" ]]
        leaves "$library $library:/lib/a.so\n# of us: $library\nlibnagleshim.so\n/opt/libnagleshim.so" \
            " :/lib/a.so\n# of us: $library\n\n/opt/libnagleshim.so"
        leaves "$library\n" ''
        # The same file, where /lib is /usr/lib.
        leaves "${library/usr\/}\n/lib/a.so\n" '\n/lib/a.so\n'
        [[ ${library/usr\/} -ef $library ]]
        # Of another machine, and of another installation.
        leaves '/usr/lib/other-linux-gnu/libnagleshim.so\n' '/usr/lib/other-linux-gnu/libnagleshim.so\n'
        leaves "$T/root/usr/local/lib/libnagleshim.so\n$library" "$T/root/usr/local/lib/libnagleshim.so\n"
        leaves "a.so\n\n$library#c $library" "a.so\n\n#c $library"
        mkdir "$T/root/c++(x)"
        ln -s "$library" "$T/root/c++(x)/libnagleshim.so"
        leaves "/lib/a.so $T/root/c++(x)/libnagleshim.so\n" '/lib/a.so \n'
        rm "$T/root/etc/ld.so.preload"
        removed "$gone"
        [[ ! -e $T/root/etc/ld.so.preload && -z $output ]]
    done
}

@test "a link in the place of /etc/ld.so.preload stays one, and the file keeps its rights" {
    local kind library gone stays
    for kind in deb rpm; do
        before_removal "$kind"
        printf '%s\n/lib/a.so\n' "$library" >"$T/root/usr/shared"
        chmod 640 "$T/root/usr/shared"
        ln -s ../usr/shared "$T/root/etc/ld.so.preload"
        removed "$gone"
        [[ -L $T/root/etc/ld.so.preload && $(<"$T/root/usr/shared") == *$'\n/lib/a.so' ]]
        [[ $(stat -c %a "$T/root/usr/shared") == 640 && $(compgen -G "$T/root/usr/shared*") == "$T/root/usr/shared" ]]
    done
}

@test "a file that cannot be written is told and stays, and the package goes nevertheless" {
    local kind library gone stays
    [[ $EUID -eq 0 ]] || cannot_here 'mounting needs root'
    for kind in deb rpm; do
        before_removal "$kind"
        echo "$library" >"$T/root/etc/ld.so.preload"
        run -0 unshare --mount sh -c \
            "mount --bind '$T/root/etc' '$T/root/etc' && mount -o remount,bind,ro '$T/root/etc' && sh '$T/script' $gone 2>&1"
        [[ ${lines[-1]} == "libnagleshim: $T/root/etc/ld.so.preload cannot be written: remove the library from it" ]]
        [[ $(<"$T/root/etc/ld.so.preload") == "$library" ]]
    done
}

@test "a specification of CDI that names the library is told of when the package goes, and no other" {
    local kind library gone stays file
    for kind in deb rpm; do
        before_removal "$kind"
        mkdir "$T/root/var/run/cdi"
        cp build/nagleshim "${library%/*}"
        "${library%/*}/nagleshim" cdi >"$T/root/etc/cdi/nagleshim.json" 2>/dev/null
        sed 's#"hostPath.*/libnagleshim.so#"hostPath": "/opt/libnagleshim.so#' "$T/root/etc/cdi/nagleshim.json" \
            >"$T/root/etc/cdi/other.json"
        cp "$T/root/etc/cdi/nagleshim.json" "$T/root/var/run/cdi"
        removed "$stays"
        [[ -z $output ]]
        removed "$gone"
        [[ ${#lines[@]} -eq 2 ]]
        for file in "$T/root/etc/cdi/nagleshim.json" "$T/root/var/run/cdi/nagleshim.json"; do
            [[ $output == *"libnagleshim: $file names the library: remove it, because containers that ask for nagleshim.dev/shim cannot start without the library"* ]]
            [[ -s $file ]]
        done
    done
}

@test "the packages are for the machines that the library can be built for" {
    local machines
    # As gcc's macros name them, and as each distribution does.
    machines=$(sed -nE 's/^#(el)?if defined\(__(.*)__\)$/\2/p' shim/calls/vfork.c | sort -u)
    [[ $machines == $'aarch64\nx86_64' ]]
    [[ $(grep '^Architecture:' config/debian/control | sort -u) == 'Architecture: amd64 arm64' ]]
    [[ $(sed -n 's/^ExclusiveArch: *//p' config/rpm/nagleshim.spec | tr ' ' '\n' | sort) == "$machines" ]]
}
