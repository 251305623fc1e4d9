# SPDX-License-Identifier: MIT
# Promise: Bytes arrive complete, in order and in time through every fork, exec, exit and hand-over.
# Parts: 2
# The scenarios change descriptors, connections, threads and processes while bytes are held.

load ../helpers/common
load ../helpers/life

# survives SCENARIO [may hold nothing]: under auto-cork bytes are held, and nothing is wrong or late.
survives() {
    keeps "$1" || return
    [[ -n ${2-} || -n ${NS_UNDER-} ]] || holds "$(field held "$T/1.out") > 0" || wrong 'nothing was held' "$T/1.out"
}

# survive: runs the scenarios of standard input. A row has the scenario's name; "-", or the reason why no bytes need
# be held (another process writes, or there may be no MPTCP); and what it shows.
survive() {
    local scenario nothing shows
    while read -r scenario nothing shows; do
        echo "$shows"
        survives "$scenario" "${nothing#-}"
    done
}

@test "forks, execs, exits and daemons neither lose nor delay bytes" {
    survive <<'END'
fork               - held bytes leave before fork, and parent and child can both write afterwards
exit               - held bytes leave before exit, _exit, _Exit and quick_exit if another process shares the connection
vfork              - a child of vfork that changes its descriptors does not change its parent's connections
daemon             - held bytes leave in time before and after daemon()
daemon-waits       - bytes held at daemon() leave in time even if the daemon only computes
prefork            - a connection that a forked child accepts is served in time
inetd-silent       elsewhere a server that gets its connection from inetd has its rule although it makes no intercepted call
END
}

@test "MPTCP and kTLS neither lose nor delay bytes" {
    survive <<'END'
mptcp              perhaps MPTCP connections carry all bytes in order and in time
kernel-tls         - kTLS starts after the held bytes, and its records are not held
END
}

@test "a server that gets its listener or its connection from a service manager or from inetd serves in time" {
    survive <<'END'
service-manager         elsewhere a listener on 3, whose options are the original ones when the program has ended
listener-inherited      elsewhere the same without LISTEN_FDS
service-manager-accepts elsewhere a connection on 3
inetd                   elsewhere a connection on 0 and 1
END
}

@test "a server that is started with a connection on descriptors 0 to 3 finds the options there that its parent has set" {
    ns_python
    cat >"$T/server.py" <<'END'
import os, socket, sys
report = open(sys.argv[1], "w")
print(*(socket.socket(fileno=os.dup(fd)).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for fd in range(4)), file=report)
END
    cat >"$T/inetd.py" <<'END'
import socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
connection, _ = listener.accept()
start = 'export LISTEN_PID=$$ LISTEN_FDS=1 LD_PRELOAD=$0; exec "$@" 3<&0'
server = ["sh", "-c", start, sys.argv[3], sys.executable, sys.argv[1], sys.argv[2]]
subprocess.run(server, stdin=connection, stdout=connection, stderr=connection, check=True)
print(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
END
    run "$python" "$T/inetd.py" "$T/server.py" "$T/report" ""
    [[ $output == 0 && $(<"$T/report") == '0 0 0 0' ]]
    run "$python" "$T/inetd.py" "$T/server.py" "$T/report" "$LIBRARY"
    [[ $output == 1 ]] # in the kernel
    [[ $(<"$T/report") == '0 0 0 0' ]]
}

@test "a listener that survives exec has the bursts of its connections joined, and reports the program's own options" {
    keeps listener-stays ''
}

@test "sockets that are made by syscall() are treated, and those that go to another program have no option of the library" {
    survive <<'END'
made-by-number               - getsockopt reports that TCP_NODELAY is not set
listener-leaves              elsewhere a listener that a program without the library inherits has its original options
connection-is-sent           elsewhere a connection has no option of the library from the first moment
connection-is-sent-by-child  elsewhere the same, sent by a forked child
END
}

@test "a dispatcher that passes a connection on, which it does not use, leaves the options of the program that made it" {
    ns_python
    cat >"$T/dispatcher.py" <<'END'
import socket, sys
way = socket.socket(fileno=int(sys.argv[1]))
_, descriptors, _, _ = socket.recv_fds(way, 1, 1)
socket.send_fds(way, [b"b"], descriptors)
END
    cat >"$T/maker.py" <<'END'
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
connection = socket.create_connection(listener.getsockname())
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
ours, its = socket.socketpair()
log = {"NAGLESHIM_LOG": "debug", "NAGLESHIM_LOG_FILE": sys.argv[3]}
dispatcher = subprocess.Popen([sys.executable, sys.argv[1], str(its.fileno())], pass_fds=[its.fileno()],
                              env={**os.environ, **log, "LD_PRELOAD": sys.argv[2]})
socket.send_fds(ours, [b"a"], [connection.fileno()])
socket.recv_fds(ours, 1, 1)
assert dispatcher.wait() == 0
print(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
END
    run "$python" "$T/maker.py" "$T/dispatcher.py" "$LIBRARY" "$T/log"
    [[ $output == 1 ]]
    grep 'is passed to another process' "$T/log"
}

@test "TCP_NODELAY that another program has set stays on a connection that came in a message and has no rule, or is passed on unused" {
    ns_python
    cat >"$T/receiver.py" <<'END'
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
one, other = socket.socketpair()
with socket.create_connection(listener.getsockname()) as made:
    socket.send_fds(one, [b"a"], [made.fileno()])
connection = socket.recv_fds(other, 1, 1)[1][0]
def elsewhere(does):  # in a program without the library
    code = f"import socket; one = socket.socket(fileno={connection}); print(one.{does}); one.detach()"
    subprocess.run([sys.executable, "-c", code], pass_fds=[connection], check=True, env={**os.environ, "LD_PRELOAD": ""})
elsewhere(f"setsockopt({socket.IPPROTO_TCP}, {socket.TCP_NODELAY}, 1)")
if sys.argv[1] == "used":
    os.write(connection, b"b")
else:
    socket.send_fds(one, [b"b"], [connection])
elsewhere(f"getsockopt({socket.IPPROTO_TCP}, {socket.TCP_NODELAY})")
END
    NAGLESHIM_LOG=debug
    export NAGLESHIM_LOG NAGLESHIM_LOG_FILE=$T/log
    NAGLESHIM_POLICY='{"version": 1, "rules": [{"match": {"remote": "127.0.0.2"}}]}' LD_PRELOAD=$LIBRARY \
        "$python" "$T/receiver.py" used >"$T/used"
    grep 'no rule' "$T/log"
    LD_PRELOAD=$LIBRARY "$python" "$T/receiver.py" passed >"$T/passed"
    grep 'is passed to another process' "$T/log"
    [[ $(cat "$T/used") == $'None\n1' && $(cat "$T/passed") == $'None\n1' ]]
}

@test "TCP_FASTOPEN and TCP_FASTOPEN_CONNECT send their bytes with the SYN, and the rest follows in order" {
    # Servers accept data with a SYN only if this is enabled.
    if [[ $NS_ISOLATED == 1 ]]; then
        echo 3 >/proc/sys/net/ipv4/tcp_fastopen
        before=$(tcp_counter TCPFastOpenPassive)
    fi
    survives fast-open
    [[ $NS_ISOLATED == 0 || $(tcp_counter TCPFastOpenPassive) -gt $before ]]
}

@test "the scenarios detect late bytes" {
    LD_PRELOAD=$PROBES/mistakes.so MISTAKE=hold timeout 25 "$PROBES/life" fork >"$T/bad.out" || true
    cat "$T/bad.out"
    holds "$(field late "$T/bad.out") > 0"
    # Bytes that wait for a delayed ACK are late, and no machine is at fault.
    cat >"$T/life" <<<$'#!/bin/sh\necho held 1 late $((LIFE_LIMIT_MS < 40)) wrong 0'
    chmod +x "$T/life"
    LIFE_LIMIT='' PROBES=$T run survives delayed-ack
    [[ $status -ne 0 && $output == *'2 bytes were later than 20 ms'* && $output != *'try 2'* ]]
}
