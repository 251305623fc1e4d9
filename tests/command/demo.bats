# SPDX-License-Identifier: MIT
# Promise: nagleshim demo shows a stall and its cure on any machine.

load ../helpers/command

# Seen from outside, a stall may be in doubt on a busy machine.
demo_once() {
    run --separate-stderr "${timed[@]}" "$NS" demo
    echo "$output$stderr"
    [[ $status -eq 0 && $stderr == *"it stalls: "* ]] || is_late 20 "$stderr"
}

@test "demo prints a proven stall, and the client's time with the library" {
    in_time demo_once
    [[ $status -eq 0 && $stderr == *"it stalls: "*"nagleshim["*": held by the peer, nagleshim["* ]]
    [[ $output =~ 'A request takes '([0-9.]+)' ms (median), and '([0-9.]+)' ms without the library' ]]
    holds "${BASH_REMATCH[1]} < ${BASH_REMATCH[2]} / 2 && ${BASH_REMATCH[2]} > 35"
}

@test "demo without a library and a client without a server are errors" {
    cp "$NS" "$T/nagleshim"
    run --separate-stderr "$T/nagleshim" demo
    [[ $status -eq 2 && ${stderr_lines[-1]} == "nagleshim run: cannot find libnagleshim.so beside this command, in ../lib or in "* ]]
    run --separate-stderr "$NS" demo --client 1
    [[ $status -eq 2 && $stderr == "nagleshim demo: cannot connect to port 1: Connection refused" ]]
}
