#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: An ordinary user builds from a fresh clone and installs below his home, and is told in one line what is missing.
# shellcheck disable=SC2154 # bats sets $output and $stderr, helpers/common.bash the rest
# Building from a fresh clone and installing as an ordinary user: what is fetched, what is said in one line, and
# what lies there afterwards. apt-get is one that takes cJSON's source from where it was fetched before.

export BATS_TEST_TIMEOUT=400 # it builds
load ../helpers/common

setup() {
    ns_setup
    CJSON=$(realpath "${CJSON_DIR:-$(compgen -G '.deps/cjson*' | head -n 1)}")
    unset CJSON_DIR
    TOOLS=$PATH
}

# A user who has no rights; the one who runs this, if it is one.
as_user() {
    if [[ $EUID -eq 0 ]]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}

make_there() {
    as_user env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS PATH="$TOOLS" HOME="$T/home" make -s -j2 -C "$T/clone" OPT=-O0 "$@" 3>&-
}

# What a clone has, in $T/clone, owned by the user, and cJSON's source where he may read it.
clone() {
    local directory=$T
    mkdir -p "$T/clone/tests" "$T/home"
    cp -R Makefile shim config "$T/clone"
    cp tests/deps "$T/clone/tests"
    cp -R "$CJSON" "$T/cjson"
    CJSON=$T/cjson
    [[ $EUID -eq 0 ]] || return 0
    chown -R 65534:65534 "$T/clone" "$T/home" "$CJSON"
    # bats makes its directories for their owner alone.
    while [[ $directory != "${BATS_RUN_TMPDIR%/*}" ]]; do
        chmod a+x "$directory"
        directory=${directory%/*}
    done
}

# The programs of this machine but for those named, in $TOOLS; the apt-get there knows one source.
tools_without() {
    local name
    TOOLS=$T/tools
    mkdir "$TOOLS"
    ln -sf /usr/bin/* "$TOOLS"
    rm -f "$TOOLS/apt-get"
    cat >"$TOOLS/apt-get" <<END
#!/bin/sh
case \$* in
*'source cjson'*) cp -R '$CJSON' cjson-9.9.9 ;;
esac
END
    chmod +x "$TOOLS/apt-get"
    for name; do
        rm -f "$TOOLS/$name"
    done
}

# fails "TEXT" [VARIABLE=VALUE]...: make does, and its own words aside it says this in one line.
fails() {
    local text=$1
    shift
    run --separate-stderr make_there all "$@"
    printf '%s\n' "$stderr"
    [[ $status -ne 0 && $(grep -vcE '^make(\[[0-9]+\])?: \*\*\*' <<<"$stderr") -eq 1 && $stderr == *"$text"* ]]
}

@test "make in a fresh clone fetches cJSON and builds, as an ordinary user" {
    clone
    tools_without dpkg-source
    ln -s /bin/true "$TOOLS/dpkg-source" # this apt-get does not need it
    make_there all
    [[ -s $T/clone/build/libnagleshim.so && -s $T/clone/.deps/cjson-9.9.9/cJSON.c ]]
    "$T/clone/build/nagleshim" --version
    # It is there now: nothing is fetched, or built, again.
    rm "$TOOLS/apt-get"
    run make_there all
    [[ $status -eq 0 && -z $output ]]
}

@test "what a fresh clone cannot be built without is named in one line" {
    clone
    tools_without dpkg-source
    fails 'fetching it needs dpkg-source (apt-get install dpkg-dev)'
    rm "$TOOLS/apt-get"
    fails 'there is no apt-get to fetch it: set CJSON_DIR to an unpacked cJSON'
    fails "there is no $T/nowhere/cJSON.c" CJSON_DIR="$T/nowhere"
    rm "$TOOLS/gcc"
    fails "'gcc' is missing"
}

@test "an ordinary user installs below his home, and is told what to type" {
    [[ $EUID -eq 0 && ! -e /etc/nagleshim ]] || ns_skip "only root can be somebody who may not make /etc/nagleshim"
    clone
    local home=$T/home/.local
    # ldconfig is not in an ordinary user's path, and he has no right to its cache.
    TOOLS=/usr/bin:/bin
    run --separate-stderr make_there install CJSON_DIR="$CJSON" PREFIX="$home"
    printf '%s\n' "$output" "$stderr"
    [[ $status -eq 0 && -z $stderr && ${#lines[@]} -eq 2 ]]
    [[ ${lines[0]} == 'note: /etc/nagleshim cannot be made; name policies in NAGLESHIM_POLICY or '* ]]
    [[ ${lines[1]} == "installed; next: $home/bin/nagleshim diagnose -- PROGRAM, or LD_PRELOAD=$home/lib/libnagleshim.so PROGRAM" ]]
    # The commands that it names work.
    run "$home/bin/nagleshim" run --log info -- "$PROBES/report" joins talks exit
    [[ $status -eq 0 && $output == *': report: 3 TCP sockets, '* ]]
    NAGLESHIM_LOG=info LD_PRELOAD=$home/lib/libnagleshim.so "$PROBES/report" joins talks exit 2>&1 |
        grep -q ': report: 3 TCP sockets, '
    # The files to copy from have the paths of this installation.
    local share=$home/share/nagleshim
    grep -qx "Environment=LD_PRELOAD=$home/lib/libnagleshim.so" "$share/systemd/nagleshim.conf"
    grep -qx " *- $home/lib/libnagleshim.so:/usr/local/lib/libnagleshim.so:ro" "$share/container/compose.yaml"
    grep -q -- "-v $home/lib/libnagleshim.so:/usr/local/lib/" "$share/container/nagleshim.env"
    # The directory that could not be made stands in comments alone.
    grep -qx '#Environment=NAGLESHIM_POLICY_DIR=/etc/nagleshim' "$share/systemd/nagleshim.conf"
    grep -qx ' *#NAGLESHIM_POLICY_DIR: /etc/nagleshim' "$share/container/compose.yaml"
    grep -qx ' *#- /etc/nagleshim:/etc/nagleshim:ro' "$share/container/compose.yaml"
    make_there uninstall CJSON_DIR="$CJSON" PREFIX="$home"
    [[ -z $(find "$home" -mindepth 2) ]]
}

@test "an ordinary user who does not name a PREFIX is told which one to use" {
    [[ $EUID -eq 0 ]] || ns_skip "only root can be a user who must not write to /usr/local"
    clone
    run --separate-stderr make_there install CJSON_DIR="$CJSON"
    [[ $status -ne 0 && -z $output ]]
    [[ ${stderr_lines[0]} == "make: nobody must not write to /usr/local: type 'sudo make install', or 'make install PREFIX=\$HOME/.local'" ]]
}

@test "make install makes the directory of policies, and uninstall leaves it if there is one in it" {
    make_here() {
        env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s "$@" DESTDIR="$T/root" 3>&-
    }
    local etc=$T/root/etc/nagleshim
    make_here install
    [[ $(stat -c %a "$etc") == 755 ]]
    make_here uninstall
    [[ -d $T/root/etc && ! -e $etc ]]
    make_here install
    echo '{"version": 1, "rules": []}' >"$etc/default.json"
    make_here install
    make_here uninstall
    [[ $(<"$etc/default.json") == '{"version": 1, "rules": []}' && $(find "$T/root" -type f | wc -l) -eq 1 ]]
}

@test "with SYSCONFDIR the library looks where its policies are" {
    clone
    local etc=$T/home/etc
    make_there all CJSON_DIR="$CJSON"
    # Built for another directory before: what knows it is built anew.
    make_there install CJSON_DIR="$CJSON" PREFIX="$T/home/usr" SYSCONFDIR="$etc"
    [[ -d $etc/nagleshim ]]
    echo '{"version": 1, "rules": [{"name": "here"}]}' >"$etc/nagleshim/default.json"
    unset NAGLESHIM_POLICY_DIR
    NAGLESHIM_LOG=info LD_PRELOAD=$T/home/usr/lib/libnagleshim.so "$PROBES/report" joins talks exit 2>"$T/err"
    cat "$T/err"
    grep -qF ", rule here of $etc/nagleshim/default.json" "$T/err"
    grep -qx "Environment=NAGLESHIM_POLICY_DIR=$etc/nagleshim" \
        "$T/home/usr/share/nagleshim/systemd/nagleshim.conf"
    # The help text, the manuals and the policies to copy say the same.
    grep -qF "$T/home/usr/lib" "$T/home/usr/bin/nagleshim"
    "$T/home/usr/bin/nagleshim" help environment | grep -qF "(default $etc/nagleshim)"
    grep -qF "$etc/nagleshim" "$T/home/usr/share/man/man1/nagleshim.1"
    grep -qF "$etc/nagleshim" "$T/home/usr/share/man/man5/nagleshim-policy.5"
    run grep -rlE '(^|[^a-z])/etc/nagleshim' "$T/home/usr/share/man" "$T/home/usr/share/nagleshim/default.json" \
        "$T/home/usr/share/nagleshim/policies"
    [[ -z $output ]]
}
