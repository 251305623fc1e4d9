#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Forwards connections between a client and a server, and cuts each message of one end in two pieces.

Both pieces are written at once, with Nagle's algorithm on, so the second one waits until the reader has acknowledged the
first one. A reader that delays its ACK stalls, whatever the protocol is. The relay itself causes no other stall: it sends
the other end's messages at once, and acknowledges at once what it reads.

usage: relay.py client|server PORT    whose messages are cut, and the server's port
It prints "listening on port N" and, after each message that was cut, its number and the number of stalls so far: of
messages whose second piece was held for 20 ms or more.
"""

import fcntl
import socket
import struct
import sys
import termios
import threading
import time

STALL = 0.020
SIOCOUTQNSD = 0x894B  # the bytes that were written and not yet sent
seen = {"messages": 0, "stalls": 0}
lock = threading.Lock()


def unsent(sock):
    return struct.unpack("i", fcntl.ioctl(sock, SIOCOUTQNSD, b"\0\0\0\0"))[0]


def unacknowledged(sock):
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0\0\0\0"))[0]


def send_in_two(sock, data):
    """Sends both pieces, waits until the second one has left, and counts the stall. If the reader has not yet acknowledged
    earlier data, the whole message would wait for that: it is no message of its own."""
    first = unacknowledged(sock) == 0
    middle = (len(data) + 1) // 2
    sock.sendall(data[:middle])
    sock.sendall(data[middle:])
    begun = time.monotonic()
    while unsent(sock) > 0 and time.monotonic() < begun + 1:
        time.sleep(0.0005)
    if not first:
        return
    with lock:
        seen["messages"] += 1
        seen["stalls"] += time.monotonic() - begun >= STALL
        print("messages", seen["messages"], "stalls", seen["stalls"], flush=True)


def forward(source, target, cut):
    target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0 if cut else 1)
    try:
        while True:
            data = source.recv(65536)
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            if cut and len(data) > 1:
                send_in_two(target, data)
            else:
                target.sendall(data)
    except OSError:  # one of the ends has reset its connection
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def main():
    whose, port = sys.argv[1], int(sys.argv[2])
    listener = socket.create_server(("127.0.0.1", 0))
    print("listening on port", listener.getsockname()[1], flush=True)
    while True:
        client = listener.accept()[0]
        try:
            server = socket.create_connection(("127.0.0.1", port))
        except OSError:
            client.close()
            continue
        for source, target, name in ((client, server, "client"), (server, client, "server")):
            threading.Thread(target=forward, args=(source, target, whose == name), daemon=True).start()


main()
