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
    "${timed[@]}" env LD_PRELOAD="$LIBRARY" "$@"
}

# post_once NAME COMMAND...: 20 messages by a client that COMMAND starts; its results are in $T/NAME. Either most of them stall,
# or none.
post_once() {
    local before stalls
    before=$(ns_delayed_acks)
    ns_serve server "$EXAMPLES/queue_server" 0
    "${@:2}" --warmup 4 127.0.0.1 "$port" 20 >"$T/$1" 2>"$T/$1.err" 3>&-
    ns_join server
    stalls=$(field stalls "$T/$1")
    ((stalls == 0 || stalls >= 10)) ||
        is_late "20 * $stalls" "$1: $stalls of 20 stall" "$(($(ns_delayed_acks) - before))" 5
}

post() {
    in_time post_once "$@"
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

# starts ARGV0 PROGRAM: traces which files a program opens at its start.
starts() {
    strace -qq -e trace=openat -o "$T/trace" bash -c 'export LD_PRELOAD=$2; exec -a "$0" "$1"' "$1" "$2" "$LIBRARY"
}

# tries ARGV0 EXPECTED: the program "real" tries these policies, of which it opens one with a +.
tries() {
    local seen
    starts "$1" "$T/real"
    seen=$(awk -F '"' -v at="$POLICIES/" '{ sub(at, "", $2) } !/O_PATH/ && sub(/\.json$/, "", $2) { printf "%s%s ", $2, / = [0-9]+$/ ? "+" : "" }' "$T/trace")
    [[ $seen == "$2 " ]] || wrong "$1 tries: $seen"
}

@test "a program tries its names and default in each directory of the list, in this order, and each name once" {
    local list write name expected long
    ns_needs_strace
    cp "$(type -P true)" "$T/real"
    mkdir "$POLICIES"/{near,far}
    printf -v long '%8000s' ''
    # The file that is written first, the list of directories, argv[0] of the program "real", and the policies that it tries.
    while IFS='|' read -r write list name expected; do
        [[ -z $write ]] || echo "$AUTO_CORK" >"$POLICIES/$write.json"
        list=${list//DIR/$POLICIES}
        NAGLESHIM_POLICY_DIR=${list//LONG/${long// /x}} tries "$name" "$expected"
    done <<'CASES'
|DIR|/bin/app|app real default
|DIR|default|default real
default|DIR|real|real default+
|DIR|gone|gone real default+
real|DIR|/bin/app|app real+
app|DIR|/bin/app|app+
|DIR|-app|app+
|DIR|two words: here|two words: here real+
|DIR/near:DIR/far|app|near/app near/real near/default far/app far/real far/default
|LONG:DIR/far|app|far/app far/real far/default
far/app|LONG:DIR/far|app|far/app+
|DIR/near:DIR/far|app|near/app near/real near/default far/app+
|DIR/none:DIR/far/app.json:DIR/far|app|none/app none/real none/default far/app.json/app far/app.json/real far/app.json/default far/app+
near/default|DIR/near:DIR/far|app|near/app near/real near/default+
near/real|DIR/near:DIR/far|app|near/app near/real+
CASES
    # These cannot be the name of a file, or would damage a log.
    for name in '' . .. / - /bin/ $'a\nb' $'\x7f' "${long:0:300}"; do
        tries "${name// /x}" real+
    done
}

@test "an empty entry in the list of policy directories, or an empty list, is the default directory" {
    local list expected
    ns_needs_strace
    [[ ! -e /etc/nagleshim ]] || ns_skip "there is an /etc/nagleshim"
    while read -r list expected; do
        NAGLESHIM_POLICY_DIR=${list#-} starts app "$(type -P true)"
        [[ $(awk -F '"' '/O_PATH/ { print $2 }' "$T/trace" | paste -sd ' ') == "${expected//D//etc/nagleshim}" ]] || wrong "$list" "$T/trace"
    done <<'CASES'
- D
: D D
a a
a: a D
:a D a
a:b a b
a::b a D b
a/:../b a/ ../b
CASES
}

@test "a policy that is no regular file, or too large, ends the search, without blocking" {
    local name said
    cp "$(type -P true)" "$T/app"
    mkdir "$POLICIES/directory.json"
    mkfifo "$POLICIES/fifo.json"
    ln -s loop.json "$POLICIES/loop.json"
    echo "$AUTO_CORK" | tee "$POLICIES/default.json" >"$POLICIES/fits.json"
    printf '%*s' $(((256 << 10) - ${#AUTO_CORK} - 1)) '' >>"$POLICIES/fits.json"
    { cat "$POLICIES/fits.json" && echo; } >"$POLICIES/large.json"
    while read -r name said; do
        NAGLESHIM_LOG=debug run timeout 10 bash -c 'export LD_PRELOAD=$2; exec -a "$0" "$1"' "$name" "$T/app" "$LIBRARY"
        [[ $status -eq 0 && $output == *"$POLICIES/$name.json:"*"$said"* ]] || wrong "$name: $output"
    done <<'CASES'
directory cannot be read: Is a directory
fifo cannot be read: it is not a regular file
loop cannot be read: Too many levels of symbolic links
fits 1 of 1 rules
large 1:1:
CASES
    # A device is not read to its end, and "-" is not standard input.
    for said in '/dev/zero:1:1: ' '/dev/null:1:1: ' '-: cannot be read: No such file or directory'; do
        NAGLESHIM_POLICY=${said%%:*} run timeout 10 env LD_PRELOAD="$LIBRARY" "$T/app" <"$POLICIES/fits.json"
        [[ $status -eq 0 && $output == *": $said"*'; no socket is touched' ]] || wrong "$output"
    done
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
    auto-cork) echo "queue_put 1" ;;
    nodelay | adaptive | default | flush-before-read | leave-alone | trickle) echo "queue_put 2" ;;
    per-process) echo "quote_client 1" ;;
    record-sender) echo "record_sender -" ;;
    esac
}

@test "every example policy applies to the socket of its program" {
    local file program segments
    for file in config/default.json config/policies/*.json; do
        read -r program segments < <(under_policy "$(basename "$file" .json)") || wrong "$file: which program is it for?"
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
    holds "$(field median_us "$T/with") < $(field median_us "$T/without") / 4"
}

@test "a rule with 'args' applies only to a program with such an argument" {
    export NAGLESHIM_POLICY='{"version": 1, "rules": [
        {"match": {"args": "--warmup"}, "send": "auto-cork"}, {"send": "nodelay"}]}'
    gets 1 matched shimmed "$EXAMPLES/queue_put"
    NAGLESHIM_POLICY=${NAGLESHIM_POLICY/warmup/other}
    gets 2 other shimmed "$EXAMPLES/queue_put"
    # An argument behind 100 kilobytes of others, and more than 4096 of them.
    local many
    mapfile -t many < <(yes $'--warmup\n0000000000000000000004' | head -n 6000)
    NAGLESHIM_POLICY=${NAGLESHIM_POLICY/--other/127.0.0.1}
    gets 1 last shimmed "$EXAMPLES/queue_put" "${many[@]}"
}
