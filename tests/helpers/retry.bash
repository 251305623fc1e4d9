# SPDX-License-Identifier: MIT
# The only functions of the tests that try anything again. A try that is late counts as a failure, unless the machine was at
# fault: the programs were ready to run, and had no processor, for at least the time that is missing (schedstat, by
# probes/run_delay), or a hypervisor took the processors for as long, and there were no more delayed ACKs than may be. A delayed
# ACK is what the library prevents, and never the machine's fault. Each further try is written to $NS_WORK/retried, with its
# evidence; tests/run prints these lines.

timed=() pin=()

# is_late MS TEXT [ACKS MOST]: a measurement that in_time has started was late: it would have succeeded if it had had MS more,
# an expression, and there were ACKS delayed ACKs where MOST may be.
is_late() {
    missing=$1 late=$2 acks=${3:-0} most_acks=${4:-0}
    [[ $NS_ISOLATED == 1 ]] || acks=0
    [[ -z ${3-} ]] || late+=", $3 delayed ACKs"
}

# not_as_expected VERDICT ROUNDS: is_late for stalls, median (us) and delayed. A round that should not stall was 20 ms late. One
# that should stall was disturbed for as long as a delayed ACK takes. One that should be late waits for a limited delayed ACK, of 8
# to 16 ms, and an interruption of 4 ms makes it a stall. In both of these delayed ACKs are no proof.
not_as_expected() {
    local text="expected: $1; $stalls of $2 rounds stall, median $median us"
    case $1 in
    flows) is_late "20 * $stalls + ($median > 5000) * $2 * $median / 2000" "$text" "$delayed" "$(($2 / 4))" ;;
    late) is_late "4 * $stalls + ($median < 5000) * 40 * $2 + ($median > 20000) * $2 * ($median - 16000) / 2000" \
        "$text, $delayed delayed ACKs" ;;
    *) is_late "40 * ($2 > $stalls ? $2 - $stalls : 1)" "$text, $delayed delayed ACKs" ;;
    esac
}

# note_retry TEXT: another try begins.
note_retry() {
    local file=${BATS_TEST_FILENAME-$0}
    echo "$1"
    [[ -z ${NS_WORK-} ]] || printf '%s: %s: %s\n' "${file##*/}" "${BATS_TEST_DESCRIPTION//: /, }" "${1//$'\n'/; }" >>"$NS_WORK/retried"
}

# waited_of PID...: sets waited_us to the microseconds for which these processes and their children have waited for a processor. If
# both ends are on one processor (the array pin), they wait for each other: only what they have waited longer than they ran counts.
waited_of() {
    local pid pids=("$@") path ran waited children
    for pid in "$@"; do
        children=()
        read -ra children <"/proc/$pid/task/$pid/children" || true
        pids+=("${children[@]}")
    done 2>/dev/null
    waited_us=0
    for pid in "${pids[@]}"; do
        for path in "/proc/$pid"/task/*/schedstat; do
            read -r ran waited _ <"$path" || continue
            waited_us=$((waited_us + waited / 1000 - (${#pin[@]} > 0 ? ran / 1000 : 0)))
        done
    done 2>/dev/null
}

# read_stolen: sets stolen_ms to the milliseconds for which a hypervisor has not run this machine's processors ("steal" of proc(5),
# in ticks of USER_HZ, which is 100). What runs on them then does not wait, for the kernel.
read_stolen() {
    read -r _ _ _ _ _ _ _ _ stolen_ms _ <"${NS_STAT-/proc/stat}"
    stolen_ms=$((stolen_ms * 10))
}

# until_calm: waits, for 15 s at most, until a hypervisor has taken no more than 10 ms in a second. It takes the processors several
# times in a row: otherwise it often spoils the next try, too.
until_calm() {
    local earlier i
    read_stolen
    for ((i = 0; i < 15; i++)); do
        earlier=$stolen_ms
        sleep 1
        read_stolen
        ((stolen_ms - earlier > 10)) || return 0
    done
}

# in_time COMMAND...: runs a command that measures once, and calls is_late if a time, or a count that depends on it, is wrong.
# Then it is run again, at most twice, if the machine was at fault. If it fails, so does the test. What the command starts by
# ns_start, or with the words of the array "timed" in front, is asked how long it has waited, and so is what ns_start has started
# before, such as an emulated line.
in_time() {
    local try late missing acks most_acks waited earlier taken others=("${NS_STARTED[@]}") result times=$T/waited timed=()
    local waited_us stolen_ms
    # They run before others, if that is permitted. Both ends on one processor run in turn, as neither interrupts the other.
    [[ ! -x $PROBES/run_delay || ! -x $PROBES/prompt || ${NS_LIBC-} ]] || timed=("$PROBES/prompt" "$PROBES/run_delay" "$times")
    [[ ${#pin[@]} -eq 0 ]] || ! chrt -r 1 true 2>/dev/null || timed=(chrt -r 1 "${timed[@]:1}")
    prefer_session -20
    for try in 1 2 3; do
        late=
        : >"$times"
        waited_of "${others[@]}"
        read_stolen
        earlier=$waited_us taken=$stolen_ms
        "$@" # not in a condition, where set -e would have no effect
        result=$? # $status is that of bats's run
        [[ $result -eq 0 && -n $late ]] || return "$result"
        read_stolen
        taken=$((stolen_ms - taken))
        # One of the others may have ended.
        waited_of "${others[@]}"
        waited=$(awk -v pinned=${#pin[@]} -v more="$((waited_us - earlier))" -v taken="$taken" '{ waited += $1 - (pinned ? $2 : 0) }
            END { printf "%.1f", waited / 1e6 + (more > 0 ? more / 1e3 : 0) + taken }' "$times")
        late="try $try: $late; $(awk "BEGIN { print $missing }") ms are missing, the programs waited $waited ms for a processor"
        ((taken == 0)) || late+=", $taken of them for a hypervisor"
        ((acks <= most_acks)) || late+="; more delayed ACKs than may be"
        if ! holds "$waited > 0 && $waited >= $missing" || ((acks > most_acks || try == 3)); then
            wrong "$late"
            return
        fi
        note_retry "$late"
        ((taken == 0)) || until_calm
    done
}

# more_time SECONDS WHAT: may a wait whose limit is over go on? Once, if the programs that this test has started have waited for
# a processor for half of it. SECONDS is empty the second time.
more_time() {
    local waited_us
    [[ -n $1 ]] || return
    waited_of "${NS_STARTED[@]}"
    ((waited_us >= 500000 * $1)) || return
    note_retry "$2 in $1 s; the programs waited $((waited_us / 1000)) ms for a processor"
}
