# SPDX-License-Identifier: MIT
# Promise: A message that Python or Java writes in many pieces does not stall, and leaves in as many segments as its mode says.
# The server counts the segments that arrive; the first 20 messages are not counted.

load ../helpers/common
load ../helpers/matrix

setup_file() {
    mkdir "$BATS_FILE_TMPDIR/java"
    javac -d "$BATS_FILE_TMPDIR/java" examples/chatty/Talk.java || true
}

setup() {
    ns_setup
    WARMUP=20
}

@test "each example refuses wrong arguments with one line and status 2" {
    local program programs=("$EXAMPLES"/*_{client,server,put,sender,receiver} "python3 examples/chatty/talk.py")
    [[ ! -e $BATS_FILE_TMPDIR/java/Talk.class ]] ||
        programs+=("java -cp $BATS_FILE_TMPDIR/java Talk" "java examples/WriteWriteRead.java")
    ((${#programs[@]} >= 11))
    for program in "${programs[@]}"; do
        # shellcheck disable=SC2086 # several words
        run --separate-stderr $program 1 2 x
        [[ $status -eq 2 && -z $output && ${#stderr_lines[@]} -eq 1 ]] || wrong "$program: status $status: $output$stderr"
    done
}

# talk MESSAGES COMMAND...: runs the server and this client, with the words of the array on_client in front.
talk() {
    local server=("$EXAMPLES/chatty_server" --warmup "$WARMUP" 0) client=("${@:2}" PORT "$WARMUP" "$1") on_server=()
    run_both
    cat "$T/client.out" "$T/server.out"
    stalls=$(field stalls "$T/client.out")
    median=$(field median_us "$T/client.out")
    segments=$(field segments_per_message "$T/server.out")
}

stalls_once() {
    talk 10 "$@"
    # One segment has the first piece, and another one all others, once the first is acknowledged.
    holds "$stalls >= 8 && $segments > 1.9 && $segments < 2.5" || not_as_expected stalls 10
}

stalls_without_the_shim() {
    local on_client=() stalls median segments delayed
    in_time stalls_once "$@"
}

# flows_once LEAST MOST COMMAND...: no message stalls, and each takes LEAST to MOST segments.
flows_once() {
    talk 200 "${@:3}"
    if ((stalls > 0)); then
        not_as_expected flows 200
    elif ! holds "$segments >= $1 && $segments <= $2"; then
        is_late "0.5 * 200 * ($segments > $2 ? $segments - $2 : $1 - $segments)" "$segments segments a message, not $1 to $2" \
            "$delayed" 50
    fi
}

# flows POLICY LEAST MOST COMMAND...
flows() {
    local on_client=(LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY="$1") stalls median segments delayed
    [[ $(</proc/sys/net/ipv4/tcp_autocorking) == 0 ]] || ns_skip "autocorking, which joins segments, cannot be turned off"
    in_time flows_once "${@:2}"
}

@test "Python's json.dump to an unbuffered file: each message stalls without the library; with it none, and each mode sends its number of segments" {
    local mode policy talker
    ns_python
    talker=("$python" "$PWD/examples/chatty/talk.py")
    stalls_without_the_shim "${talker[@]}"
    tests/modes >"$T/modes"
    grep -q '^auto-cork|' "$T/modes"
    while IFS='|' read -r mode policy; do
        echo "$mode: $policy"
        case $mode in
        nodelay) flows "$policy" 22 22 "${talker[@]}" ;;
        flush-before-read) flows "$policy" 1.9 2.2 "${talker[@]}" ;;
        # A burst that takes longer than max_delay_us may be sent in two segments.
        auto-cork) flows "$policy" 1 1.2 "${talker[@]}" ;;
        # The first piece is a segment of its own.
        adaptive) flows "$policy" 1.9 2.2 "${talker[@]}" ;;
        *) false ;;
        esac
    done <"$T/modes"
}

@test "Java's DataOutputStream without a buffer: each message stalls without the library; its 77 writes leave as 77 segments with nodelay, as one with auto-cork" {
    local talker=(java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$BATS_FILE_TMPDIR/java" Talk)
    command -v javac >/dev/null || ns_skip "no javac"
    stalls_without_the_shim "${talker[@]}"
    # The message's number has two or three digits. The first bursts are slow, because Java has not compiled the code yet.
    flows '{"version": 1, "rules": [{"send": "nodelay"}]}' 70 80 "${talker[@]}"
    flows '{"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": 5000}]}' 1 1.5 "${talker[@]}"
}
