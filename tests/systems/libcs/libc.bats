# SPDX-License-Identifier: MIT
# Promise: One build of the library works on glibc from 2.31 on and on musl.
# Tests the library that was built here with another libc, NS_LIBC. tests/systems/libcs/run builds the programs for it, and
# sets NS_LIBC_PROGRAMS to the command that runs them there.

load ../../helpers/common
load ../../helpers/matrix
load ../../helpers/life

setup() {
    ns_setup
    EXAMPLES=$NS_LIBC_PROGRAMS
    PROBES=$NS_LIBC_PROGRAMS
}

policy_of() {
    printf '{"version": 1, "rules": [{"send": "%s", "ack": "%s"}]}' "$1" "$2"
}

@test "the programs run on this libc" {
    run timeout 10 "$PROBES/libc_lacks"
    case $NS_LIBC in
    bullseye) [[ ${lines[0]} == 'libc 2.31' ]] ;;
    bookworm) [[ ${lines[0]} == 'libc 2.36' ]] ;;
    trixie) [[ ${lines[0]} == 'libc 2.41' ]] ;;
    forky) [[ ${lines[0]} == 'libc 2.'* ]] ;;
    musl) [[ ${lines[0]} == 'libc musl' ]] ;;
    esac
    # Without the library these calls are missing.
    [[ $status -ne 0 && $output == *'it is not the library'* ]]
}

# A row has the example, send, ack, the end with the library, the expected result, and the segments of a round.
@test "the examples stall without the library, and each mode of sending cures its end" {
    local row words
    for row in 'redhat - - nowhere stalls 2' \
        'redhat nodelay before-wait writing flows 15' \
        'redhat nodelay before-wait other flows -' \
        'redhat auto-cork before-wait writing flows 1' \
        'redhat flush-before-read before-wait writing flows 2' \
        'queue - - nowhere stalls -' \
        'queue nodelay before-wait writing flows -' \
        'queue nodelay before-wait other flows -' \
        'record nodelay before-wait writing flows -'; do # by "SO_SNDBUF": "ignore"
        echo "$row"
        read -ra words <<<"$row"
        cell "${words[@]}"
    done
}

@test "the built-in policy needs no file" {
    policy=''
    flow redhat writing 2
    [[ ! -s $T/client.err && ! -s $T/server.err ]]
}

# On musl constructors have no arguments, so the library finds the program's name in another way.
@test "a policy file with the program's name is for that program, and default.json for the others" {
    policy=''
    policy_of auto-cork before-wait >"$NAGLESHIM_POLICY_DIR/tcp_nodelay_client.json"
    policy_of app app >"$NAGLESHIM_POLICY_DIR/default.json"
    flow redhat both 1
    rm "$NAGLESHIM_POLICY_DIR/tcp_nodelay_client.json"
    stalled redhat both
}

@test "calls that this libc lacks fail, with ENOSYS if they can report it" {
    LD_PRELOAD=$LIBRARY run timeout 10 "$PROBES/libc_lacks"
    echo "$output"
    [[ $status -eq 0 ]]
    local name lacks=''
    case $NS_LIBC in
    bullseye) lacks='close_range _Fork execveat epoll_pwait2' ;;
    musl) lacks='close_range pthread_cond_clockwait' ;;
    *) [[ ${lines[1]} != *execveat* ]] ;;
    esac
    for name in $lacks; do
        [[ " ${lines[1]} " == *" $name "* ]]
    done
}

@test "the call table, or the table of exceptions, has every function of this libc that reads, writes, waits or starts a process" {
    # shellcheck disable=SC2086 # several files
    tests/file/names "$LIBRARY" $NS_LIBC_LIBRARIES
}

@test "thread calls work in a plugin of a program without threads" {
    local send plugin=$NS_LIBC_FILES/late_threads.so
    # musl may change errno in a call that succeeds.
    timeout 10 "$PROBES/late_threads" "$plugin" | sed 's/ = 0 .*/ = 0/' >"$T/plain"
    [[ $(grep -cE 'its value 1|its result 42|cancelled 1' "$T/plain") -eq 3 ]]
    for send in adaptive auto-cork; do
        NAGLESHIM_POLICY=$(policy_of "$send" before-wait) LD_PRELOAD=$LIBRARY timeout 10 "$PROBES/late_threads" "$plugin" |
            sed 's/ = 0 .*/ = 0/' | diff "$T/plain" -
    done
}

@test "every call has the same result with the library" {
    local send failed=0
    # Some of the calls have invalid pointers. The kernel returns EFAULT for them, but musl reads them itself.
    [[ $NS_LIBC != musl ]] || skip "the probe without the library ends in a crash inside musl"
    timeout 60 "$PROBES/transparency" main >"$T/plain"
    for send in nodelay auto-cork; do
        NAGLESHIM_POLICY=$(policy_of "$send" before-wait) NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE=$T/log LD_PRELOAD=$LIBRARY \
            timeout 60 "$PROBES/transparency" main >"$T/shimmed"
        grep -q ' sockets [1-9]' "$T/log"
        diff "$T/plain" "$T/shimmed" || failed=1
    done
    [[ $(wc -l <"$T/plain") -gt 200 && $failed -eq 0 ]]
}

# Bytes that wait for a delayed ACK are 40 ms late. Nothing says here how long the programs have waited for a processor.
@test "all bytes arrive in time in every life-cycle scenario" {
    local scenario run=0 LIFE_LIMIT=30
    while read -r scenario; do
        keeps "$scenario"
        run=$((run + 1))
    done < <(awk '$1 == "survives" && $2 ~ /^[a-z]/ { print $2 } /^END/ { rows = 0 } rows { print $1 } $1 == "survive" { rows = 1 }' \
        tests/promises/life-cycle.bats)
    [[ $run -ge 15 ]]
}
