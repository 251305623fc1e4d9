# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Whether a thread of the shim's runs in a program. One that it started stays long after what it is for, so
# that looking every few milliseconds finds it in whatever runs for longer.

# look_at PID...: puts the names of all threads of these processes and of those that they started in the
# associative array "threads"; a process may end meanwhile.
look_at() {
    local pid task name children
    for pid in "$@"; do
        for task in "/proc/$pid/task"/*; do
            name=
            { read -r name <"$task/comm"; } 2>/dev/null || continue
            threads+=(["$name"]=1)
            children=()
            { read -ra children <"$task/children"; } 2>/dev/null || true
            [[ ${#children[@]} -eq 0 ]] || look_at "${children[@]}"
        done
    done
}

# look_until_ended NAME PID...: at NAME, which ns_start started, and the others, until NAME has ended; its exit
# status.
look_until_ended() {
    local pid=${NS_PID[$1]} end=$((SECONDS + 60))
    shift
    while kill -0 "$pid" 2>/dev/null && ((SECONDS < end)); do
        look_at "$pid" "$@"
        sleep 0.002
    done
    look_at "$@"
    wait "$pid"
}

# Fails if look_at has found a thread of the shim's, or nothing at all.
no_thread_of_ours() {
    [[ ${#threads[@]} -gt 0 && -z ${threads[nagleshim]-} ]] || {
        echo "threads: ${!threads[*]}"
        return 1
    }
}
