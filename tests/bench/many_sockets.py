#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Usage: many_sockets.py SOCKETS BUSY: opens this many TCP sockets on loopback, both ends counted, in as many processes
as that needs. If BUSY is 1, the connections exchange a request and an answer in turn, 1 000 a second in all. Prints
"ready" when all are open; ends when its standard input does."""

import os
import resource
import signal
import socket
import sys
import time

MESSAGE = b"x" * 100
SPARE_FILES = 50


def child(count, number, pause, ready):
    """Each process has its own address, because one address has too few ports. The listener stays open: it shows
    which end is the server's."""
    listener = socket.create_server((f"127.0.{number}.1", 0), backlog=4096)
    pairs = []
    for _ in range(count):
        client = socket.create_connection(listener.getsockname())
        pairs.append((client, listener.accept()[0]))
    os.write(ready, b"r")
    while pause is None:
        signal.pause()
    while True:
        for client, server in pairs:
            client.send(MESSAGE)
            server.recv(200)
            server.send(MESSAGE)
            client.recv(200)
            time.sleep(pause)


def main():
    connections, busy = int(sys.argv[1]) // 2, sys.argv[2] == "1"
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    processes = -(-connections // ((files - SPARE_FILES) // 2))
    reading, ready = os.pipe()
    children = []
    for number in range(processes):
        count = connections // processes + (number < connections % processes)
        children.append(os.fork())
        if children[-1] == 0:
            child(count, number, processes / 1000 if busy else None, ready)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for _ in children:
            os.read(reading, 1)
        print("ready", flush=True)
        sys.stdin.read()
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


main()
