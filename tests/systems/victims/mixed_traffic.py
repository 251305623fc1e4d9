# SPDX-License-Identifier: MIT
"""Requests on one kept connection that come in one write, then one that comes in two, by turns; one thread of
the server reads them, and another answers.

Usage: mixed_traffic.py serve | mixed_traffic.py ask PORT SINGLE TURNS"""

import queue
import select
import socket
import sys
import threading
import time

SIZE = 30


def serve():
    listener = socket.create_server(("127.0.0.1", 0))
    print("listening on port", listener.getsockname()[1], flush=True)
    connection, _ = listener.accept()
    requests = queue.SimpleQueue()

    def answer():
        while requests.get():
            connection.send(b"a")

    answering = threading.Thread(target=answer)
    answering.start()
    have = 0
    while True:
        select.select([connection], [], [])
        data = connection.recv(4096)
        if not data:
            break
        have += len(data)
        while have >= SIZE:
            have -= SIZE
            requests.put(True)
    requests.put(False)
    answering.join()


def ask(port, single, turns):
    late, longest = 0, 0
    connection = socket.create_connection(("127.0.0.1", port))
    for _ in range(turns):
        for _ in range(single):
            connection.send(b"x" * SIZE)
            connection.recv(1)
        begin = time.perf_counter()
        connection.send(b"head")
        connection.send(b"b" * (SIZE - 4))
        connection.recv(1)
        took = (time.perf_counter() - begin) * 1e3
        late += took > 5
        longest = max(longest, took)
    print(f"turns {turns} late {late} longest_ms {longest:.1f}")


if sys.argv[1] == "serve":
    serve()
else:
    ask(*map(int, sys.argv[2:]))
