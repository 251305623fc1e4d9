# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # $port, $python, $T: helpers/common.bash; others are named in victims.table
# Programs that nobody here wrote, as tests/systems/victims.table lists them: the shim in none, one or both ends or in
# a proxy between them, and no policy.

# pair NAME: what the table says about it, in the associative array "row".
pair() {
    local key value found=
    row=()
    while read -r key value; do
        if [[ -z $value ]]; then
            [[ -z $found ]] || break
            [[ $key != "$1" ]] || found=1
        elif [[ -n $found ]]; then
            row[$key]=$value
        fi
    done < <(grep -vE '^(#|$)' tests/systems/victims.table)
    [[ -n ${row[client]-} ]]
}

# compiled CLASS: once for all tests of a file.
compiled() {
    [[ -e $BATS_FILE_TMPDIR/java/$1.class ]] ||
        javac -sourcepath tests/systems/victims -cp "$classes" -d "$BATS_FILE_TMPDIR/java" "tests/systems/victims/$1.java"
}

# Whatever the pair of $row needs; sets what its commands are written with.
need() {
    local word jar modules=()
    built=$(realpath build)/victims
    scripts=tests/systems/victims
    site=$T/site
    classes=$BATS_FILE_TMPDIR/java
    mkdir -p "$classes" "$site"
    head -c 400 /dev/zero | tr '\0' x >"$site/page.html"
    for jar in ${row[jars]-}; do
        [[ -e /usr/share/java/$jar.jar ]] || ns_skip "no $jar.jar"
        classes+=:/usr/share/java/$jar.jar
    done
    java="java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -cp $classes"
    for word in ${row[needs]}; do
        case $word in
        heavy | python) ;;
        python:*) modules+=("${word#*:}") ;;
        perl:*) perl -M"${word#*:}" -e 1 2>/dev/null || ns_skip "no ${word#*:}" ;;
        java:*)
            command -v javac >/dev/null || ns_skip 'no javac'
            compiled "${word#*:}"
            ;;
        built:*) [[ -x $built/${word#*:} ]] || ns_skip "${word#*:} was not built" ;;
        *) command -v "$word" >/dev/null || ns_skip "no $word" ;;
        esac
    done
    ns_python "${modules[@]}"
}

# free_port: one that was free a moment ago, for a program that cannot choose one by itself.
free_port() {
    "$python" -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

# wait_for_listener NAME PORT: until a program that ns_start started listens there.
wait_for_listener() {
    local end=$((SECONDS + 20)) line
    printf -v line ': [0-9A-F]+:%04X [0-9A-F]+:0000 0A ' "$2"
    until grep -qE "$line" /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
        if ! kill -0 "${NS_PID[$1]}" 2>/dev/null || ((SECONDS > end)); then
            echo "$1 does not listen on port $2"
            cat "$T/$1.out" "$T/$1.err"
            return 1
        fi
        sleep 0.01
    done
}

# command_of KEY: that command of the pair, with its ports and the number of operations, in the array "command".
command_of() {
    local text=${row[$1]}
    text=${text//FRONT/$front}
    text=${text//PORT/$port}
    text=${text//OPERATIONS/$operations}
    eval "command=($text)"
}

# Starts the server, and the proxy if there is one. Sets port, to which the client is to connect.
start_servers() {
    local command
    front=''
    port=''
    if [[ ${row[server]} == *PORT* ]]; then
        port=$(free_port)
    fi
    command_of server
    ns_start server "${on_server[@]}" "${command[@]}"
    if [[ -n $port ]]; then
        wait_for_listener server "$port"
    else
        ns_port server
    fi
    if [[ -n ${row[proxy]-} ]]; then
        front=$(free_port)
        command_of proxy
        ns_start proxy "${on_proxy[@]}" "${command[@]}"
        wait_for_listener proxy "$front"
        port=$front
    fi
}

# The library is in the memory of the servers, and treated the client's socket, or neither.
check_shim() {
    local end in_it expected
    for end in "${servers[@]}"; do
        local -n on="on_$end"
        in_it=0
        expected=$((${#on[@]} == 0))
        mapped "$end" || in_it=$?
        [[ $in_it -eq $expected ]] || {
            echo "LD_PRELOAD of the $end: ${on[*]:-none}, and it is not so in its memory"
            return 1
        }
    done
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

# run_pair: once, with the shim where on_server, on_proxy and on_client have it.
run_pair() {
    local command end front='' pids=()
    rm -f "$T/client.log"
    start_servers
    command_of client
    ns_start client timeout 60 env "${on_client[@]}" NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/client.log" \
        "${command[@]}"
    for end in "${servers[@]}"; do
        pids+=("${NS_PID[$end]}")
    done
    if [[ -n $looks ]]; then
        look_until_ended client "${pids[@]}"
    else
        wait "${NS_PID[client]}"
    fi || {
        cat "$T"/*.err
        return 1
    }
    # A proxy of one connection has ended with it.
    [[ -z ${row[proxy]-} ]] || kill -0 "${NS_PID[proxy]}" 2>/dev/null || servers=(server)
    check_shim
    for end in "${servers[@]}"; do
        ns_stop "$end"
    done
}

# Sets what run_pair goes by, for a pair of the table and where the shim is.
prepare_pair() {
    local where=$2
    pair "$1"
    need
    [[ $where != server && $where != both ]] || on_server=(env LD_PRELOAD="$LIBRARY")
    [[ $where != proxy ]] || on_proxy=(env LD_PRELOAD="$LIBRARY")
    [[ $where != client && $where != both ]] || on_client=(LD_PRELOAD="$LIBRARY")
    if [[ -n ${row[mtu]-} && $NS_ISOLATED == 1 ]]; then
        ip link set lo mtu "${row[mtu]}"
    fi
}

victims_teardown() {
    [[ $NS_ISOLATED == 0 ]] || ip link set lo mtu 1500
}

# victim NAME WHERE VERDICT: WHERE is nowhere, server, client, both or proxy; VERDICT stalls or flows.
victim() {
    local verdict=$3 looks='' operations=100 attempt before delayed stalls median servers
    local built scripts site classes java on_server=() on_proxy=() on_client=()
    local -A row=()

    prepare_pair "$1" "$2"
    [[ $verdict == flows ]] || operations=20
    for attempt in 1 2 3 4 5; do
        before=$(ns_delayed_acks)
        servers=(server ${row[proxy]:+proxy})
        run_pair
        delayed=$(($(ns_delayed_acks) - before))
        stalls=$(field stalls "$T/client.out")
        median=$(field median_us "$T/client.out")
        if [[ $verdict == flows ]]; then
            [[ $stalls -ne 0 ]] || holds "$median >= 5000" || return 0
        elif holds "$stalls >= 0.8 * $operations" &&
            [[ $NS_ISOLATED == 0 || $delayed -ge $stalls ]]; then
            return 0
        fi
        echo "attempt $attempt: $stalls of $operations stall, median $median us, $delayed delayed ACKs"
    done
    echo "expected: $verdict"
    return 1
}
