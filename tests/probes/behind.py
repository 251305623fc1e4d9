# SPDX-License-Identifier: MIT
# A server that waits for ACKs, and a relay before a server. Answers have 117 bytes. Usage:
#
#   behind.py acked               each of its three writes is made when the one before is acknowledged
#   behind.py relay KIND PORT     passes requests to this port: "parts" passes what it reads at once, "nodelay" with
#                                 TCP_NODELAY, "whole" passes whole answers. When a client ends, it prints "own MS": for so long
#                                 it could not send what it had written to the client
#
# Both print "listening on port PORT".
import fcntl
import select
import socket
import struct
import sys
import termios
import time

HEAD, BODY = 17, 100
SIOCOUTQNSD = 0x894B


def connections():
    listener = socket.create_server(("127.0.0.1", 0))
    print("listening on port", listener.getsockname()[1], flush=True)
    while True:
        yield listener.accept()[0]


def count(connection, what):
    return struct.unpack("i", fcntl.ioctl(connection, what, bytes(4)))[0]


def serve_acked():
    for connection in connections():
        while connection.recv(100):
            for size in HEAD, BODY - 50, 50:
                connection.send(b"x" * size)
                while count(connection, termios.TIOCOUTQ):
                    time.sleep(0.0002)


def read(connection, size):
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    return data


def relay(kind, port):
    for client in connections():
        server = socket.create_connection(("127.0.0.1", port))
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, kind == "nodelay")
        data = b"request"
        own = 0
        while data:
            ready = select.select([client, server], [], [])[0]
            for end in ready:
                data = read(server, HEAD + BODY) if kind == "whole" and end is server else end.recv(4096)
                (server if end is client else client).send(data)
            began = time.monotonic()
            while count(client, SIOCOUTQNSD):
                time.sleep(0.0002)
            own += time.monotonic() - began
        print(f"own {own * 1e3:.1f}", flush=True)
        client.close()
        server.close()


what, *words = sys.argv[1:]
if what == "relay":
    relay(words[0], int(words[1]))
else:
    serve_acked()
