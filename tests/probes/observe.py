# SPDX-License-Identifier: MIT
# A client that writes a request of 12 bytes in two pieces and waits for its answer of 3 bytes: the observing library records
# its connections. Usage: observe.py PORT SCENE, where SCENE is one of the functions below.
import ctypes
import os
import select
import signal
import socket
import sys
import threading

HEADER, BODY, ANSWER, ROUNDS = b"head\n", b"bodies\n", b"ok\n", 4


def read_whole(sock, size):
    return len(sock.recv(size, socket.MSG_WAITALL)) == size


def connect():
    return socket.create_connection(("127.0.0.1", int(sys.argv[1])))


def ask(sock):
    sock.send(HEADER)
    sock.send(BODY)


def one(*options):
    sock = connect()
    for option in options:
        sock.setsockopt(socket.IPPROTO_TCP, option, 1)
    for _ in range(ROUNDS):
        ask(sock)
        assert read_whole(sock, len(ANSWER))
    assert all(sock.getsockopt(socket.IPPROTO_TCP, option) for option in options)
    sock.close()


def nodelay():
    one(socket.TCP_NODELAY)


def threads():
    for _ in range(3):
        threading.Thread(target=one).start()


def reader():
    """One thread writes to a socket, another one reads from it, and the writer waits for the reader."""
    sock, answers = connect(), threading.Semaphore(0)

    def reads():
        for _ in range(ROUNDS):
            assert read_whole(sock, len(ANSWER))
            answers.release()

    threading.Thread(target=reads).start()
    for _ in range(ROUNDS):
        ask(sock)
        answers.acquire()


def woken():
    """Before the next piece is written, a wait ends for another reason: a pipe of the program, as in event loops. The request
    is not complete then, so no answer is late."""
    sock, way = connect(), os.pipe()
    waits = select.poll()
    waits.register(sock, select.POLLIN)
    waits.register(way[0], select.POLLIN)
    for _ in range(ROUNDS):
        sock.send(HEADER[:2])
        sock.send(HEADER[2:])
        os.write(way[1], b"!")
        assert len(waits.poll()) == 1
        os.read(way[0], 8)
        sock.send(BODY)
        assert read_whole(sock, len(ANSWER))


def forks():
    one()
    if os.fork() == 0:
        one()
        os._exit(0)
    os.wait()
    one()


def connections():
    for _ in range(300):
        sock = connect()
        sock.send(HEADER + BODY)
        assert read_whole(sock, len(ANSWER))
        sock.close()


def drop_first():
    connect().close()
    os.setresuid(65534, 65534, 65534)
    one()


def drop_later():
    one()
    drop_first()


def title():
    """Overwrites arguments and environment, as servers do to set their title."""
    begin, end = map(int, open("/proc/self/stat").read().rsplit(")", 1)[1].split()[45:49:3])
    ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ").value = None
    ctypes.memset(begin, 0, end - begin)
    one()


def slow_readers():
    """Connections to peers that do not read, so that less than a segment stays unsent, and waits that end for another
    reason."""
    listener, way = socket.create_server(("127.0.0.1", 0), backlog=200), os.pipe()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    socks = [socket.create_connection(listener.getsockname()) for _ in range(200)]
    for sock in socks:
        assert sock.send(bytes(1400)) == 1400
    waits = select.poll()
    waits.register(way[0], select.POLLIN)
    for _ in range(100):
        os.write(way[1], b"!")
        waits.poll()
        os.read(way[0], 1)


def killed():
    one()
    os.kill(os.getpid(), signal.SIGKILL)


def execs():
    one()
    os.execv(sys.executable, [sys.executable, *sys.argv[:2], "one"])


globals()[sys.argv[-1]]()
print("done")
