# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # $D, $with, $shared: tests/systems/peers/run
# The suites: suite_NAME runs one in the directory $D, its programs behind "${with[@]}", and leaves there a file
# of results, lines of "pass", "fail" or "skip" and a name. Names must not depend on chance.

PEERS_ROOT=$PWD

cpython_modules=(test_socket test_asyncio test_ssl test_select test_selectors test_epoll test_httplib
    test_httpservers test_urllib2_localnet test_ftplib test_smtplib test_imaplib test_poplib test_subprocess
    test_socketserver test_xmlrpc test_logging test_multiprocessing_spawn test_multiprocessing_fork)

all_suites() {
    printf '%s\n' nginx curl redis libevent libuv "${cpython_modules[@]/#/cpython/}"
}

# Seconds after which a run is killed.
limit_of() {
    case $1 in
    cpython/test_asyncio | cpython/test_multiprocessing_*) echo 900 ;;
    *) echo 600 ;;
    esac
}

# Suites that may make no connection: their sockets are pipes, or pairs.
may_be_without_tcp() {
    [[ $1 == cpython/test_select || $1 == cpython/test_selectors || $1 == cpython/test_subprocess ]]
}

# Read now: a run has a /tmp of its own, and the tree may be in this one.
PEERS_EXCLUDED=$(<tests/systems/peers/excluded)

# The patterns of what is left out of a suite.
excluded_from() {
    awk -F'|' -v suite="$1" '$1 == suite { print $2 }' <<<"$PEERS_EXCLUDED"
}

outcome() {
    printf '%s %s\n' "$1" "$2" >>"$D/results"
}

# expect NAME COMMAND...
expect() {
    local name=$1
    shift
    if "$@"; then
        outcome pass "$name"
    else
        echo "failed: $*"
        outcome fail "$name"
    fi
}

suite_cpython() {
    local left_out=() pattern
    while read -r pattern; do
        left_out+=(-i "*$pattern*")
    done < <(excluded_from "cpython/$1")
    # It wants a network for what it does over loopback; others would look for hosts on the internet.
    [[ $1 != test_socketserver ]] || left_out+=(-u network)
    # Debian's own Python, whose tests these are.
    expect 'exit status' "${with[@]}" /usr/bin/python3.11 -m test "$1" -v --junit-xml "$D/results.xml" \
        "${left_out[@]}"
    /usr/bin/python3.11 -c 'import sys, xml.etree.ElementTree
for case in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
    kinds = {child.tag for child in case}
    word = "fail" if kinds & {"failure", "error"} else "skip" if "skipped" in kinds else "pass"
    print(word, case.get("name").split("\n")[0])' "$D/results.xml" >>"$D/results"
}

# What a suite needs before its first run: those that come as source are built once, below build/peers.
prepare_suite() {
    case $1 in
    libevent)
        build_peer libevent libevent -DEVENT__DISABLE_MBEDTLS=ON -DEVENT__DISABLE_SAMPLES=ON \
            -DEVENT__DISABLE_BENCHMARK=ON -DEVENT__LIBRARY_TYPE=STATIC
        ;;
    libuv) build_peer libuv libuv1 ;;
    esac
}

build_peer() {
    local name=$1 source=$2
    shift 2
    [[ ! -e build/peers/$name/built ]] || return 0
    cmake -S .deps/"$source"-* -B "build/peers/$name" -DCMAKE_BUILD_TYPE=RelWithDebInfo "$@" &&
        make -C "build/peers/$name" -j2 && touch "build/peers/$name/built"
}

suite_libevent() {
    "${with[@]}" "$PEERS_ROOT/build/peers/libevent/bin/regress" >"$D/log" 2>&1
    # A test that failed is tried again by itself; the last word counts.
    awk '/^[a-z_0-9]+\/[^:]*: / { name = $1; sub(/:$/, "", name); word = "" }
        / OK$|^OK$/ { word = "pass" }
        /SKIPPED|DISABLED/ { word = "skip" }
        /FAILED\]$/ { word = "fail" }
        word { last[name] = word; word = "" }
        END { for (name in last) print last[name], name }' "$D/log" >"$D/results"
}

suite_libuv() {
    # It refuses to run as root, and looks for its fixtures where it is.
    mkdir "$D/run"
    cp "$PEERS_ROOT/build/peers/libuv/uv_run_tests_a" "$D/run"
    cp -R "$PEERS_ROOT"/.deps/libuv1-*/test "$D/run/test"
    chown -R nobody "$D/run"
    cd "$D/run" || return 1
    "${with[@]}" setpriv --reuid=nobody --regid=nogroup --clear-groups ./uv_run_tests_a >"$D/log" 2>&1
    sed -nE 's/^ok [0-9]+ - ([a-z0-9_]+)$/pass \1/p; s/^ok [0-9]+ - ([a-z0-9_]+) # SKIP.*/skip \1/p
        s/^not ok [0-9]+ - ([a-z0-9_]+)$/fail \1/p' "$D/log" >"$D/results"
}

# What has to do with connections: replies in pieces, pipelines, large and slow replies, replication.
redis_units=(unit/protocol unit/networking unit/pubsub unit/pubsubshard unit/multi unit/querybuf
    unit/pendingquerybuf unit/obuf-limits unit/limits unit/quit unit/pause unit/auth unit/tracking
    unit/replybufsize unit/type/list integration/replication-2 integration/redis-cli integration/redis-benchmark)

suite_redis() {
    local unit units=() source
    for unit in "${redis_units[@]}"; do
        units+=(--single "$unit")
    done
    source=$(compgen -G "$PEERS_ROOT/.deps/redis-*" | head -n 1)
    mkdir "$D/run" "$D/run/src"
    cp -R "$source/tests" "$D/run/tests"
    cp "$source/runtest" "$source/redis.conf" "$source/sentinel.conf" "$D/run/"
    # The programs are the package's own.
    for unit in redis-server redis-cli redis-benchmark redis-sentinel redis-check-aof redis-check-rdb; do
        ln -s "/usr/bin/$unit" "$D/run/src/$unit"
    done
    cd "$D/run" || return 1
    "${with[@]}" ./runtest --clients 2 --dont-clean "${units[@]}" >"$D/log" 2>&1
    sed -E 's/\x1b\[[0-9;]*m//g' "$D/log" | sed -nE 's/ \([0-9]+ ms\)$//; s/^\[ok\]: /pass /p
        s/^\[(err|exception|timeout)\]: (.*) in tests.*/fail \2/p; s/^\[(skip|ignore)\]: /skip /p' |
        sort | uniq >"$D/results"
}
# shellcheck source=tests/systems/peers/http.bash
source "$PEERS_ROOT/tests/systems/peers/http.bash"
