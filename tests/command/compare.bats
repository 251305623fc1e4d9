# SPDX-License-Identifier: MIT
# Promise: `nagleshim compare` shows what the library changes, and only reports significant differences.

load ../helpers/doctor

setup() {
    ns_setup
    ns_python
}

compare() {
    run --separate-stderr "$NS" compare "$@"
}

@test "a client that stalls is significantly faster with the library" {
    victim
    compare --runs 5 --json="$T/o.json" -- "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 30
    expect 0 output is ""
    [[ ${stderr_lines[0]} == "nagleshim compare: "*" times faster with the library (5 and 5 runs, p = 0.0079)" ]]
    says "$T/o.json" 'o["differs"] is True and o["p"] < 0.01 and len(o["without"]["runs_ms"]) == len(o["with"]["runs_ms"]) == 5
        and o["without"]["median_ms"] > 1000 and o["without"]["median_ms"] > 2 * o["with"]["median_ms"]
        and 1 <= o["without"]["stalls"] <= 30 and o["with"]["stalls"] == 0'
}

@test "of a stream, compare shows how late writes leave, and diagnose does, too" {
    # The reader notes how late records came, without (1) and with the library: the median, and 99 of 100.
    cat >"$T/stream.py" <<'END'
import os, socket, struct, sys, threading, time
listener = socket.create_server(("127.0.0.1", 0))
late = []
def read():
    end, got, left = socket.create_connection(listener.getsockname()), 0, b""
    while data := end.recv(65536):
        now, got, left = time.monotonic(), got + len(data), left + data
        while len(left) >= 180:
            late.append(1000 * (now - struct.unpack("d", left[:8])[0]))
            left = left[180:]
        if got % 9000 < 180:
            end.send(b"answer")
reader = threading.Thread(target=read)
reader.start()
writer = listener.accept()[0]
for i in range(600):
    writer.send(struct.pack("d", time.monotonic()) + b"x" * 172)
    time.sleep(0.0015)
writer.shutdown(socket.SHUT_WR)
reader.join()
late.sort()
with open(sys.argv[1], "a") as out:
    print(os.environ.get("NAGLESHIM_OFF", 0), late[300], late[594], file=out)
END
    run --separate-stderr "$NS" diagnose --json="$T/d.json" --outside -- "$python" "$T/stream.py" /dev/null
    says "$T/d.json" 'sum(row["late"] + row["maybe"] + row["stalls"] for row in o["rows"]) >= 5'
    compare --runs 5 --json="$T/o.json" -- "$python" "$T/stream.py" "$T/late"
    expect_part stderr "ms until 99% of the writes left"
    # What is said of the writes has a probability of its own.
    [[ $stderr != *'but writes leave'* ]] ||
        [[ $stderr =~ 'no significant difference in time (p = '[0-9.]+'), but writes leave '.*' with the library (5 and 5 runs, p = 0.00' ]]
    # A record comes later than it left if the reader has no processor.
    cat "$T/late"
    says "$T/o.json" 'o["with"]["late_median_ms"] == 0 and 8 < o["without"]["late_most_ms"] >= 2 * o["with"]["late_most_ms"]'
    awk -v median="$(jq .without.late_median_ms "$T/o.json")" -v most="$(jq .without.late_most_ms "$T/o.json")" '
        $1 == 1 { n++; near += $2 < median + 4 && $2 > median - 4; least = !least || $3 < least ? $3 : least; last = $3 > last ? $3 : last }
        END { exit !(n == 5 && near >= 3 && most > least - 6 && most < last + 8) }' "$T/late"
}

@test "what Nagle's algorithm holds while the peer works on the first piece is not called a stall" {
    cat >"$T/works.py" <<'END'
import socket, threading, time
listener = socket.create_server(("127.0.0.1", 0))
def serve():
    end = listener.accept()[0]
    while end.recv(100):
        time.sleep(0.045)
        end.recv(100)
        end.send(b"answer")
threading.Thread(target=serve, daemon=True).start()
client = socket.create_connection(listener.getsockname())
for _ in range(30):
    client.send(b"x" * 100)
    client.send(b"y" * 100)
    client.recv(10)
END
    ns_python
    compare --runs 5 --json="$T/o.json" -- "$python" "$T/works.py"
    expect 0 stderr has "holds a run" stderr lacks "stall"
    says "$T/o.json" 'o["without"]["stalls"] > 0'
}

@test "the runs with the library have the policy of -p" {
    victim
    compare --runs 5 -p "$(policy app '{"send": "app", "ack": "app"}')" --json="$T/o.json" -- \
        "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 "$port" 6
    expect_status 0
    says "$T/o.json" 'o["with"]["median_ms"] > 100'
}

@test "a run that fails ends the comparison, and its standard error is shown" {
    compare -- sh -c 'echo out of luck >&2; exit 3'
    expect_status 2
    [[ $stderr == "out of luck"*"nagleshim compare: a run with"*" the library failed with status 3, so nothing can be compared" ]]
    # The control: it fails with the library only.
    compare -- sh -c '[ "$NAGLESHIM_OFF" ] || exit 3'
    expect 2 stderr is "nagleshim compare: a run with the library failed with status 3, so nothing can be compared"
    compare -- sh -c '[ -z "$NAGLESHIM_OFF" ] || exit 3'
    expect 2 stderr is "nagleshim compare: a run without the library failed with status 3, so nothing can be compared"
    run -127 --separate-stderr "$NS" compare -- no-such-program
    expect_whole stderr "nagleshim compare: cannot find 'no-such-program' in PATH"
}

@test "a file that cannot be written is reported before the first run, and no file is made without a result" {
    compare --json=/nowhere/o.json -- sh -c 'echo run >>"$0"' "$T/ran"
    expect 2 stderr is "nagleshim compare: cannot write '/nowhere/o.json': No such file or directory"
    [[ ! -e $T/ran ]]
    compare --json="$T/o.json" -- sh -c 'exit 3'
    expect_status 2
    [[ ! -e $T/o.json ]]
}

# lines_of WORD...: what the command prints on a terminal of 40 columns.
lines_of() {
    "$python" -c 'import pty, sys; pty.spawn(["sh", "-c", "stty cols 40; exec \"$@\"", "sh", *sys.argv[1:]])' \
        env TERM=dumb "$NS" "$@" </dev/null | tr -d '\r'
}

@test "on a terminal of 40 columns the table of compare fits, and the counts of top are broken between words" {
    ns_python
    lines_of compare --runs 5 -- true >"$T/seen"
    grep -q '^ *without *with ' "$T/seen"
    run ! grep -E '.{41}' "$T/seen"
    lines_of top --once --interval 0.5 --pid $$ >"$T/seen"
    grep -q '^ *ms/s ' "$T/seen"
    run ! grep -E '^ *[0-9]+ samples.{40}' "$T/seen"
}

# interrupt N [OPTION]...: interrupts compare in its run N.
interrupt() {
    run --separate-stderr env --default-signal=INT "$NS" compare "${@:2}" -- \
        sh -c 'echo >>"$0"; [ "$(wc -l <"$0")" -lt "$1" ] || { kill -INT "$PPID" && exec sleep 30; }' "$T/runs$1" "$1"
}

@test "on a terminal without a cursor no progress is drawn" {
    command -v script >/dev/null || ns_skip "script is missing"
    run timeout 60 script -qec "env TERM=dumb '$NS' compare --runs 5 -- true" /dev/null
    [[ $status -eq 0 && $output == *' runs, p = '* && $output != *$'\e'* ]] || unexpected
    # The control.
    run timeout 60 script -qec "env TERM=xterm '$NS' compare --runs 5 -- true" /dev/null
    [[ $status -eq 0 && $output == *$'\e[Krun 1 of 10'* ]] || unexpected
}

@test "an interrupted comparison says so, and exits with 130" {
    interrupt 1
    expect 130 stderr is "nagleshim compare: interrupted after 0 of 14 runs; compare runs a program that ends by itself: start a server apart, and compare its client"
    interrupt 3 --json="$T/o.json"
    expect 130 stderr has "nagleshim compare: interrupted after 2 of 14 runs
nagleshim compare: too few runs for a conclusion (1 and 1 runs, " stderr has "ms a run, median"
    says "$T/o.json" 'o["status"] == 130 and o["verdict"] == "too few runs for a conclusion" and o["with"]["runs"] == 1'
}

@test "every run has the original limit of descriptors" {
    ulimit -Sn 300
    compare --runs 5 -- sh -c '[ "$(ulimit -Sn)" = 300 ]'
    expect_status 0
}

@test "a program that cannot load the library, or for which the policy has no rule, gets a warning" {
    program static "$T/static"
    compare -- "$T/static"
    expect 2 stderr has "warning: the library will not reach $T/static: it is linked statically" # it ends with 3
    compare --runs 5 -p "$(policy other '{"match": {"process": "other"}}')" -- true
    expect 0 stderr has "other.json: no rule is for true: the library leaves its sockets alone"
    compare --runs 5 -p "$(policy every '{}')" -- true
    expect_no_part stderr warning
}

@test "a result that cannot be written is printed all the same" {
    local mounts
    ns_mount_namespace
    [[ ${mounts[0]:-} ]] || cannot_here "no mount namespace of one's own"
    mkdir "$T/full"
    run --separate-stderr "${mounts[@]}" bash -c 'mount -t tmpfs -o size=4k none "$1" && head -c 8192 /dev/zero >"$1/all" 2>/dev/null
        exec "$2" compare --runs 5 --json="$1/o.json" -- true' - "$T/full" "$NS"
    expect 2 stderr has "cannot write '$T/full/o.json': No space left on device"
    expect_part stderr "ms a run, median"
}

@test "a broken policy, and a file that is named twice, are refused" {
    compare -p "$(broken_policy)" -- true
    expect 2 stderr has "broken.json:2:21: "
    compare -p "$(policy p '{}')" --json="$T/p.json" -- true
    expect 2 stderr has "'$T/p.json' is named by two options"
}
