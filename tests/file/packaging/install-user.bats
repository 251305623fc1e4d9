# SPDX-License-Identifier: MIT
# Promise: An ordinary user can build from a fresh clone and install below the home directory; one line names what is missing.
# Computes: it builds.
# apt-get is a script that copies cJSON's source from the place to which it was fetched before.

export BATS_TEST_TIMEOUT=1200 # it builds
load ../../helpers/common

setup() {
    ns_setup
    CJSON=$(realpath "${CJSON_DIR:-$(compgen -G '.deps/cjson*' | head -n 1)}")
    unset CJSON_DIR
    TOOLS=$PATH
    # The tests share what was built in the clone, for this prefix. A clone in $T is for tests that build nothing.
    PLACE=$BATS_FILE_TMPDIR
    home=$PLACE/home/.local
}

# Runs a command as an ordinary user.
as_user() {
    if [[ $EUID -eq 0 ]]; then
        "${as_other[@]}" "$@"
    else
        "$@"
    fi
}

make_there() {
    as_user env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS PATH="$TOOLS" HOME="$PLACE/home" make -s -j2 -C "$PLACE/clone" OPT=-O0 "$@" 3>&-
}

# Copies the files of a clone to $PLACE/clone, owned by the user, and cJSON's source to where the user may read it, unless
# they are there.
clone() {
    local source=$CJSON
    CJSON=$PLACE/cjson
    [[ ! -e $PLACE/clone ]] || return 0
    mkdir -p "$PLACE/clone/tests" "$PLACE/home"
    cp -R Makefile CHANGELOG.md shim config "$PLACE/clone"
    cp tests/deps "$PLACE/clone/tests"
    cp -R "$source" "$CJSON"
    [[ $EUID -eq 0 ]] || return 0
    chown -R 65534:65534 "$PLACE/clone" "$PLACE/home" "$CJSON"
    let_others_in "$PLACE" # bats lets only their owner into its directories
}

# Sets TOOLS to a directory with the programs of this machine, except those named. The apt-get there knows one source.
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

# fails "TEXT" [VARIABLE=VALUE]...: make fails, and prints one line with this text besides its own messages.
fails() {
    local text=$1
    shift
    run --separate-stderr make_there all "$@"
    printf '%s\n' "$stderr"
    [[ $status -ne 0 && $(grep -vcE '^make(\[[0-9]+\])?: \*\*\*' <<<"$stderr") -eq 1 && $stderr == *"$text"* ]]
}

@test "in a fresh clone, make as an ordinary user fetches cJSON and builds" {
    clone
    tools_without dpkg-source
    ln -s /bin/true "$TOOLS/dpkg-source" # this apt-get does not need it
    make_there all PREFIX="$home"
    [[ -s $PLACE/clone/build/libnagleshim.so && -s $PLACE/clone/.deps/cjson-9.9.9/cJSON.c ]]
    "$PLACE/clone/build/nagleshim" --version
    # A second make fetches and builds nothing.
    rm "$TOOLS/apt-get"
    run make_there all PREFIX="$home"
    [[ $status -eq 0 && -z $output ]]
    # Without -s it prints a short line for each file.
    touch "$PLACE/clone/shim/init.c"
    run as_user env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS PATH="$TOOLS" make --no-print-directory -C "$PLACE/clone" OPT=-O0 PREFIX="$home" build/libnagleshim.so
    [[ $status -eq 0 && ${#lines[@]} -ge 2 && $(wc -L <<<"$output") -lt 80 ]]
}

@test "if something that the build needs is missing, make names it in one line" {
    PLACE=$T
    clone
    tools_without dpkg-source
    fails 'fetching it needs dpkg-source (apt-get install dpkg-dev)'
    rm "$TOOLS/apt-get"
    fails 'there is no apt-get to fetch it: set CJSON_DIR to an unpacked cJSON'
    fails "there is no $T/nowhere/cJSON.c" CJSON_DIR="$T/nowhere"
    rm "$TOOLS/gcc"
    fails "'gcc' is missing"
}

@test "without a PREFIX, make install tells an ordinary user which one to use" {
    [[ $EUID -eq 0 ]] || ns_skip "only root can become a user who may not write to /usr/local"
    clone
    run --separate-stderr make_there install CJSON_DIR="$CJSON"
    [[ $status -ne 0 && -z $output ]]
    [[ ${stderr_lines[0]} == "make: nobody may not write to /usr/local: type 'sudo make install', or 'make install PREFIX=\$HOME/.local'" ]]
}

@test "an ordinary user can install below the home directory, and make install prints the commands to type" {
    [[ $EUID -eq 0 && ! -e /etc/nagleshim ]] || ns_skip "only root can become a user who may not create /etc/nagleshim"
    clone
    # ldconfig is not in an ordinary user's path, and its cache is not writable.
    TOOLS=/usr/bin:/bin
    run --separate-stderr make_there install CJSON_DIR="$CJSON" PREFIX="$home"
    printf '%s\n' "$output" "$stderr"
    [[ $status -eq 0 && -z $stderr && ${#lines[@]} -eq 2 ]]
    [[ ${lines[0]} == 'note: /etc/nagleshim cannot be made; name policies in NAGLESHIM_POLICY or '* ]]
    [[ ${lines[1]} == "installed; next: $home/bin/nagleshim diagnose -- PROGRAM, or LD_PRELOAD=$home/lib/libnagleshim.so PROGRAM" ]]
    # The printed commands work.
    run "$home/bin/nagleshim" run --log info -- "$PROBES/report" joins talks exit
    [[ $status -eq 0 && $output == *': report: 3 TCP sockets, '* ]]
    NAGLESHIM_LOG=info LD_PRELOAD=$home/lib/libnagleshim.so "$PROBES/report" joins talks exit 2>&1 |
        grep -q ': report: 3 TCP sockets, '
    # The example files contain the paths of this installation.
    local share=$home/share/nagleshim
    grep -qx "Environment=LD_PRELOAD=$home/lib/libnagleshim.so" "$share/systemd/nagleshim.conf"
    grep -qx " *- $home/lib/libnagleshim.so:/usr/local/lib/libnagleshim.so:ro" "$share/container/compose.yaml"
    grep -q -- "-v $home/lib/libnagleshim.so:/usr/local/lib/" "$share/container/nagleshim.env"
    [[ $(grep -ohE '^(#  *)?ExecStart=[^ ]+' "$home/lib/systemd/system/nagleshim-cure.service" | sort -u) == \
        "#   ExecStart=$home/bin/nagleshim"$'\n'"ExecStart=$home/bin/nagleshim" ]]
    # The directory that could not be made is named in comments only.
    grep -qx '#Environment=NAGLESHIM_POLICY_DIR=/etc/nagleshim' "$share/systemd/nagleshim.conf"
    grep -qx ' *#NAGLESHIM_POLICY_DIR: /etc/nagleshim' "$share/container/compose.yaml"
    grep -qx ' *#- /etc/nagleshim:/etc/nagleshim:ro' "$share/container/compose.yaml"
    # JSON has no comments.
    jq -e --arg library "$home/lib/libnagleshim.so" '.containerEdits | (.mounts | map(.hostPath)) == [$library] and (has("env") | not)' \
        "$share/container/cdi.json"
    make_there uninstall CJSON_DIR="$CJSON" PREFIX="$home"
    [[ -z $(find "$home" -mindepth 2) ]]
}

@test "with SYSCONFDIR, the library, its manuals and its help text name that policy directory" {
    clone
    local etc=$PLACE/home/etc usr=$PLACE/home/usr
    # After a build for another directory, the files that contain it are built again.
    make_there install CJSON_DIR="$CJSON" PREFIX="$usr" SYSCONFDIR="$etc"
    [[ -d $etc/nagleshim ]]
    echo '{"version": 1, "rules": [{"name": "here"}]}' >"$etc/nagleshim/default.json"
    unset NAGLESHIM_POLICY_DIR
    NAGLESHIM_LOG=info LD_PRELOAD=$usr/lib/libnagleshim.so "$PROBES/report" joins talks exit 2>"$T/err"
    cat "$T/err"
    grep -qF ", rule here of $etc/nagleshim/default.json" "$T/err"
    grep -qx "Environment=NAGLESHIM_POLICY_DIR=$etc/nagleshim" \
        "$usr/share/nagleshim/systemd/nagleshim.conf"
    # The help text, the manuals and the example policies name the same directory.
    grep -qF "$usr/lib" "$usr/bin/nagleshim"
    "$usr/bin/nagleshim" help | grep -qF "(default $etc/nagleshim)"
    grep -qF "$etc/nagleshim" "$usr/share/man/man1/nagleshim.1"
    grep -qF "$etc/nagleshim" "$usr/share/man/man5/nagleshim-policy.5"
    run grep -rlE '(^|[^a-z])/etc/nagleshim' "$usr/share/man" "$usr/share/nagleshim/default.json" \
        "$usr/share/nagleshim/policies"
    [[ -z $output ]]
}
