# SPDX-License-Identifier: MIT
# Functions for the tests of top: clients to watch, other users, and a terminal.

setup() {
    ns_setup
    ns_prompt
    unshare -n true 2>/dev/null || ns_skip "no network namespace"
    AS=() PRELOAD=''
    NET=(unshare -n)
}

teardown() {
    tmux -S "$T/tmux" kill-server 2>/dev/null || true
    ns_teardown
}

# posts NAME OPTIONS...: starts a client that posts to a server for some seconds, in their own network namespace. $pid is
# the client. If it does not stall, it pauses before each request, to leave the processors to others.
posts() {
    local name=$1
    shift
    [[ $#$PRELOAD == 0 ]] || set -- "$@" --pause 500
    cat >"$T/$name.sh" <<'END'
ip link set lo up
"$1/queue_server" --connections 1 0 >"$2.port" &
until grep -q port "$2.port"; do sleep 0.01; done
port=$(sed -nE '1s/.*port ([0-9]+).*/\1/p' "$2.port")
shift 2
exec ${PRELOAD:+env LD_PRELOAD="$PRELOAD"} "$@" --warmup 20 127.0.0.1 "$port" 100000000
END
    ns_start "$name" "${AS[@]}" "${NET[@]}" bash "$T/$name.sh" "$EXAMPLES" "$T/$name" "${CLIENT:-$EXAMPLES/queue_put}" "$@"
    pid=${NS_PID[$name]}
    # The warm-up is over, and the process is the client.
    timeout 10 bash -c "until [[ \$(cat /proc/$pid/comm) == queue_put* ]]; do sleep 0.01; done"
    sleep 1
}

# Lets top run as another user, with copies of its files that this user may read.
two_users() {
    [[ $EUID -eq 0 ]] || ns_skip "only root can be two users"
    cp "$EXAMPLES/queue_server" "$EXAMPLES/queue_put" "$NS" "$T"
    EXAMPLES=$T NS=$T/nagleshim
    chmod 777 "$T"
    let_others_in "$T"
    AS=("${as_other[@]}")
}

screen() { tmux -S "$T/tmux" -f /dev/null "$@"; }

# shows "TEXT": waits until the screen has it.
shows() {
    local i
    for ((i = 0; i < 100; i++)); do
        [[ $(screen capture-pane -p) != *"$1"* ]] || return 0
        sleep 0.05
    done
    screen capture-pane -p
    return 1
}

watched_once() {
    run --separate-stderr "${timed[@]}" "${AS[@]}" "$NS" top --once --interval 2 --pid "$pid"
    [[ $status -eq 0 && -z $stderr ]] || return
    rate='' lost='' share='' role='' shim=''
    read -r rate lost share role shim < <(awk -v pid="$pid" '$4 == pid { print $7, $1, $2, $5, $6 }' <<<"$output") || true
    if [[ $lost == '?' ]]; then
        is_late "2 * $rate / 80" "$output"
    elif [[ -n ${1-} ]] && holds "$lost < $1 * $rate"; then
        is_late "2 * ($1 * $rate - $lost)" "$output"
    fi
}

# watched [MS]: reads the row of process $pid: sets lost to the ms lost per second, and rate to the holds per second. On a busy
# machine, top may not be able to tell (doubt_is_late in helpers/command.bash has the reason and the numbers), or not for all of
# the MS that each hold costs at least.
watched() {
    in_time watched_once "$@"
}
