# SPDX-License-Identifier: MIT
# Promise: A process gets the policy for its name, from its directory or its environment; a broken policy does no harm.
# The tests recognise a process's policy from outside, by its segments, its stalls and its output. The two programs are
# the clients of the storage queue and of Red Hat's example. With the library on the client, a message is 2 segments
# under nodelay, 1 under auto-cork, and stalls if the rule leaves it alone.

load ../helpers/common

# Long enough for a busy machine.
AUTO_CORK='{"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": 100000}]}'
NODELAY='{"version": 1, "rules": [{"send": "nodelay"}]}'
ALONE='{"version": 1, "rules": [{"send": "app", "ack": "app"}]}'

setup() {
    ns_setup
    POLICIES=$NAGLESHIM_POLICY_DIR
}

# shimmed COMMAND...: with the library.
shimmed() {
    env LD_PRELOAD="$LIBRARY" "$@"
}

# post NAME COMMAND...: 20 messages by a client that COMMAND starts; its results are in $T/NAME.
post() {
    local name=$1 attempt
    shift
    # An unexpected stall is tried again: the machine may have been busy.
    for attempt in 1 2 3; do
        ns_serve server "$EXAMPLES/queue_server" 0
        "$@" --warmup 4 127.0.0.1 "$port" 20 >"$T/$name" 2>"$T/$name.err" 3>&-
        ns_join server
        [[ $(field stalls "$T/$name") -gt 0 && $(field stalls "$T/$name") -lt 10 ]] || break
        echo "attempt $attempt:" && cat "$T/$name"
    done
}

# treated NAME SEGMENTS|stalls: the result of post.
treated() {
    local stalls segments
    stalls=$(field stalls "$T/$1")
    segments=$(field segments_per_round "$T/$1")
    if [[ $2 == stalls ]]; then
        [[ $stalls -ge 15 ]]
    else
        [[ $stalls -eq 0 && $segments == "$2.00" ]]
    fi || wrong "$1: expected $2, saw $stalls stalls and $segments segments a message" "$T/$1" "$T/$1.err"
}

# gets EXPECTED NAME COMMAND...: post, and its result.
gets() {
    post "${@:2}" && treated "$2" "$1"
}

# The same client as two programs with different names.
two_programs() {
    cp "$EXAMPLES/queue_put" "$T/alpha"
    cp "$EXAMPLES/queue_put" "$T/beta"
    cp "$EXAMPLES/queue_put" "$T/gamma"
}

@test "two programs get their own policies from one directory, and a third one default.json" {
    two_programs
    echo "$AUTO_CORK" >"$POLICIES/alpha.json"
    echo "$ALONE" >"$POLICIES/beta.json"
    echo "$NODELAY" >"$POLICIES/default.json"
    export NAGLESHIM_POLICY_DIR=$POLICIES
    gets 1 alpha.result shimmed "$T/alpha"
    gets stalls beta.result shimmed "$T/beta"
    gets 2 gamma.result shimmed "$T/gamma"
}

@test "a program whose file was removed gets the policy of its name" {
    cp "$(type -P true)" "$T/app"
    echo "$ALONE" | sed 's/{"send"/{"match": {"process": "app"}, "send"/' >"$POLICIES/app.json"
    exec 9<"$T/app"
    rm "$T/app"
    run --separate-stderr shimmed NAGLESHIM_LOG=debug NAGLESHIM_POLICY_DIR="$POLICIES" /proc/self/fd/9
    exec 9<&-
    [[ $stderr == *"policy $POLICIES/app.json: 1 of 1 rules are for this process"* ]]
}

@test "a program gets the policy of the name that it was started with, else of its executable" {
    two_programs
    echo "$AUTO_CORK" >"$POLICIES/nick.json"
    echo "$ALONE" >"$POLICIES/alpha.json"
    export NAGLESHIM_POLICY_DIR=$POLICIES
    gets 1 nick.result shimmed bash -c 'exec -a nick "$0" "$@"' "$T/alpha"
    gets stalls other.result shimmed bash -c 'exec -a /usr/bin/other "$0" "$@"' "$T/alpha"
}

@test "NAGLESHIM_POLICY comes before the directory, as a file and as JSON" {
    two_programs
    echo "$ALONE" >"$POLICIES/alpha.json"
    echo "$AUTO_CORK" >"$T/named.json"
    export NAGLESHIM_POLICY_DIR=$POLICIES
    gets 1 named.result shimmed NAGLESHIM_POLICY="$T/named.json" "$T/alpha"
    gets 2 inline.result shimmed NAGLESHIM_POLICY="  $NODELAY" "$T/alpha"
}

@test "a broken or missing policy in NAGLESHIM_POLICY causes one line on stderr, and nothing else" {
    local said
    printf '{"version": 1,\n "rules": [{"send": "fast"}]}\n' >"$T/broken.json"
    echo "$AUTO_CORK" >"$POLICIES/default.json"
    for said in "$T/broken.json:2:21: " "$T/missing.json: "; do
        NAGLESHIM_POLICY_DIR=$POLICIES gets stalls result shimmed NAGLESHIM_POLICY="${said%%:*}" "$EXAMPLES/queue_put"
        [[ $(wc -l <"$T/result.err") -eq 1 ]]
        grep -qF "$said" "$T/result.err"
    done
}

@test "a broken policy in a directory prints nothing on stderr, and ends the search" {
    two_programs
    echo '{"version": 1, "rules": [}' >"$POLICIES/alpha.json"
    echo "$AUTO_CORK" >"$POLICIES/default.json"
    export NAGLESHIM_POLICY_DIR=$POLICIES
    gets stalls result shimmed "$T/alpha"
    [[ ! -s $T/result.err ]]
    # The error is in the log file.
    gets stalls logged.result shimmed NAGLESHIM_LOG_FILE="$T/log" "$T/alpha"
    [[ ! -s $T/logged.result.err ]]
    grep -qF "$POLICIES/alpha.json:1:26: " "$T/log"
}

@test "NAGLESHIM_OFF switches the library off, unless it is empty or 0" {
    export NAGLESHIM_POLICY=$AUTO_CORK
    local off
    for off in 1 00; do
        gets stalls off.result shimmed NAGLESHIM_OFF="$off" "$EXAMPLES/queue_put"
    done
    for off in '' 0; do
        gets 1 on.result shimmed NAGLESHIM_OFF="$off" "$EXAMPLES/queue_put"
    done
}

# Each example policy does what its first sentence promises, with the program that it names.
under_policy() {
    case $1 in
    nodelay) echo "queue_put 2" ;;
    auto-cork) echo "queue_put 1" ;;
    adaptive | default | flush-before-read) echo "queue_put 2" ;;
    leave-alone | trickle) echo "queue_put 2" ;;
    per-process) echo "quote_client 1" ;;
    record-sender) echo "record_sender -" ;;
    esac
}

@test "every example policy applies to the socket of its program" {
    local file program segments
    for file in config/default.json config/policies/*.json; do
        read -r program segments < <(under_policy "$(basename "$file" .json)") || {
            echo "$file: which program is it for?"
            return 1
        }
        rm -f "$T/log"
        export NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE=$T/log
        # The rule also applies to another client that is started under this name.
        cp "$EXAMPLES/queue_put" "$T/$program"
        post result shimmed NAGLESHIM_POLICY="$file" "$T/$program"
        cat "$T/log"
        grep -qE 'sockets [1-9]' "$T/log"
        [[ $segments == - ]] || treated result "$segments"
    done
}

@test "record-sender.json ignores a program's send buffer of zero" {
    local server client
    server=("$EXAMPLES/record_receiver" --winsock-ack 0)
    client=("$EXAMPLES/record_sender" --sndbuf 0 --winsock-send --warmup 20)
    ns_serve server "${server[@]}"
    "${client[@]}" 127.0.0.1 "$port" 20 >"$T/without"
    ns_join server
    ns_serve server "${server[@]}"
    shimmed NAGLESHIM_POLICY=config/policies/record-sender.json "${client[@]}" 127.0.0.1 "$port" 20 >"$T/with"
    ns_join server
    [[ $(field stalls "$T/without") -ge 8 ]]
    holds "$(field median_us "$T/with") < 1000"
}

@test "a rule with 'args' applies only to a program with such an argument" {
    export NAGLESHIM_POLICY='{"version": 1, "rules": [
        {"match": {"args": "--warmup"}, "send": "auto-cork"}, {"send": "nodelay"}]}'
    gets 1 matched shimmed "$EXAMPLES/queue_put"
    NAGLESHIM_POLICY=${NAGLESHIM_POLICY/warmup/other}
    gets 2 other shimmed "$EXAMPLES/queue_put"
}
