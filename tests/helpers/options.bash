# SPDX-License-Identifier: MIT
# Shared by the tests of `nagleshim cure`: a program with TCP sockets of all kinds, which prints their options.

options_in=()

# start_options ["NAME NODELAY DELACK"...]: starts it, by the command in the array "options_in", and reads its first output.
start_options() {
    mkfifo "$T/words"
    "${options_in[@]}" "$python" tests/helpers/tcp_options.py <"$T/words" >"$T/options.out" 3>&- &
    NS_STARTED+=("$!")
    NS_PID[options]=$!
    exec 7>"$T/words"
    ns_port options
    options_read=0
    expect_options "$@"
}

# expect_options "NAME NODELAY DELACK"...: the program's next output has these lines.
expect_options() {
    local line
    options_read=$((options_read + 1))
    for _ in {1..1000}; do
        (($(grep -c '^end' "$T/options.out") < options_read)) || break
        sleep 0.01
    done
    output=$(awk -v wanted="$options_read" '/^end/ { n++; next } n == wanted - 1' "$T/options.out")
    for line; do
        grep -qxE -- "$line" <<<"$output" || wrong "no line '$line' in:"$'\n'"$output" || return
    done
}

# options_are ["NAME NODELAY [DELACK]"...]: the program's sockets have these values, after it has read $words.
options_are() {
    local line lines=()
    for line; do
        [[ $line == *' '*' '* ]] || line+=' .*'
        lines+=("$line")
    done
    echo "${words-}" >&7
    expect_options "${lines[@]}"
}
