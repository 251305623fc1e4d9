# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # what helpers/common.bash and the tests set
# Runs two programs that exchange requests and answers over one connection, each with or without the library.

# Runs both programs once, and reads the client's counts.
run_once() {
    local rounds=$1 before port
    rm -f "$T"/*.{out,err,log}
    before=$(ns_delayed_acks)
    ns_start server env "${on_server[@]}" NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/server.log" \
        "$PROBES/${server_program:-stdio_rounds}" "${server[@]}" 0
    ns_port server
    timeout 20 env "${on_client[@]}" NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/client.log" \
        "$PROBES/${client_program:-stdio_rounds}" client "${client[@]}" --warmup "$warmup" 127.0.0.1 "$port" "$rounds" \
        >"$T/client.out" 2>"$T/client.err" 3>&- || {
        cat "$T/client.err"
        return 1
    }
    ns_join server
    delayed=$(($(ns_delayed_acks) - before))
    stalls=$(field stalls "$T/client.out")
    median=$(field median_us "$T/client.out")
}

# The library has treated the sockets of the end that preloads it, and is not in the other end.
check_library() {
    local end wanted
    for end in server client; do
        wanted="on_${end}[@]"
        if [[ "${!wanted-}" == *PRELOAD* ]]; then
            grep -qE '\b(sockets|TCP_NODELAY set) [1-9]' "$T/$end.log"
        else
            [[ ! -e $T/$end.log ]]
        fi || {
            echo "the $end: the library is not where it should be, or treated no socket"
            return 1
        }
    done
}

# rounds_are VERDICT: runs the programs of the arrays server, client, on_server and on_client.
rounds_are() {
    local verdict=$1 attempt rounds=100 warmup=20 stalls median delayed
    if [[ $verdict != flows ]]; then
        rounds=20
        warmup=4
    fi
    if [[ $verdict == late ]] && ! kernel_bounds_delayed_acks; then
        verdict=stalls
    fi
    for attempt in 1 2 3 4 5; do
        run_once "$rounds"
        check_library
        case $verdict in
        flows) [[ $stalls -ne 0 ]] || holds "$median >= 5000" || return 0 ;;
        late) [[ $stalls -gt 1 ]] || holds "$median < 5000 || $median > 20000" || return 0 ;;
        stalls)
            if holds "$stalls >= 0.8 * $rounds" &&
                [[ $NS_ISOLATED == 0 || $delayed -ge $rounds ]]; then
                return 0
            fi
            ;;
        esac
        echo "attempt $attempt: $stalls of $rounds stall, median $median us, $delayed delayed ACKs"
    done
    echo "expected: $verdict"
    return 1
}

auto_cork() {
    printf 'NAGLESHIM_POLICY={"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": %d}]}' "$1"
}

# shim_on END VERDICT [POLICY]: only this end (client, server or none) has the library.
shim_on() {
    local preload=LD_PRELOAD
    # The server itself, and not the program that makes its connection, gets the library.
    [[ $1 == client || ${server[0]} == server ]] || preload=INETD_PRELOAD
    on_server=() on_client=()
    case $1 in
    server) on_server=("$preload=$LIBRARY" "${@:3}") ;;
    client) on_client=("$preload=$LIBRARY" "${@:3}") ;;
    esac
    rounds_are "$2"
}

