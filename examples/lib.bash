# SPDX-License-Identifier: MIT
# Shared by the scripts that measure the examples: their own network namespace, and a server whose port is known. It is
# sourced, never run, and ends only processes that it started.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
programs=$root/build/examples
library=${NAGLESHIM_LIBRARY:-$root/build/libnagleshim.so}
# The built-in policy, set here so that a policy of this machine does not change the result.
policy='{"version": 1, "rules": [{"name": "every TCP socket"}]}'

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

require() {
    local what
    for what; do
        command -v "$what" >/dev/null || fail "$what is not installed: 'make deps' gets it"
    done
}

# Run the script again in a network namespace whose loopback has segments of an ordinary size. An ordinary user keeps the
# user id, because tcpdump as root would change to another user.
enter_namespace() {
    if [[ ${EXAMPLES_NAMESPACE-} != entered ]]; then
        local as=()
        (( EUID == 0 )) || as=(--map-current-user --keep-caps)
        EXAMPLES_NAMESPACE=entered exec unshare --net "${as[@]}" -- "$0" "$@"
    fi
    ip link set lo mtu 1500 up
}

# wait_for SECONDS FILE REGEX: wait until a line of FILE matches.
wait_for() {
    local end=$((SECONDS + $1))
    until grep -aqE -- "$3" "$2" 2>/dev/null; do
        (( SECONDS <= end )) || return 1
        sleep 0.02
    done
}

# Make a directory for this run, in $work. At the end it is removed, and remaining processes are killed.
make_work() {
    work=$(mktemp -d)
    started=()
    trap 'kill "${started[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
}

# start_server PROGRAM [OPTION]...: start it, and set port.
start_server() {
    : >"$work/server"
    "$programs/$1" "${@:2}" >"$work/server" &
    started+=("$!")
    wait_for 10 "$work/server" '^listening on port' || fail "$1 does not start"
    # shellcheck disable=SC2034 # read by the scripts that source this
    port=$(sed -n 's/^listening on port //p' "$work/server")
}

# Wait until all started processes have ended.
finish() {
    wait "${started[@]}" || true
    started=()
}

# shimmed PROGRAM [ARGUMENT]...: run it with the library and its built-in policy.
shimmed() {
    env -u NAGLESHIM_OFF NAGLESHIM_POLICY="$policy" LD_PRELOAD="$library${LD_PRELOAD:+:$LD_PRELOAD}" "$@"
}
