# SPDX-License-Identifier: MIT
# Promise: Bytes arrive complete, in order and in time through every close, fork, exec, signal, reset and hand-over.
# Parts: 2
# The scenarios change descriptors, connections, threads and processes while bytes are held.

load ../helpers/common

CORK='{"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": 100000}]}'

# The policies that each scenario runs with.
runs=(default cork)

# Runs a scenario under all policies in parallel, because the runs mostly wait. $3 is the number of milliseconds from
# which bytes count as late.
all_runs() {
    # shellcheck disable=SC2206 # NS_UNDER: the words of a command that runs them, as valgrind does
    local under=(${NS_UNDER-}) run status with
    export LIFE_LIMIT_MS=$3
    for run in "${runs[@]}"; do
        with=(LD_PRELOAD="$LIBRARY")
        [[ $run == default ]] || with+=(NAGLESHIM_POLICY="$CORK" LIFE_HOLDS=kernel)
        ns_start "$run" env "${with[@]}" "${under[@]}" "$PROBES/life_$1" "$2"
    done
    late=0
    for run in "${runs[@]}"; do
        status=0
        ns_join "$run" "${LIFE_SECONDS:-25}" || status=$?
        # A child's results count, too.
        ((status == 0)) && grep -q '^held ' "$T/$run.out" ||
            wrong "$2, $run: exit status $status" "$T/$run.out" "$T/$run.err" || return
        late=$((late + $(field late "$T/$run.out")))
    done
}

# survives PROGRAM SCENARIO [may hold nothing]: nothing is wrong, and nothing late. A late run is repeated with a limit of
# 30 ms. Bytes that wait for a delayed ACK are 40 ms late, and bytes that the kernel had to send 200 ms.
survives() {
    local limit
    for limit in ${LIFE_LIMITS:-20 30 30 30}; do
        all_runs "$1" "$2" "$limit" || return 1
        ((late > 0)) || break
    done
    ((late == 0)) || wrong "bytes were late:" "$T"/*.out || return
    # The other half of the test: bytes were held.
    [[ -n ${3-} || -n ${NS_UNDER-} ]] || holds "$(field held "$T/cork.out") > 0" || wrong 'nothing was held' "$T/cork.out"
}

# survive PROGRAM: runs the scenarios of standard input. A row has the scenario's name; "-", or the reason why no bytes need
# be held (another process writes, or there may be no MPTCP); and what it shows.
survive() {
    local scenario nothing shows
    while read -r scenario nothing shows; do
        echo "$shows"
        survives "$1" "$scenario" "${nothing#-}"
    done
}

@test "descriptors that are reused, replaced or handed on carry their own bytes, whole, in order and in time" {
    survive fds <<'END'
becomes-udp        - datagrams are not joined if a UDP socket takes a connection's descriptor number by raw system calls
becomes-others     - a pipe, nothing, or another connection may take a connection's descriptor number by raw system calls
rights-listener    - a connection accepted from a listener that arrived in a message is served in time
END
}

@test "forks, execs, exits and daemons neither lose nor delay bytes" {
    survive processes <<'END'
fork               - held bytes leave before fork, and parent and child can both write afterwards
exit               - held bytes leave before exit, _exit, _Exit and quick_exit if another process shares the connection
vfork              - a child of vfork that changes its descriptors does not change its parent's connections
daemon             - held bytes leave in time before and after daemon()
daemon-waits       - bytes held at daemon() leave in time even if the daemon only computes
prefork            - a connection that a forked child accepts is served in time
inetd-silent       elsewhere a server that gets its connection from inetd has its rule although it makes no intercepted call
END
}

@test "closes, resets and MPTCP neither lose nor delay bytes" {
    survive tcp <<'END'
close-unread       - bytes sent before close arrive although unread data turns the close into a reset
mptcp              perhaps MPTCP connections carry all bytes in order and in time
END
}

@test "kTLS carries its bytes in order" {
    survive kernel <<'END'
kernel-tls         - kTLS starts after the held bytes, and its records are not held
END
}

@test "datagrams are not joined if syscall() does the same in the middle of a burst" {
    survives fds becomes-udp-in-burst
}

@test "a server that gets its listener or its connection from a service manager or from inetd serves in time" {
    survive processes <<'END'
service-manager         elsewhere a listener on 3
service-manager-accepts elsewhere a connection on 3
inetd                   elsewhere a connection on 0 and 1
END
}

@test "siglongjmp out of a handler works from inside the library and from inside a wait" {
    survives threads jumps
}

@test "a signal handler that writes to a log and to a connection, and waits, may interrupt any call" {
    survives threads handlers-write
}

@test "TCP_FASTOPEN and TCP_FASTOPEN_CONNECT send their bytes with the SYN, and the rest follows in order" {
    # Servers accept data with a SYN only if this is enabled.
    if [[ $NS_ISOLATED == 1 ]]; then
        echo 3 >/proc/sys/net/ipv4/tcp_fastopen
        before=$(tcp_counter TCPFastOpenPassive)
    fi
    survives tcp fast-open
    [[ $NS_ISOLATED == 0 || $(tcp_counter TCPFastOpenPassive) -gt $before ]]
}

@test "the scenarios detect late bytes" {
    LD_PRELOAD=$PROBES/mistakes.so MISTAKE=hold timeout 25 "$PROBES/life_processes" fork >"$T/bad.out" || true
    cat "$T/bad.out"
    holds "$(field late "$T/bad.out") > 0"
    # Bytes that wait for a delayed ACK are late however often the run is repeated.
    cat >"$T/life_delayed" <<<$'#!/bin/sh\necho held 1 late $((LIFE_LIMIT_MS < 40)) wrong 0'
    chmod +x "$T/life_delayed"
    LIFE_LIMITS='' PROBES=$T run survives delayed ack
    [[ $status -ne 0 && $output == *'late 1 wrong 0'* ]]
}
