#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Usage: many_sockets.py SOCKETS BUSY: so many TCP sockets on loopback, both ends counted, in as many processes
as that takes. With BUSY (1) their connections send a request and an answer by turns, 1 000 a second in all.
Prints "ready" when all are there; ends when its standard input does.
"""

import os
import resource
import socket
import sys
import threading
import time

MESSAGE = b"x" * 100
SPARE_FILES = 50


def connect(count, number):
    """Each process has an address of its own: one has too few ports. The listener stays: it tells which end
    is the server's."""
    listener = socket.create_server((f"127.0.{number}.1", 0), backlog=4096)
    pairs = []
    for _ in range(count):
        one = socket.create_connection(listener.getsockname())
        pairs.append((one, listener.accept()[0]))
    return listener, pairs


def talk(pairs, pause):
    while True:
        for client, server in pairs:
            client.send(MESSAGE)
            server.recv(200)
            server.send(MESSAGE)
            client.recv(200)
            time.sleep(pause)


def end_with(alive):
    os.read(alive, 1)
    os._exit(0)


def child(count, number, busy, processes, ready, alive):
    threading.Thread(target=end_with, args=(alive,), daemon=True).start()
    _listener, pairs = connect(count, number)
    os.write(ready, b"r")
    if busy:
        talk(pairs, processes / 1000)
    threading.Event().wait()


def main():
    connections, busy = int(sys.argv[1]) // 2, sys.argv[2] == "1"
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    most = (files - SPARE_FILES) // 2
    processes = -(-connections // most)
    reading, ready = os.pipe()
    alive, own = os.pipe()  # nobody ever writes there; it ends when this process does
    for number in range(processes):
        count = connections // processes + (number < connections % processes)
        if os.fork() == 0:
            os.close(own)
            child(count, number, busy, processes, ready, alive)
    for _ in range(processes):
        os.read(reading, 1)
    print("ready", flush=True)
    sys.stdin.read()


main()
