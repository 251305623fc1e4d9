# SPDX-License-Identifier: MIT
# A connection that carries small records in one direction. Usage:
#
#   trickle.py sink PORT [NOTE]                 prints the port, and at the end how long the records took; sends a
#                                               note after each NOTE records
#   trickle.py send HOST PORT SIZE US COUNT [BUFFER [thread | stdin | more | cork]]
#                                               writes a record of SIZE bytes every US microseconds; notes are read
#                                               in between, or by another thread. BUFFER: SO_SNDBUF; 0: the kernel's.
#                                               stdin: the connection is standard input, too. more, cork: a record
#                                               is two writes, the first one with MSG_MORE, or both below TCP_CORK
#
# A record has its size and the time of its write. Both ends are on one machine.
import os
import select
import socket
import struct
import sys
import threading
import time

HEAD = struct.Struct("=Iq")


def sink(port, note=0):
    with socket.create_server(("", port)) as listener:
        print("listening on port", listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    took, kept = [], b""
    while data := connection.recv(65536):
        now = time.monotonic_ns()
        kept += data
        while len(kept) >= HEAD.size and len(kept) >= HEAD.unpack_from(kept)[0]:
            size, sent = HEAD.unpack_from(kept)
            took.append((now - sent) / 1e3)
            kept = kept[size:]
            if note and len(took) % note == 0:
                connection.sendall(bytes(20))
    took.sort()
    print("records %d median_us %.0f p99_us %.0f" % (len(took), took[len(took) // 2], took[len(took) * 99 // 100]))


def read_all(connection):
    while connection.recv(65536):
        pass


def send(host, port, size, interval, count, buffer=0, reader=None):
    connection = socket.create_connection((host, port))
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    if reader == "stdin":
        os.dup2(connection.fileno(), 0)
    thread = threading.Thread(target=read_all, args=[connection])
    if reader == "thread":
        thread.start()
    begun = time.monotonic_ns()
    for number in range(count):
        while (left := begun + number * interval * 1000 - time.monotonic_ns()) > 0:
            if reader == "thread":
                time.sleep(left / 1e9)
            elif select.select([connection], [], [], left / 1e9)[0]:
                connection.recv(65536)
        record = HEAD.pack(size, time.monotonic_ns()).ljust(size)
        if reader in ("more", "cork"):
            if reader == "cork":
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            connection.sendall(record[: HEAD.size], socket.MSG_MORE if reader == "more" else 0)
            record = record[HEAD.size :]
        connection.sendall(record)
        if reader == "cork":
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    connection.shutdown(socket.SHUT_WR)
    if reader == "thread":
        thread.join()
    else:
        read_all(connection)


if sys.argv[1] == "sink":
    sink(*map(int, sys.argv[2:]))
else:
    send(sys.argv[2], *map(int, sys.argv[3:8]), *sys.argv[8:])
