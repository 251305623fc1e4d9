# SPDX-License-Identifier: MIT
# Runs a row of seen.table: two unmodified programs under `nagleshim diagnose`, and the policy that it proposes.

# Network namespaces in which only the ACKs of these programs are counted.
seen_setup_file() {
    local view holder
    [[ $NS_ISOLATED == 1 ]] || return 0
    for view in inside outside; do
        unshare --net sleep infinity 3>&- &
        holder=$!
        echo "$holder" >"$BATS_FILE_TMPDIR/$view"
        until [[ $(readlink "/proc/$holder/ns/net") != "$(readlink /proc/self/ns/net)" ]]; do
            sleep 0.01
        done
        nsenter --net="/proc/$holder/ns/net" sh -c \
            'ip link set lo mtu 1500 up; echo 0 >/proc/sys/net/ipv4/tcp_autocorking'
    done
}

seen_teardown_file() {
    local view
    [[ $NS_ISOLATED == 0 ]] || for view in inside outside; do
        kill "$(<"$BATS_FILE_TMPDIR/$view")"
    done
}

# seen_row CASE: reads its lines of seen.table, or of $SEEN_TABLE, into the associative array "row".
seen_row() {
    local key value
    row=([rounds]=24 [ends]=1)
    awk -f tests/helpers/twice.awk "${SEEN_TABLE:-tests/scenarios/seen.table}" || return
    while read -r key value; do
        row[$key]=$value
    done < <(awk -v name="$1" '/^#/ { next } $2 == "|" { found = $1 == name; next } found && NF' \
        "${SEEN_TABLE:-tests/scenarios/seen.table}")
    row[server]=${row[run]% <> *} row[client]=${row[run]#* <> }
    [[ -n ${row[says]-} ]]
}

# The programs of $row, in the arrays "server" and "client".
seen_programs() {
    local rounds=${row[rounds]} warm=6 turns=tests/probes/turns.py
    local java=(java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -cp "$BATS_TEST_TMPDIR/java"
        WriteWriteRead)
    scripts=tests/systems/victims
    case ${row[server]} in
    redhat) server=("$EXAMPLES/tcp_nodelay_server" "$port" 0) ;;
    redhat-static) server=("$BATS_TEST_TMPDIR/server" "$port" 0) ;;
    queue) server=("$EXAMPLES/queue_server" "$port") ;;
    sendfile) server=("$EXAMPLES/sendfile_server" "$port") ;;
    quote) server=("$EXAMPLES/quote_server" --winsock-ack "$port") ;;
    record) server=("$EXAMPLES/record_receiver" --winsock-ack --warmup "$warm" "$port") ;;
    java) server=("${java[@]}" server "$port" 0) ;;
    http.server) server=("$python" -u -m http.server "$port" -p HTTP/1.1 -b 127.0.0.1 -d "$site") ;;
    memcached) server=(memcached -p "$port" -U 0 -l 127.0.0.1 -u "$(id -un)") ;;
    mosquitto) server=(mosquitto -p "$port") ;;
    redis) server=(redis-server --port "$port" --save '' --bind 127.0.0.1) ;;
    *) read -ra server <<<"$python -S $turns server $port $rounds ${row[ends]} ${row[server]}" ;;
    esac
    case ${row[client]} in
    redhat-static) client=("$BATS_TEST_TMPDIR/client" --stats --warmup "$warm" "$host" "$port" "$rounds") ;;
    redhat) client=("$EXAMPLES/tcp_nodelay_client" --stats --warmup "$warm" "$host" "$port" "$rounds") ;;
    redhat-*) client=("$EXAMPLES/tcp_nodelay_client" "$host" "$port" "$rounds" "${row[client]#*-}") ;;
    queue) client=("$EXAMPLES/queue_put" --warmup "$warm" "$host" "$port" "$rounds") ;;
    sendfile) client=("$EXAMPLES/sendfile_client" --warmup "$warm" "$host" "$port" "$rounds") ;;
    quote) client=("$EXAMPLES/quote_client" --winsock-ack --warmup "$warm" "$host" "$port" "$rounds") ;;
    record)
        client=("$EXAMPLES/record_sender" --sndbuf 0 --winsock-send --warmup "$warm" "$host" "$port"
            $((warm + rounds)))
        ;;
    java) client=("${java[@]}" --warmup "$warm" client "$host" "$port" "$rounds") ;;
    http.server) client=("$python" "$scripts/http_get.py" "$port" "$rounds") ;;
    memcached) client=("$python" "$scripts/memcached_client.py" "$port" "$rounds") ;;
    mosquitto) client=("$python" "$scripts/mqtt_echo.py" "$port" "$rounds" 2) ;;
    redis) client=(redis-benchmark -q -p "$port" -n "$rounds" -c 20 -t 'set,get') ;;
    *) read -ra client <<<"$python -S $turns client $host $port $rounds ${row[ends]} ${row[client]}" ;;
    esac
}

seen_needs() {
    local end
    for end in server client; do
        [[ ${row[$end]} != redhat-static ]] ||
            gcc -O2 -static -o "$BATS_TEST_TMPDIR/$end" "examples/tcp_nodelay_$end.c" -pthread 2>/dev/null
    done
    case ${row[server]} in
    java)
        command -v javac >/dev/null || ns_skip 'no javac'
        nice -n 20 javac -d "$BATS_TEST_TMPDIR/java" examples/WriteWriteRead.java
        ;;
    memcached | mosquitto) command -v "${row[server]}" >/dev/null || ns_skip "no ${row[server]}" ;;
    redis) command -v redis-benchmark >/dev/null || ns_skip 'no redis' ;;
    esac
    case ${row[server]} in
    memcached) ns_python pymemcache ;;
    mosquitto) ns_python paho.mqtt.client ;;
    *) ns_python ;;
    esac
}

# Delayed ACKs sent so far, at both ends.
seen_delayed() {
    awk '/^TcpExt:/ { if (!names[FILENAME]) { names[FILENAME] = n = split($0, name) }
            else { split($0, value); for (i = 1; i <= n; i++) if (name[i] == "DelayedACKs") sum += value[i] } }
        END { print sum }' "${counters[@]}"
}

# seen_end_server NAME: stops a server that does not end with its client. Its exit status is in $T/NAME.server.
seen_end_server() {
    local status=0
    # It may end meanwhile.
    timeout 0.3 tail --pid="${NS_PID[server]}" -s 0.01 -f /dev/null || kill "${NS_PID[server]}" 2>/dev/null || true
    ns_join server || status=$?
    echo "$status" >"$T/$1.server"
}

# seen_run VIEW NAME: runs the pair in the namespace of the view, with the words before_server and before_client in
# front. In $T/VIEW are the client's output and exit status, NAME-client.out and NAME.status, and the number of delayed
# ACKs, NAME.delayed.
seen_run() {
    local view=$1 name=$2 holder host=127.0.0.1 near far server client before status=0
    holder=$(<"$BATS_FILE_TMPDIR/$view")
    near=(nsenter --net="/proc/$holder/ns/net")
    far=("${near[@]}")
    counters=("/proc/$holder/net/netstat")
    if [[ -n ${row[wire]-} ]]; then
        # shellcheck disable=SC2086 # one number or two
        ns_start line "${near[@]}" "$python" tests/probes/bench/delay_line.py ${row[wire]}
        ns_wait_for_tun line '^near '
        far=(nsenter --net="/proc/${NS_PID[line]}/ns/net")
        counters+=("/proc/${NS_PID[line]}/net/netstat")
        host=10.99.0.2
    fi
    seen_programs
    ns_start server "${far[@]}" "${before_server[@]}" "${server[@]}"
    wait_for_listener server "$port" "${far[@]}" || return
    before=$(seen_delayed)
    timeout 60 "${timed[@]}" "${near[@]}" "${before_client[@]}" "${client[@]}" \
        >"$T/$name-client.out" 2>"$T/$name-client.err" </dev/null 3>&- || status=$?
    echo "$(($(seen_delayed) - before))" >"$T/$name.delayed"
    echo "$status" >"$T/$name.status"
    seen_end_server "$name"
    [[ -z ${row[wire]-} ]] || ns_stop line
}

# seen_watch VIEW: runs the pair with a diagnose for each end.
seen_watch() {
    local view=$1 words=() apart=() before_server before_client
    T+=/$view
    mkdir -p "$T"
    [[ $view == inside ]] || words=(--outside)
    [[ " ${row[flags]-} " != *' apart '* ]] || apart=(unshare --pid --fork --kill-child --mount-proc)
    before_server=("${apart[@]}" "$NS" diagnose "${words[@]}" --json="$T/server.json" --)
    before_client=("${apart[@]}" "$NS" diagnose "${words[@]}" --fail-on likely --json="$T/client.json" --)
    trap ns_teardown EXIT
    seen_run "$view" watched
}

# seen_cure: runs the pair with the library and the proposed policy.
seen_cure() {
    local before_server before_client cure
    T+=/inside
    cure=$(<"$T/cure.json")
    before_server=(env NAGLESHIM_POLICY="$cure" LD_PRELOAD="$LIBRARY")
    before_client=("${before_server[@]}")
    trap ns_teardown EXIT
    seen_run inside cured
}

# seen_control: runs the pair without an observer, before the views, which are then not disturbed.
seen_control() {
    local before_server=() before_client=()
    T+=/control
    mkdir -p "$T"
    trap ns_teardown EXIT
    seen_run inside control
}

# seen_missed COMMAND...: a view that has missed a stall was late: it took no sample at that time. A program that failed, or a
# wrong claim, is an error.
seen_missed() {
    local status=0
    "$@" || status=$?
    [[ $status -eq 3 ]] || return "$status"
    is_late "20" "a view has missed a stall"
}

# seen_once: runs the pair once, with both views.
seen_once() {
    local view views=() status=0
    port=$((port + 1))
    rm -rf "$T/inside" "$T/outside"
    for view in inside outside; do
        (seen_watch "$view") 3>&- &
        views+=("$!")
    done
    for view in "${views[@]}"; do
        wait "$view" || status=$?
    done
    [[ $status -eq 0 ]] || wrong "it failed:" "$T"/*/*.err || return
    seen_missed "$python" -S tests/helpers/seen.py "$T" "${row[says]}" "${row[besides]-}" "${row[flags]-}" || return
    [[ -z $late && -e $T/inside/cure.json && " ${row[flags]-} " != *' uncured '* ]] || return 0
    (seen_cure) 3>&- || return 1
    seen_missed "$python" -S tests/helpers/seen.py "$T" cured "${row[flags]-}"
}

# seen CASE. A row that must stall has its control.
seen() {
    local inside other site port=$((20000 + BATS_TEST_NUMBER * 10)) counters
    local -A row=()
    NS=$(realpath build)/nagleshim
    seen_row "$1"
    seen_needs
    make_site
    read -r _ inside _ other <<<"${row[says]}"
    if [[ $inside == proven || $other == likely ]]; then
        (seen_control) 3>&- || return 1
        "$python" -S tests/helpers/seen.py "$T" control "${row[rounds]}" || return
    fi
    in_time seen_once
}
