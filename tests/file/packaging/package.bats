# SPDX-License-Identifier: MIT
# Promise: `make deb` and `make rpm` build packages with the files of `make install`, and the library depends on libc only.
# Computes: it builds packages.

load ../../helpers/common

setup_file() {
    export BATS_TEST_TIMEOUT=1800
    # Not beside the packages of a release: these have the same names.
    export PACKAGES=$BATS_FILE_TMPDIR/packages
    # Flags that distributions could add, for the checks of the library below. The others save time: nothing of the rpm
    # package is run, and nothing is debugged.
    export DEB_CFLAGS_APPEND='-flto=auto -O1 -g0' DEB_LDFLAGS_APPEND='-Wl,-z,lazy -Wl,--as-needed'
    export DEB_BUILD_OPTIONS=noautodbgsym
    echo '%optflags -O0' >"$BATS_FILE_TMPDIR/.rpmmacros"
    # make without the variables of a make that runs the tests.
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s deb 3>&- >/dev/null
    HOME=$BATS_FILE_TMPDIR OPT=-O0 env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s rpm 3>&- >/dev/null
}

# Removes the differences between both kinds of package: the machine's directory, the suffix of compressed files, and the
# files that each distribution adds.
plainly() {
    sed -E 's#^\.?/*#/#; s#^/usr/lib(64|/[^/]*-linux-[^/]*)?/libn#LIBDIR/libn#; s#\.gz$##; s#zsh/vendor-completions/#zsh/site-functions/#' |
        grep -vE '/$|^/usr/share/(doc|licenses|lintian)(/|$)|/\.build-id(/|$)' | sort
}

# deb_files NAME: the files of a package, and its empty policy directory.
deb_files() {
    dpkg-deb -c "$PACKAGES/$1"_*.deb | awk '$1 ~ /^-/ || $6 ~ /^.\/etc\/nagleshim\/$/ { sub(/\/$/, "", $6); print $6 }' | plainly
}

@test "Debian's two packages contain every file that make install installs" {
    # With the PREFIX for which build/ was made, nothing is compiled again.
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s install DESTDIR="$T/installed" 3>&-
    diff <(cd "$T/installed" && { find . -type f; echo ./etc/nagleshim; } |
        sed 's#^./usr/local/lib/lib#./usr/lib64/lib#; s#^./usr/local/#./usr/#' | plainly) \
        <({ deb_files libnagleshim; deb_files nagleshim; } | sort)
    [[ $(deb_files libnagleshim) == $'/etc/nagleshim\nLIBDIR/libnagleshim-observe.so\nLIBDIR/libnagleshim.so' ]]
}

@test "Debian's zsh completes the command of the package" {
    command -v zsh >/dev/null || ns_skip 'no zsh'
    dpkg-deb -x "$PACKAGES"/nagleshim_*.deb "$T/root"
    # The directories that this zsh searches, first those of the package; -f is without the user's files.
    completes() {
        zsh -fc 'fpath=($1${^fpath} $fpath); autoload -Uz compinit; compinit -u -D; print $_comps[nagleshim]' zsh "$1"
    }
    [[ $(completes "$T/root") == _nagleshim && -z $(completes "$T/none") ]]
}

@test "the rpm packages contain the same files" {
    local name
    for name in libnagleshim nagleshim; do
        # The spec also names its own directories that contain files. They are left out.
        diff <(deb_files "$name") <(rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$PACKAGES/$name"-[0-9]*.rpm |
            awk '$1 ~ /^-/ || $2 == "/etc/nagleshim" { print $2 }' | plainly)
    done
}

@test "the library's package depends on libc 2.17 only, and the command's package on the library of the same version" {
    local version
    version=$(dpkg-deb -f "$PACKAGES"/nagleshim_*.deb Version)
    [[ $(dpkg-deb -f "$PACKAGES"/libnagleshim_*.deb Depends) == 'libc6 (>= 2.17)' ]]
    [[ $(dpkg-deb -f "$PACKAGES"/nagleshim_*.deb Depends) =~ ^libnagleshim\ \(=\ $version\),\ libc6\ \([^,]*\)$ ]]
    [[ $version == "$(build/nagleshim version | grep -oE '[0-9.]+$')" ]]
    [[ $(rpm -qp --qf '%{VERSION}' "$PACKAGES"/nagleshim-[0-9]*.rpm) == "$version" ]]
}

@test "make deb and make rpm take the cJSON of CJSON_DIR" {
    local kind program
    git clone -q . "$T/clone" && cd "$T/clone"
    cp -R "$(realpath "${CJSON_DIR:-$(compgen -G "$OLDPWD/.deps/cjson-*" | head -n 1)}")" cjson
    mkdir "$T/bin"
    for kind in deb:dpkg-buildpackage rpm:rpmbuild; do
        # It stands for the build: it prints the sources that it would get, and fails.
        program=$T/bin/${kind#*:}
        printf '#!/bin/sh\nprintenv CJSON_DIR\nls .deps/cjson-*/* || tar -tf "$OUT"/rpm/SOURCES/*.tar.gz | grep cjson\nexit 1\n' >"$program"
        chmod +x "$program"
        PATH=$T/bin:$PATH OUT=$T/out PACKAGES=$T/out run env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS \
            make -s "${kind%:*}" CJSON_DIR=cjson 3>&-
        [[ $output == *cJSON.c*cJSON.h* && $output != *$'\ncjson\n'* ]] || wrong "$kind: $output"
    done
    CJSON_DIR=cjson config/bill nagleshim 1 INSTALL 0 0 | grep -A 2 '"name": "cJSON"' | grep -qE '"versionInfo": "[0-9.]+"'
}

@test "each package has a bill of materials with its checksum, and with cJSON" {
    local file n=0
    for file in "$PACKAGES"/*.{deb,rpm}; do
        jq -e --arg name "$(basename "$file")" --arg sum "$(sha256sum "$file" | cut -d' ' -f1)" '.spdxVersion == "SPDX-2.3"
            and (.packages[0] | .name == $name and .primaryPackagePurpose == "INSTALL" and .checksums[0].checksumValue == $sum)
            and (.packages[1] | .name == "cJSON" and (.versionInfo | test("^[0-9]+[.][0-9]+[.][0-9]+$")))' "$file.spdx.json"
        n=$((n + 1))
    done
    [[ $n -ge 4 ]]
}

@test "the version of the Makefile is in the packages' change logs, with the date of CHANGELOG.md, and in the manuals" {
    local version date page
    version=$(sed -n 's/^VERSION := //p' Makefile)
    date=$(sed -n "s/^## \[$version\] - //p" CHANGELOG.md)
    dpkg-deb -x "$PACKAGES"/nagleshim_*.deb "$T/root"
    zcat "$T"/root/usr/share/doc/nagleshim/changelog.gz >"$T/changelog"
    grep -qx "nagleshim ($version) unstable; urgency=medium" "$T/changelog"
    [[ $(date -uId -d "$(sed -n 's/^ -- .*>  //p' "$T/changelog")") == "$date" ]]
    [[ $(TZ=UTC rpm -qp --qf '[%{CHANGELOGTIME:day} %{CHANGELOGNAME}\n]' "$PACKAGES"/nagleshim-[0-9]*.rpm) == \
        "$(LC_ALL=C date -d "$date" '+%a %b %d %Y') "*"$version-1" ]]
    for page in man1/nagleshim.1 man1/nagleshim-{cure,diagnose,host,top}.1 man5/nagleshim-policy.5 man7/nagleshim.7; do
        zgrep -qx "\.Os nagleshim $version" "$T/root/usr/share/man/$page.gz"
        zgrep -qx "\.Dd $(LC_ALL=C date -d "$date" '+%B %-d, %Y')" "$T/root/usr/share/man/$page.gz"
    done
    # A version without a line in CHANGELOG.md is refused.
    run config/package deb "$version.1"
    [[ $status -eq 1 && $output == "config/package: CHANGELOG.md has no line '## [$version.1] - YYYY-MM-DD'" ]]
}

@test "packages built in another directory, at another time, have the same bytes" {
    local file
    mkdir -p "$T/else/where"
    { git ls-files -z 2>/dev/null || find . -type f -not -path './build/*' -not -path './.deps/*' -print0; } |
        tar -c --null --files-from=- .deps/cjson-* | tar -C "$T/else/where" -x
    (umask 077 && cd "$T/else/where" && export HOME=$BATS_FILE_TMPDIR OPT=-O0 TZ=Asia/Tokyo PACKAGES= &&
        env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS config/package rpm "$(sed -n 's/^VERSION := //p' Makefile)" 3>&- &&
        env -u OPT -u MAKEFLAGS -u MAKELEVEL -u MFLAGS config/package deb "$(sed -n 's/^VERSION := //p' Makefile)" 3>&-)
    for file in "$PACKAGES"/*.{deb,rpm}; do
        cmp "$file" "$T/else/where/build/packages/${file##*/}"
    done
}

@test "make dist makes the same tarball from the same commit, in any clone and at any time" {
    local version clone
    version=$(sed -n 's/^VERSION := //p' Makefile)
    git rev-parse HEAD >/dev/null 2>&1 || ns_skip 'no git repository'
    for clone in a b; do
        git clone -q --no-hardlinks . "$T/$clone"
        # The tested scripts are those of this tree.
        cp Makefile CHANGELOG.md "$T/$clone" && cp config/package "$T/$clone/config"
        (cd "$T/$clone" && git -c user.name=x -c user.email=x@x commit -qam x --date=2020-02-02T02:02:02Z) || true
        touch -d '2001-01-01' "$T/$clone"/*
    done
    git -C "$T/b" fetch -q ../a && git -C "$T/b" reset -q --hard FETCH_HEAD
    quiet() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s "$@" 3>&-; }
    quiet -C "$T/a" dist
    (umask 077 && TZ=Asia/Tokyo quiet -C "$T/b" dist)
    cmp "$T"/{a,b}/build/dist/"nagleshim-$version.tar.gz"
    (cd "$T/b/build/dist" && sha256sum -c "nagleshim-$version.tar.gz.sha256")
    tar -C "$T" -xf "$T/a/build/dist/nagleshim-$version.tar.gz"
    diff <(git -C "$T/a" ls-files | sort) <(cd "$T/nagleshim-$version" && find . -type f -printf '%P\n' | sort)
    # Changes that are not committed are refused.
    echo >>"$T/a/README.md"
    run quiet -C "$T/a" dist
    [[ $status -ne 0 && $output == *'commit the changes first'* ]]
}

@test "the library in the package, built with a distribution's flags, passes the checks of elf.bats, and works" {
    local root=$T/root library
    dpkg-deb -x "$PACKAGES"/libnagleshim_*.deb "$root"
    dpkg-deb -x "$PACKAGES"/nagleshim_*.deb "$root"
    library=$(echo "$root"/usr/lib/*/libnagleshim.so)
    [[ $(LD_PRELOAD=$library NAGLESHIM_LOG=debug /bin/true 2>&1) == *'rules are for this process'* ]]
    run -0 /lib/ld-musl-*.so.1 --list "$library"
    [[ $output != *'not found'* && $output != *relocating* ]]
    # The command, which may be fortified, shows that the flags were used.
    nm -D --undefined-only "$root/usr/bin/nagleshim" | grep -q _chk
    # The countdown of a time limit could keep the output open.
    NS_ELF_LIBRARY=$library run env -u BATS_TEST_TIMEOUT bats --filter '^(it|its|all) ' tests/file/elf.bats
    echo "$output"
    [[ $status -eq 0 && $(grep -c '^ok' <<<"$output") -ge 9 ]]
}

@test "one call of dpkg upgrades both packages, also from 0.2.0, in which the observing library was in the other one" {
    local before owner version machine observer info=$T/root/var/lib/dpkg/info
    [[ $EUID -eq 0 ]] || ns_skip "only root installs packages"
    observer=/usr/lib/$(gcc -print-multiarch)/libnagleshim-observe.so
    version=$(dpkg-deb -f "$PACKAGES"/nagleshim_*.deb Version)
    machine=$(dpkg --print-architecture)
    while read -r before owner; do
        rm -rf "$T/root"
        mkdir -p "$info" "$T/root/var/lib/dpkg/updates" "$T/root${observer%/*}"
        printf 'Package: %s\nStatus: install ok installed\nMaintainer: x\nArchitecture: %s\nVersion: %s\nMulti-Arch: %s\nDescription: x\n\n' \
            libnagleshim "$machine" "$before" same nagleshim "$machine" "$before" no >"$T/root/var/lib/dpkg/status"
        echo 1 >"$info/format"
        echo /. | tee "$info/libnagleshim:$machine.list" >"$info/nagleshim.list"
        echo "$observer" >>"$info/$owner.list"
        echo old >"$T/root$observer"
        run -0 dpkg --root="$T/root" --log=/dev/null --force-depends --unpack "$PACKAGES"/{lib,}nagleshim_*.deb
        [[ $(dpkg-query --admindir="$T/root/var/lib/dpkg" -W -f '${Package} ${Version}\n') == "libnagleshim $version"$'\n'"nagleshim $version" ]]
        [[ $(dpkg-query --admindir="$T/root/var/lib/dpkg" -S "$observer") == libnagleshim:* && $(head -c 3 "$T/root$observer") != old ]]
    done <<CASES
0.2.0 nagleshim
$version~1 libnagleshim:$machine
CASES
}

# before_removal KIND: makes $T/script, the script that the package manager runs before it removes the library, with paths
# below $T/root. Sets gone and stays to its arguments for a removal and an upgrade, and library to the installed file.
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
    sed -E "s#(/etc/ld\.so\.preload|$named|/usr/lib/nagleshim|/etc/cdi/|/var/run/cdi/)#$T/root\1#g" "$T/unchanged" >"$T/script"
    # $T/root has a merged /usr, the library, and another installation.
    mkdir -p "${library%/*}" "$T/root"/{etc/cdi,usr/local/lib,var/run}
    ln -s usr/lib "$T/root/lib"
    ln -s usr/lib64 "$T/root/lib64"
    cp build/libnagleshim.so "$library"
    cp build/libnagleshim.so "$T/root/usr/local/lib"
}

# Sets copy to the path that `nagleshim host enable --preload` gives to the copy of $library.
copy_path() {
    copy=${library%/*}
    copy=${copy#/}
    copy=$T/root/usr/lib/nagleshim/${copy//\//-}/libnagleshim.so
}

@test "an upgrade replaces the copy that host enable --preload has made, as a whole, and makes none" {
    local kind library gone stays copy
    for kind in deb rpm; do
        before_removal "$kind"
        copy_path
        if [[ $kind == deb ]]; then
            cp "$T/control/postinst" "$T/unchanged"
        else
            rpm -qp --qf '%{POSTIN}' "$PACKAGES"/libnagleshim-[0-9]*.rpm >"$T/unchanged"
            [[ $(tail -n 1 "$T/unchanged") == /sbin/ldconfig ]]
        fi
        sed -E "s#^(library=|copy=)/#\1$T/root/#; /ldconfig/d" "$T/unchanged" >"$T/script"
        removed "$stays"
        [[ ! -e $T/root/usr/lib/nagleshim ]]
        mkdir -p "${copy%/*}"
        echo old >"$copy"
        exec 7<"$copy"
        removed "$stays"
        cmp "$library" "$copy"
        # A process that has mapped the old file keeps it.
        [[ $(cat <&7) == old && $(ls "${copy%/*}") == libnagleshim.so ]]
    done
}

# removed ARGUMENT: runs the script.
removed() {
    run -0 sh "$T/script" "$1"
}

# leaves BEFORE AFTER: the removal changes /etc/ld.so.preload from BEFORE to AFTER, and prints nothing. AFTER '': no file.
leaves() {
    local left=
    printf %b "$1" >"$T/root/etc/ld.so.preload"
    removed "$gone"
    [[ ! -e $T/root/etc/ld.so.preload ]] || left=$(<"$T/root/etc/ld.so.preload")
    [[ $left == "$(printf %b "$2")" && $output == '' && $(ls "$T/root/etc") == @(cdi|*$'\nld.so.preload') ]] ||
        wrong "left: $left"$'\n'"said: $output" || return
    [[ $2 ]] || [[ ! -e $T/root/etc/ld.so.preload ]]
}

@test "removing a package removes its library from /etc/ld.so.preload, by any of its names, and nothing else" {
    local kind library gone stays copy
    for kind in deb rpm; do
        before_removal "$kind"
        printf '%s\n' "$library" >"$T/root/etc/ld.so.preload"
        removed "$stays"
        [[ $(<"$T/root/etc/ld.so.preload") == "$library" ]]
        leaves "$library $library:/lib/a.so\n# of us: $library\nlibnagleshim.so\n/opt/libnagleshim.so" \
            " :/lib/a.so\n# of us: $library\n\n/opt/libnagleshim.so"
        leaves "$library\n" ''
        # The same file by another path, because /lib is /usr/lib.
        leaves "${library/usr\/}\n/lib/a.so\n" '\n/lib/a.so\n'
        [[ ${library/usr\/} -ef $library ]]
        # The libraries of another machine and of another installation stay.
        leaves '/usr/lib/other-linux-gnu/libnagleshim.so\n' '/usr/lib/other-linux-gnu/libnagleshim.so\n'
        leaves "$T/root/usr/local/lib/libnagleshim.so\n$library" "$T/root/usr/local/lib/libnagleshim.so\n"
        leaves "a.so\n\n$library#c $library" "a.so\n\n#c $library"
        # The copy that host enable --preload makes.
        copy_path
        install -D "$library" "$copy"
        leaves "$copy\n/lib/a.so\n" '\n/lib/a.so\n'
        [[ ! -e $T/root/usr/lib/nagleshim ]]
        mkdir "$T/root/c++(x)"
        ln -s "$library" "$T/root/c++(x)/libnagleshim.so"
        leaves "/lib/a.so $T/root/c++(x)/libnagleshim.so\n" '/lib/a.so \n'
        rm "$T/root/etc/ld.so.preload"
        removed "$gone"
        [[ ! -e $T/root/etc/ld.so.preload && -z $output ]]
    done
}

@test "removing the library of one architecture says that the name without a path is gone for the other one, too" {
    local kind library gone stays other
    for kind in deb rpm; do
        before_removal "$kind"
        other=${library%/*}-other/libnagleshim.so
        install -D "$library" "$other"
        echo libnagleshim.so >"$T/root/etc/ld.so.preload"
        removed "$gone"
        [[ ! -e $T/root/etc/ld.so.preload ]]
        [[ $output == "libnagleshim: $T/root/etc/ld.so.preload no longer names $other either: type 'nagleshim host enable --preload' to enable it again" ]]
        # The control: a path is for one of them.
        leaves "$library\n" ''
    done
}

@test "if /etc/ld.so.preload is a symbolic link, it stays one, and the file keeps its mode" {
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

@test "if /etc/ld.so.preload cannot be written, the removal of the package prints that and succeeds" {
    local kind library gone stays
    { [[ $EUID -eq 0 ]] && unshare --mount true; } || ns_skip 'mounting needs root'
    for kind in deb rpm; do
        before_removal "$kind"
        echo "$library" >"$T/root/etc/ld.so.preload"
        run -0 unshare --mount sh -c \
            "mount --bind '$T/root/etc' '$T/root/etc' && mount -o remount,bind,ro '$T/root/etc' && sh '$T/script' $gone 2>&1"
        [[ ${lines[-1]} == "libnagleshim: $T/root/etc/ld.so.preload cannot be written: remove the library from it" ]]
        [[ $(<"$T/root/etc/ld.so.preload") == "$library" ]]
    done
}

@test "removing the package prints a message for each CDI specification that names its library, and for no other" {
    local kind library gone stays file
    for kind in deb rpm; do
        before_removal "$kind"
        mkdir "$T/root/var/run/cdi"
        sed "s#/usr/local/lib/libnagleshim.so#$library#" config/container/cdi.json >"$T/root/etc/cdi/nagleshim.json"
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

@test "the packages are for exactly the architectures that the library can be built for" {
    local machines
    # The names of gcc's macros, and those of each distribution.
    machines=$(sed -nE 's/^#(el)?if defined\(__([a-z0-9_]*[a-z0-9])_*\).*/\2/p' shim/base/machine.h | sort -u | paste -sd ' ')
    [[ $machines == 'aarch64 arm i386 powerpc64 riscv s390x x86_64' ]]
    [[ $(grep '^Architecture:' config/debian/control | sort -u) == 'Architecture: amd64 arm64 armhf i386 ppc64el riscv64 s390x' ]]
    [[ $(sed -n 's/^ExclusiveArch: *//p' config/rpm/nagleshim.spec) == 'x86_64 aarch64 %{ix86} ppc64le riscv64 s390x' ]]
}

@test "make deb builds for another architecture, whose libc is not installed" {
    local package name version
    version=$(dpkg-deb -f "$PACKAGES"/nagleshim_*.deb Version)
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS DEB_CFLAGS_APPEND='-O0 -g0' make -s deb ARCH=armhf 3>&- >/dev/null
    mv "$PACKAGES"/*_armhf.deb "$T" # the other tests expect one file
    for package in libnagleshim nagleshim; do
        name=$T/${package}_${version}_armhf.deb
        [[ $(dpkg-deb -f "$name" Depends) =~ 'libc6 (>= 2.'[0-9]+\)$ ]]
        [[ $(dpkg-deb -f "$name" Architecture) == armhf ]]
        dpkg-deb -x "$name" "$T/root"
    done
    [[ $(dpkg-deb -f "$T"/libnagleshim_*.deb Depends) == 'libc6 (>= 2.17)' ]]
    for name in "$T"/root/usr/{bin/nagleshim,lib/arm-linux-gnueabihf/libnagleshim{,-observe}.so}; do
        [[ $(readelf -h "$name") == *ELF32*Machine:*ARM* ]]
    done
    # The packages for this machine are for another one.
    [[ $(dpkg-deb -f "$PACKAGES"/nagleshim_*.deb Architecture) == "$(dpkg --print-architecture)" ]]
}
