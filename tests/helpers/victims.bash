# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # $port, $python, $T, $EXAMPLES: helpers/common.bash
# Programs that nobody here wrote: a server and a client, the shim in none, one or both, and no policy.

victims_setup_file() {
    mkdir "$BATS_FILE_TMPDIR/java"
    javac -d "$BATS_FILE_TMPDIR/java" tests/victims/HttpPage.java || true
}

# Sets server and client of a pair. PORT is put in by start_server.
pair() {
    local scripts=$BATS_TEST_DIRNAME/victims
    case $1 in
    http.server)
        ns_python
        mkdir -p "$T/site"
        head -c 400 /dev/zero | tr '\0' x >"$T/site/page.html"
        server=("$python" -u -m http.server 0 -p HTTP/1.1 -b 127.0.0.1 -d "$T/site")
        client=("$python" "$scripts/http_get.py" PORT)
        ;;
    memcached)
        command -v memcached >/dev/null || ns_skip "no memcached"
        ns_python pymemcache
        server=(env MEMCACHED_PORT_FILENAME="$T/port" memcached -p -1 -l 127.0.0.1 -u "$(id -un)")
        client=("$python" "$scripts/memcached_client.py" PORT)
        ;;
    HTTP::Tiny)
        server=("$EXAMPLES/queue_server" --connections 0 0)
        client=(perl "$scripts/http_post.pl" PORT)
        ;;
    com.sun.net.httpserver)
        command -v javac >/dev/null || ns_skip "no javac"
        ns_python
        server=(java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -cp "$BATS_FILE_TMPDIR/java"
            HttpPage)
        client=("$python" "$scripts/http_get.py" PORT)
        ;;
    mosquitto-*)
        type -P mosquitto /usr/sbin/mosquitto >/dev/null || ns_skip "no mosquitto"
        ns_python paho.mqtt.client
        server=("$(PATH=$PATH:/usr/sbin type -P mosquitto)" -c "$T/mosquitto.conf")
        client=("$python" "$scripts/mqtt_echo.py" PORT)
        qos=${1#mosquitto-}
        ;;
    esac
}

# It cannot choose a port by itself: one that was free a moment ago.
mosquitto_config() {
    port=$("$python" -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
    printf '%s\n' "listener $port 127.0.0.1" 'allow_anonymous true' "user $(id -un)" >"$T/mosquitto.conf"
}

# start_server NAME: sets port.
start_server() {
    rm -f "$T/port"
    [[ $1 != mosquitto-* ]] || mosquitto_config
    ns_start server "${on_server[@]}" "${server[@]}"
    case $1 in
    memcached)
        ns_wait_for "$T/port" '^TCP INET: [0-9]+$'
        port=$(sed -nE 's/^TCP INET: //p' "$T/port")
        ;;
    mosquitto-*) ns_wait_for "$T/server.err" 'mosquitto version .* running' ;;
    *) ns_port server ;;
    esac
}

# The library is in the memory of the server, and treated the client's socket, or neither.
check_shim() {
    local in_server=0
    mapped server || in_server=$?
    [[ $in_server -eq $((${#on_server[@]} == 0)) ]] || {
        echo "LD_PRELOAD of the server: ${on_server[*]:-none}, and it is not so in its memory"
        return 1
    }
    if [[ ${#on_client[@]} -gt 0 ]]; then
        grep -qE '\bsockets [1-9]' "$T/client.log"
    else
        [[ ! -e $T/client.log ]]
    fi || {
        echo "LD_PRELOAD of the client: ${on_client[*]:-none}, and its log does not say so"
        cat "$T/client.log" "$T/client.err"
        return 1
    }
}

# victim NAME WHERE VERDICT: WHERE is nowhere, server, client or both; VERDICT stalls or flows.
victim() {
    local name=$1 where=$2 verdict=$3
    local server client on_server=() on_client=() operations=100 attempt qos='' before delayed stalls median

    pair "$name"
    [[ $where != server && $where != both ]] || on_server=(env LD_PRELOAD="$LIBRARY")
    [[ $where != client && $where != both ]] || on_client=(LD_PRELOAD="$LIBRARY")
    [[ $verdict == flows ]] || operations=20
    for attempt in 1 2 3 4 5; do
        before=$(ns_delayed_acks)
        start_server "$name"
        timeout 60 env "${on_client[@]}" NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/client.log" \
            "${client[@]/#PORT/$port}" "$operations" ${qos:+"$qos"} \
            >"$T/client.out" 2>"$T/client.err" 3>&- || {
            cat "$T"/*.err
            return 1
        }
        check_shim
        ns_stop server
        delayed=$(($(ns_delayed_acks) - before))
        stalls=$(field stalls "$T/client.out")
        median=$(field median_us "$T/client.out")
        if [[ $verdict == flows ]]; then
            [[ $stalls -ne 0 ]] || holds "$median >= 5000" || return 0
        elif holds "$stalls >= 0.8 * $operations" && [[ $NS_ISOLATED == 0 || $delayed -ge $operations ]]; then
            return 0
        fi
        echo "attempt $attempt: $stalls of $operations stall, median $median us, $delayed delayed ACKs"
    done
    echo "expected: $verdict"
    return 1
}
