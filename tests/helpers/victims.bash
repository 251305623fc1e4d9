# SPDX-License-Identifier: MIT
# Runs pairs of programs from tests/systems/victims.table or tests/museum/museum.table with the library in none, one or both
# ends or in a proxy between them, and without a policy.

# pair NAME: reads its row of the table into the associative array "row".
pair() {
    local key value found=
    row=()
    awk -f tests/helpers/twice.awk "${table:-tests/systems/victims.table}" || return
    while read -r key value; do
        if [[ -z $value ]]; then
            [[ -z $found ]] || break
            [[ $key != "$1" ]] || found=1
        elif [[ -n $found ]]; then
            row[$key]=$value
        fi
    done < <(grep -vE '^(#|$)' "${table:-tests/systems/victims.table}")
    [[ -n ${row[client]-} ]]
}

# Makes a directory with a page of 400 bytes, and sets site to it.
make_site() {
    site=$T/site
    mkdir -p "$site"
    head -c 400 /dev/zero | tr '\0' x >"$site/page.html"
}

# Checks that the programs of $row are installed; sets the variables that its commands use.
need() {
    local word modules=()
    scripts=tests/systems/victims
    make_site
    for word in ${row[needs]-}; do
        case $word in
        python:*) modules+=("${word#*:}") ;;
        perl:*) perl -M"${word#*:}" -e 1 2>/dev/null || ns_skip "no ${word#*:}" ;;
        *) command -v "$word" >/dev/null || ns_skip "no $word" ;;
        esac
    done
    ns_python "${modules[@]}"
}

# wait_for_listener NAME PORT [WORD]...: waits until a program that ns_start has started listens there. The words start a command
# in its network namespace.
wait_for_listener() {
    local end=$((SECONDS + 20)) line
    printf -v line ': [0-9A-F]+:%04X [0-9A-F]+:0000 0A ' "$2"
    until "${@:3}" grep -qE "$line" /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
        if ! kill -0 "${NS_PID[$1]}" 2>/dev/null || ((SECONDS > end)); then
            wrong "$1 does not listen on port $2" "$T/$1.out" "$T/$1.err" || return
        fi
        sleep 0.01
    done
}

# command_of KEY: sets the array "command" to that command, with its ports and the number of operations.
command_of() {
    local text=${row[$1]}
    text=${text//FRONT/$front}
    text=${text//PORT/$port}
    text=${text//OPERATIONS/$operations}
    eval "command=($text)"
}

# Starts the server, and the proxy if the row has one. Sets port, to which the client connects.
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

# The library must be in exactly the processes that preload it, and must have treated the client's socket.
check_shim() {
    local end in_it expected
    for end in "${servers[@]}"; do
        local -n on="on_$end"
        in_it=0
        expected=$((${#on[@]} == 0))
        mapped "$end" || in_it=$?
        [[ $in_it -eq $expected ]] ||
            wrong "LD_PRELOAD of the $end: ${on[*]:-none}, and it is not so in its memory" || return
    done
    if [[ ${#on_client[@]} -gt 0 ]]; then
        grep -qE '\bsockets [1-9]' "$T/client.log"
    else
        [[ ! -e $T/client.log ]]
    fi ||
        wrong "LD_PRELOAD of the client: ${on_client[*]:-none}, and its log does not say so" "$T/client.log" "$T/client.err"
}

# run_pair: runs them once, with the library where on_server, on_proxy and on_client put it.
run_pair() {
    local command end front=''
    rm -f "$T/client.log"
    start_servers
    command_of client
    ns_start client env "${on_client[@]}" NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE="$T/client.log" "${command[@]}"
    ns_join client 60 || wrong "it failed:" "$T"/*.err || return
    check_shim
    for end in "${servers[@]}"; do
        ns_stop "$end"
    done
}

# victim NAME VERDICT: without the library the operations of this row stall, or not ("flows"). With it on the server, on the
# client and on both, or on the proxy, they do not.
victim() {
    local where places=(server client both) servers scripts site on_server on_proxy on_client
    local -A row=()
    pair "$1"
    need
    servers=(server ${row[proxy]:+proxy})
    [[ -z ${row[proxy]-} ]] || places=(proxy)
    victim_way nowhere "$2"
    for where in "${places[@]}"; do
        victim_way "$where" flows
    done
}

# victim_once VERDICT: runs the row once.
victim_once() {
    local before
    before=$(ns_delayed_acks)
    run_pair
    delayed=$(($(ns_delayed_acks) - before))
    stalls=$(field stalls "$T/client.out")
    median=$(field median_us "$T/client.out")
    if [[ $1 == flows ]]; then
        holds "$stalls <= 0.02 * $operations && $median < 5000"
    else
        holds "$stalls >= 0.6 * $operations" && { [[ $NS_ISOLATED == 0 ]] || holds "$delayed >= 0.9 * $stalls"; }
    fi || not_as_expected "$1" "$operations"
}

# victim_way WHERE VERDICT: runs the row with the library there.
victim_way() {
    local operations=100 delayed stalls median
    echo "the library $1:"
    on_server=() on_proxy=() on_client=()
    [[ $1 != server && $1 != both ]] || on_server=(env LD_PRELOAD="$LIBRARY")
    [[ $1 != proxy ]] || on_proxy=(env LD_PRELOAD="$LIBRARY")
    [[ $1 != client && $1 != both ]] || on_client=(LD_PRELOAD="$LIBRARY")
    [[ $2 == flows ]] || operations=20
    in_time victim_once "$2"
}
