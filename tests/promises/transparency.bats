# SPDX-License-Identifier: MIT
# Promise: Calls have the same results as without the library, under every policy and in every place of a program.
# build/probes/transparency prints results, errno and bytes. The differential fuzzer (differential.bats) makes the calls on
# sockets with all kinds of arguments, also in children of fork and vfork and in signal handlers.
# Waits: the probe's calls wait for signals and for each other.

load ../helpers/common

# calls PLACE PRELOAD OUTPUT: runs the probe.
calls() {
    local constructor='' preload=$2
    if [[ $1 == constructor ]]; then
        # Of the preloaded libraries the last one starts first.
        preload+=" $PROBES/transparency_plugin.so"
        constructor=1
    fi
    timeout 20 env ${constructor:+PROBE_CONSTRUCTOR=1} LD_PRELOAD="$preload" \
        "$PROBES/transparency" "$1" </dev/null >"$3"
}

# as_plain PLACE: writes the results without the library to $BATS_FILE_TMPDIR/PLACE.
as_plain() {
    local file=$BATS_FILE_TMPDIR/$1
    [[ ! -e $file ]] || return 0
    NAGLESHIM_OFF=1 calls "$1" '' "$file.once"
    NAGLESHIM_OFF=1 calls "$1" '' "$file.again"
    # A difference between two runs without the library is an error of the probe.
    diff "$file.once" "$file.again"
    mv "$file.once" "$file"
}

# same PLACE POLICY: compares the results under that policy ("" is the built-in one).
same() {
    local says=' sockets [1-9]' level=info
    [[ $1 != constructor ]] || says=': no TCP socket$' level=debug
    as_plain "$1"
    rm -f "$T/log"
    NAGLESHIM_POLICY=$2 NAGLESHIM_LOG=$level NAGLESHIM_LOG_FILE=$T/log calls "$1" "$LIBRARY" "$T/shimmed" &&
        grep -qE "$says" "$T/log" && diff "$BATS_FILE_TMPDIR/$1" "$T/shimmed" ||
        wrong "$1 under '$2': < without the library, > with it"
}

# recorded PLACE: compares the results with the observing library, which must make a record.
recorded() {
    mkdir -p "$T/record"
    as_plain "$1"
    NAGLESHIM_RECORD=$T/record calls "$1" "$OBSERVER" "$T/observed"
    diff "$BATS_FILE_TMPDIR/$1" "$T/observed" || wrong "$1, observed: < without a library, > with it" || return
    # A constructor that runs before the library's own is not observed.
    [[ $1 == constructor || $(find "$T/record" -name '*.record' | wc -l) -gt 0 ]]
}

same_under_every_policy() {
    local send ack failed=0
    for send in nodelay auto-cork adaptive flush-before-read app; do
        for ack in before-wait app; do
            same "$1" "{\"version\": 1, \"rules\": [{\"send\": \"$send\", \"ack\": \"$ack\"}]}" || failed=1
        done
    done
    recorded "$1" || failed=1
    [[ $failed -eq 0 ]]
}

@test "calls have the same results under every policy and with the observing library" {
    same_under_every_policy main
    same main ''
    NAGLESHIM_EXPERIMENT=push recorded main
}

@test "calls have the same results if a rule sets socket options that the program does not set" {
    same main '{"version": 1, "rules": [{"sockopt": {"TCP_KEEPIDLE": {"set": 77},
        "TCP_KEEPINTVL": {"min": 9999}, "SO_KEEPALIVE": {"set": 1}}}]}'
}

@test "calls have the same results under a rule for addresses, which the library reads before connect" {
    same main '{"version": 1, "rules": [{"match": {"remote": ["127.0.0.0/8", "::/0"]}}]}'
}

@test "getsockopt says that a forked child has set TCP_CORK, also while a burst is held" {
    cat >"$T/corks.py" <<'END'
import os, socket
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
near.send(b"x")
if os.fork() == 0:
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    os._exit(0)
os.wait()
for _ in range(6):
    near.send(b"x")
print(near.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK))
END
    [[ $(python3 "$T/corks.py") == 1 ]]
    run env NAGLESHIM_LOG=info LD_PRELOAD="$LIBRARY" python3 "$T/corks.py"
    [[ ${lines[0]} == 1 && $output == *'bursts joined 1,'* ]]
}

@test "calls have the same results in an early constructor, in a thread after a cancelled one, in a plugin and during exit" {
    local place
    for place in constructor cancelled atexit plugin; do
        same_under_every_policy "$place"
    done
}

@test "this probe and the differential fuzzer together make every call that the library wraps" {
    local missing programs=(build/probes/transparency build/differential/program)
    # Some libcs lack some names.
    gcc -E -P -x c -D'NS_CALL(result, name, parameters, failure)=name' shim/base/calls.def | tr -s ' ' '\n' | sort |
        comm -12 - <(nm -D "$(gcc -print-file-name=libc.so.6)" | sed -n 's/.* [TWi] \([^@]*\).*/\1/p' | sort -u) >"$T/names"
    if [[ $(getconf LONG_BIT) == 32 ]]; then # these programs have other names
        programs+=("${programs[@]/build/$T}")
        env -u MAKEFLAGS make -s B="$T" CFLAGS="-D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 -Wno-conversion" "${programs[@]:2}"
    fi
    nm -D --undefined-only "${programs[@]}" | awk '{ sub(/@.*/, "", $2); print $2 }' | sort -u >"$T/called"
    missing=$(comm -23 "$T/names" "$T/called")
    echo "never called: $missing"
    [[ $(wc -l <"$T/names") -gt 50 && -z $missing ]]
}
