# SPDX-License-Identifier: MIT
# Promise: With NAGLESHIM_LOG=info a process with TCP sockets prints one line at its end, which no program can notice.
# The program is probes/report: it has one connection with itself, makes ten bursts, and ends.

load ../helpers/common

setup() {
    ns_setup
    export NAGLESHIM_LOG=info
}

# says STEP...: runs the program, and sets stderr. Nothing may be on stdout.
says() {
    # bats uses descriptors 3 and 4.
    run --separate-stderr timeout 20 env LD_PRELOAD="$LIBRARY" "$PROBES/report" "$@" 3>&- 4>&-
    printf '%s\n' "$status" "$output" "$stderr"
    [[ -z $output ]]
}

lines() {
    grep -c . <<<"$1"
}

TIME='20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z'
DONE='report: 3 TCP sockets, rule every-tcp-socket of the built-in policy; counts: sockets 3, left alone 0, bursts joined '

@test "a process prints its report once, however it exits" {
    local way
    for way in exit _exit _Exit quick_exit exit_group handler cancelled abort '_exit-in-exit' '_exit-in-quick_exit'; do
        says joins talks "$way"
        [[ $status -eq $([[ $way == abort ]] && echo 134 || echo 0) ]]
        # After a burst with a pause, of a busy machine, the next one is not joined.
        [[ $(lines "$stderr") -eq 1 && $stderr =~ ^$TIME' nagleshim['[0-9]+"]: $DONE"([5-9]|10),\  ]]
        [[ $stderr == *', bursts held 0, pushes '*', TCP_NODELAY set 2, stopped holding 0' ]]
    done
}

@test "the report counts what auto-cork holds and pushes" {
    NAGLESHIM_POLICY='{"version": 1, "rules": [{"send": "auto-cork"}]}' says joins talks exit
    [[ $stderr == *", rule 1 of the policy in NAGLESHIM_POLICY; counts: "* ]]
    [[ $stderr =~ bursts\ held\ [1-9][0-9]+,\ pushes\ [1-9] ]]
}

@test "after nagleshim run --send, the report names the options of run" {
    run --separate-stderr build/nagleshim run --log info --send nodelay -- "$PROBES/report" joins talks exit
    [[ $status -eq 0 && $stderr == *": report: 3 TCP sockets, options of nagleshim run; counts: "* ]]
}

@test "a process without a TCP socket prints no report, except at the level debug" {
    says
    [[ $status -eq 0 && -z $stderr ]]
    NAGLESHIM_LOG=debug says
    [[ $(tail -n 1 <<<"$stderr") == *': report: no TCP socket' ]]
    NAGLESHIM_LOG=error says joins talks exit
    [[ -z $stderr ]]
}

@test "the report names the policy's file and the rules that matched sockets, or says that no rule matched" {
    cat >"$T/policy.json" <<'JSON'
{"version": 1, "rules": [
    {"name": "one", "match": {"role": "client"}},
    {"match": {"role": "server", "remote": "127.0.0.2"}},
    {"match": {"process": "nobody"}, "name": "never"}]}
JSON
    NAGLESHIM_POLICY=$T/policy.json says joins talks exit
    [[ $stderr == *": report: 2 TCP sockets, rule one of $T/policy.json; counts: sockets 1, left alone 1, "* ]]
    sed -i 's/127.0.0.2/127.0.0.1/' "$T/policy.json"
    NAGLESHIM_POLICY=$T/policy.json says joins talks exit
    [[ $stderr == *": report: 2 TCP sockets, rule one, rule 2 of $T/policy.json; counts: "* ]]
    echo '{"version": 1, "rules": [{"match": {"remote": "9"}}]}' >"$T/policy.json"
    NAGLESHIM_POLICY=$T/policy.json says joins talks exit
    [[ $stderr == *": report: 2 TCP sockets, left alone: no rule of $T/policy.json matched; counts: sockets 0, "* ]]
    NAGLESHIM_POLICY_DIR=$T/nowhere:/none says joins talks exit
    [[ $stderr == *" of the built-in policy (NAGLESHIM_POLICY_DIR does not exist); counts: "* ]]
}

@test "a socket that is connected twice, as its first peer refuses, is counted once" {
    ns_python
    local refuses said
    while read -r refuses said; do
        run --separate-stderr env LD_PRELOAD="$LIBRARY" \
            NAGLESHIM_POLICY='{"version": 1, "rules": [{"match": {"remote": "127.0.0.1"}}, {"match": {"remote": "127.0.0.2"}}]}' \
            "$python" -S -c 'import socket, sys
listens, refuses, connects = socket.create_server(("127.0.0.1", 0)), socket.socket(), socket.socket()
refuses.bind((sys.argv[1], 0))
assert connects.connect_ex(refuses.getsockname()) and not connects.connect_ex(listens.getsockname())' "$refuses"
        [[ $status -eq 0 && $stderr == *": 1 TCP socket, $said of "* ]]
    done <<'END'
127.0.0.1 rule 1
127.0.0.2 rule 1, rule 2
END
}

@test "a server without connections reports what was done to its listener" {
    says serves exit
    [[ $stderr == *': report: 1 TCP socket, rule every-tcp-socket of the built-in policy; counts: sockets 1, '* ]]
    NAGLESHIM_POLICY='{"version": 1, "rules": [{"match": {"local": "9"}}]}' says serves exit
    [[ $stderr == *': a listener, left alone: no rule of the policy in NAGLESHIM_POLICY matched; counts: '* ]]
}

@test "a control character in the program's name does not begin another line" {
    local program=$T/$'a\nnagleshim[1]: b'
    cp "$PROBES/report" "$program"
    LD_PRELOAD=$LIBRARY "$program" joins talks exit 2>"$T/err"
    [[ $(wc -l <"$T/err") -eq 1 ]]
    grep -qF ']: a?nagleshim[1]: b: 3 TCP sockets, ' "$T/err"
}

@test "a process with a TCP socket reports why the library is disabled, and one without prints nothing" {
    echo '{"version": 1, "rules": 7}' >"$NAGLESHIM_POLICY_DIR/default.json"
    says joins talks exit
    [[ $status -eq 0 && $(lines "$stderr") -eq 1 ]]
    [[ $stderr == *": report: disabled: $NAGLESHIM_POLICY_DIR/default.json:1:25: "* ]]
    # A forked child does not repeat it.
    says joins fork _exit parent exit
    [[ $(lines "$stderr") -eq 1 ]]
    says exit
    [[ -z $stderr ]]
    echo '{"version": 1, "enabled": false, "rules": []}' >"$NAGLESHIM_POLICY_DIR/default.json"
    says joins exit
    [[ $stderr == *': report: disabled: its policy says "enabled": false' ]]
    # No rule is for the shell and the tools of a wrapper script.
    echo '{"version": 1, "rules": [{"match": {"process": "report"}}]}' >"$NAGLESHIM_POLICY_DIR/default.json"
    LD_PRELOAD=$LIBRARY bash -c 'true; sleep 0; "$0" joins talks exit' "$PROBES/report" 2>"$T/err"
    [[ $(grep -c . "$T/err") -eq 1 && $(<"$T/err") == *": report: 3 TCP sockets, "* ]]
    NAGLESHIM_OFF=1 says joins talks exit
    [[ -z $stderr ]]
}

@test "a broken policy in NAGLESHIM_POLICY is reported once per process, at its start" {
    export NAGLESHIM_POLICY='{"version": 2}'
    local level
    for level in error info; do
        NAGLESHIM_LOG=$level says joins talks fork _exit parent exit
        [[ $status -eq 0 && $(lines "$stderr") -eq 1 && $stderr == *'; no socket is touched' ]]
    done
}

@test "a program that installs a seccomp filter prints its report before that, and is not killed" {
    says joins talks filter exit
    [[ $status -eq 0 && $(lines "$stderr") -eq 1 ]]
    [[ $stderr == *': report: disabled: it installed a seccomp filter; before that 3 TCP sockets, '* ]]
    # The filter kills on the calls that a line needs.
    NAGLESHIM_LOG=debug NAGLESHIM_LOG_FILE=$T/log says joins talks filter closes exit
    [[ $status -eq 0 && $(grep -c 'disabled: it installed' "$T/log") -eq 1 ]]
}

@test "after a seccomp filter that the kernel refuses, the log says that the library goes on, and the report comes at the end" {
    says joins talks refused talks exit
    [[ $status -eq 0 && $(lines "$stderr") -eq 3 ]]
    [[ $(sed -n 2p <<<"$stderr") == *': report: enabled again: the kernel has refused the seccomp filter' ]]
    [[ ${stderr##*$'\n'} == *': report: 3 TCP sockets, '* ]]
    says refused exit
    [[ -z $stderr ]]
}

@test "the report of a forked child counts only what happened since the fork" {
    says joins talks fork talks talks _exit parent exit
    [[ $(lines "$stderr") -eq 2 ]]
    [[ ${stderr%%$'\n'*} == *': report: TCP sockets from before the fork; counts: '*' bursts joined 20, '* ]]
    [[ ${stderr##*$'\n'} == *": $DONE"* ]]
    says joins talks fork joins talks _exit parent exit
    [[ ${stderr%%$'\n'*} == *': report: 3 TCP sockets since the fork, rule every-tcp-socket of '*' bursts joined 10, '* ]]
    # A child that did nothing prints nothing.
    says joins talks fork _exit parent exit
    [[ $(lines "$stderr") -eq 1 ]]
}

@test "a child of vfork does not print its parent's report" {
    says joins talks vfork talks exit
    [[ $(lines "$stderr") -eq 1 && $stderr == *' bursts joined 20, '* ]]
}

@test "a process that a signal kills prints no report, because the library installs no signal handler" {
    says joins talks killed
    [[ $status -eq 143 && -z $stderr ]]
    says joins talks exit
    [[ $(lines "$stderr") -eq 1 ]]
    local caught
    caught=$(LD_PRELOAD=$LIBRARY sed -n 's/^SigCgt:\t//p' /proc/self/status)
    [[ $caught == "$(sed -n 's/^SigCgt:\t//p' /proc/self/status)" ]]
}

@test "if descriptor 2 refers to another file than at the start, it gets no report" {
    says joins talks "stderr=$T/other" exit
    [[ $status -eq 0 && -z $stderr && -e $T/other && ! -s $T/other ]]
    # If stderr is closed from the start, the program may use descriptor 2, here for a listener.
    LD_PRELOAD=$LIBRARY strace -f -qq -e trace=write -o "$T/raw" "$PROBES/report" joins talks exit 2>&-
    [[ $(grep -c 'write(2, "nagleshim' "$T/raw") -eq 0 ]]
    # NAGLESHIM_LOG_FILE gets the report in any case.
    NAGLESHIM_LOG_FILE=$T/log says joins talks close-stderr exit
    grep -qF ": $DONE" "$T/log"
}

@test "a pipe at stderr that nobody reads, or that is full, neither kills nor blocks the program" {
    cat >"$T/pipe.py" <<'PY'
import fcntl, os, signal, subprocess, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
reader, writer = os.pipe()
if sys.argv[1] == "full":
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
elif sys.argv[1] == "unread":
    os.close(reader)
os.environ["LD_PRELOAD"] = sys.argv[2]
process = subprocess.run(sys.argv[3:], stderr=writer, timeout=10, restore_signals=True)
sys.exit(process.returncode != 0 or sys.argv[1] == "read" and b": report: 3 TCP" not in os.read(reader, 65536))
PY
    local way
    for way in read full unread; do
        NAGLESHIM_LOG=debug python3 "$T/pipe.py" "$way" "$LIBRARY" "$PROBES/report" joins talks exit
    done
}

@test "a TCP connection at stderr, as under inetd, gets no report" {
    cat >"$T/inetd.py" <<'PY'
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far, _ = listener.accept()
os.environ["LD_PRELOAD"] = sys.argv[1]
subprocess.run(sys.argv[2:], stderr=far, check=True)
far.close()
assert near.recv(100) == b""
# A socket of the journal gets the report.
ours, journal = socket.socketpair()
subprocess.run(sys.argv[2:], stderr=journal, check=True)
journal.close()
assert b"3 TCP sockets" in ours.recv(1000)
PY
    python3 "$T/inetd.py" "$LIBRARY" "$PROBES/report" joins talks exit
}

@test "at the level debug each decision about a socket is printed, in order" {
    NAGLESHIM_LOG=debug says joins talks exit
    sed -E 's/^[^ ]* nagleshim\[[0-9]+\]: //' <<<"$stderr" | grep '^fd ' >"$T/told"
    diff - "$T/told" <<'TOLD'
fd 3: TCP socket made; its rule comes with connect or listen
fd 3: listens; what it accepts has its rule, too
fd 3: rule every-tcp-socket takes the listener, send adaptive, ack before-wait
fd 4: TCP socket made; its rule comes with connect or listen
fd 4: about to connect
fd 4: rule every-tcp-socket takes it, send adaptive, ack before-wait
fd 5: accepted from the listener 3
fd 5: rule every-tcp-socket takes it, send adaptive, ack before-wait
fd 4: TCP_NODELAY in the kernel is 1
fd 5: TCP_NODELAY in the kernel is 1
TOLD
    NAGLESHIM_LOG=debug NAGLESHIM_POLICY='{"version": 1, "rules": [{"match": {"remote": "9"}}]}' says joins talks exit
    [[ $stderr == *'fd 3: listens; what it accepts is matched one by one'*'fd 3: listener left alone'* ]]
    [[ $stderr == *'fd 4: no rule matches it: left alone'*'fd 5: no rule matches it: left alone'* ]]
}

@test "at the level debug inherited sockets and sockets that are passed on are printed" {
    python3 - "$LIBRARY" >"$T/told" 2>&1 <<'PY'
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
environment = dict(os.environ, LD_PRELOAD=sys.argv[1], NAGLESHIM_LOG="debug")
number = near.fileno()
subprocess.run([sys.executable, "-c", f"""
import os, socket
s = socket.socket(fileno={number})
s.send(b'x')
d = os.dup({number})
os.set_inheritable({number}, True)
os.close(d)
l = socket.create_server(('127.0.0.1', 0))
os.set_inheritable(l.fileno(), True)
os.execv('/bin/true', ['true'])
"""], pass_fds=[number], env=environment, check=True)
PY
    cat "$T/told"
    grep -q ': TCP socket that came from outside; its rule comes with its first use$' "$T/told"
    grep -q ': first used$' "$T/told"
    grep -qE ': the same connection as [0-9]+$' "$T/told"
    grep -q ': closed$' "$T/told"
    grep -q ': may be handed on to another program$' "$T/told"
}

@test "a log file at the limit of file size gets no line, and the program is not killed" {
    local size
    for size in 0 9000 10240 20000; do
        head -c "$size" /dev/zero >"$T/log"
        (ulimit -f 10 && NAGLESHIM_LOG=debug NAGLESHIM_LOG_FILE=$T/log LD_PRELOAD=$LIBRARY \
            "$PROBES/report" joins talks exit)
        ((size > 0 || $(stat -c %s "$T/log") > 0))
        ((size < 10240 || $(stat -c %s "$T/log") == size))
        ((size > 0)) || grep -q ': report: 3 TCP' "$T/log"
    done
}

@test "the log is appended to its file, which is created with the mode that the umask allows" {
    local log=$T/log mask
    echo 'what was there' >"$log"
    NAGLESHIM_LOG=debug NAGLESHIM_LOG_FILE=$log LD_PRELOAD=$LIBRARY env true
    [[ $(head -n 1 "$log") == 'what was there' && $(wc -l <"$log") -ge 2 ]]
    # Several processes can write at the same time, because each appends its line.
    strace -f -qq -e trace=openat,open -o "$T/opens" -E NAGLESHIM_LOG=debug -E NAGLESHIM_LOG_FILE="$log" \
        -E LD_PRELOAD="$LIBRARY" /bin/true
    grep -F "\"$log\"" "$T/opens" | grep -q O_APPEND
    for mask in 022 077 000; do
        rm "$log"
        (
            umask "$mask"
            NAGLESHIM_LOG=debug NAGLESHIM_LOG_FILE=$log LD_PRELOAD=$LIBRARY env true
        )
        [[ $(stat -c %a "$log") == $(printf '%o' $((0644 & ~mask))) ]]
    done
}
