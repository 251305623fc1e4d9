# SPDX-License-Identifier: MIT
# Two processes, each of which is a client of the other. Usage:
#
#   crossed.py peer          waits for a connection, and opens twelve to the server that it names: their requests are two writes
#   crossed.py server PORT   opens a connection to that peer, and answers its requests
#
# The peer prints "listening on port PORT".
import select
import socket
import sys
import time

HEAD, BODY = 17, 100


def listen():
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, listener.getsockname()[1]


def peer():
    listener, port = listen()
    print("listening on port", port, flush=True)
    first = listener.accept()[0]
    server = int(first.recv(10))
    time.sleep(1)
    ends = [socket.create_connection(("127.0.0.1", server)) for _ in range(12)]
    while True:
        for end in ends:
            end.send(b"h" * HEAD)
            end.send(b"b" * BODY)
            end.recv(10)


def serve(port):
    listener, own = listen()
    first = socket.create_connection(("127.0.0.1", port))
    first.send(str(own).encode())
    read = {listener: 0}
    while True:
        for end in select.select(list(read), [], [])[0]:
            if end is listener:
                read[end.accept()[0]] = 0
                continue
            read[end] += len(end.recv(HEAD + BODY))
            if read[end] == HEAD + BODY:
                read[end] = 0
                end.send(b"answer")


peer() if sys.argv[1] == "peer" else serve(int(sys.argv[2]))
