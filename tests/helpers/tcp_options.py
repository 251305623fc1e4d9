# SPDX-License-Identifier: MIT
"""Has TCP sockets of all kinds, and prints their options whenever it reads a line. A line "SOCKET N" first sets TCP_NODELAY
of SOCKET to N, and "SOCKET N OPTION" that option; "connect" opens another connection; "close" closes "client" and prints how long its peer waited for the end.
"""
import socket
import sys
import time

DELACK = 46  # TCP_DELACK_MAX_US
kinds = {}
listener = kinds["listener"] = socket.create_server(("127.0.0.1", 0))
print("listening on port", listener.getsockname()[1], flush=True)


def connect(client, server):
    kinds[client] = socket.create_connection(listener.getsockname())
    kinds[server] = listener.accept()[0]


connect("client", "server")
connect("nodelay", "other")
kinds["nodelay"].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
try:
    kinds["mptcp"] = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    kinds["mptcp"].bind(("127.0.0.1", 0))
    kinds["mptcp"].listen()
except OSError:
    pass
unix = socket.socketpair()
while True:
    for name, sock in kinds.items():
        delack = "none"
        if name != "mptcp":
            try:
                delack = sock.getsockopt(socket.IPPROTO_TCP, DELACK)
            except OSError:
                pass
        print(name, sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), delack)
    print("end", flush=True)
    words = sys.stdin.readline().split()
    if words == ["connect"]:
        connect("later", "accepted")
    elif words == ["close"]:
        begin = time.monotonic()
        kinds.pop("client").close()
        kinds["server"].recv(1)
        print("closed after", round((time.monotonic() - begin) * 1e3, 3), "ms")
    elif words:
        option = int(words[2]) if words[2:] else socket.TCP_NODELAY
        kinds[words[0]].setsockopt(socket.IPPROTO_TCP, option, int(words[1]))
