# SPDX-License-Identifier: MIT
# Two ends of TCP connections that act as their arguments say. Usage:
#
#   turns.py server PORT ROUNDS CONNECTIONS WORD...
#   turns.py client HOST PORT ROUNDS CONNECTIONS WORD...
#
# The words before ":" are executed once, those after it in every round. Each connection has its own process at both ends.
# A client prints the times of its rounds.
#
#   wN, rN      write N bytes; read N bytes, in as many reads as it takes
#   r, RN       read the available bytes; read N bytes at once, with MSG_WAITALL
#   sMS         sleep; sMS+STEP: STEP longer for each connection than for the one before
#   tMS         sleep until the next multiple of MS since the connection was made
#   mMS         measure the round from here; it stalls if the rest takes longer than MS (the whole, and 20)
#   fMS         read everything that comes in this time
#   nodelay, cork, uncork, bbr, cubic, reno, rcvbufN, sndbufN    options of the socket
import os
import signal
import socket
import sys
import time

OPTIONS = {"nodelay": (socket.TCP_NODELAY, 1), "cork": (socket.TCP_CORK, 1), "uncork": (socket.TCP_CORK, 0)}


class End:
    def __init__(self, connection, place):
        self.connection = connection
        self.place = place
        self.began = time.monotonic()
        self.round = 0.0  # when the measured part of a round began
        self.limit = None  # seconds

    def number(self, text):
        first, _, step = text.partition("+")
        return float(first) + self.place * float(step or 0)

    def read(self, size):
        while size > 0:
            piece = self.connection.recv(size)
            if not piece:
                raise EOFError
            size -= len(piece)

    def tick(self, interval):
        since = time.monotonic() - self.began
        time.sleep(interval - since % interval)

    def feed(self, seconds):
        end = time.monotonic() + seconds
        self.connection.settimeout(0.001)
        while time.monotonic() < end:
            try:
                if not self.connection.recv(65536):
                    raise EOFError
            except TimeoutError:
                pass
        self.connection.settimeout(None)

    def say(self, word):
        if word in OPTIONS:
            self.connection.setsockopt(socket.IPPROTO_TCP, *OPTIONS[word])
        elif word in ("bbr", "cubic", "reno"):
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, word.encode())
        elif word.startswith(("rcvbuf", "sndbuf")):
            option = socket.SO_RCVBUF if word.startswith("r") else socket.SO_SNDBUF
            self.connection.setsockopt(socket.SOL_SOCKET, option, int(word[6:]))
        elif word[0] == "m":
            self.round, self.limit = time.monotonic(), float(word[1:]) / 1e3
        elif word == "r":
            if not self.connection.recv(65536):
                raise EOFError
        elif word[0] == "w":
            self.connection.sendall(b"x" * int(word[1:]))
        else:
            value = self.number(word[1:])
            {"r": self.read, "R": lambda size: self.connection.recv(size, socket.MSG_WAITALL),
             "s": lambda ms: time.sleep(ms / 1e3), "t": lambda ms: self.tick(ms / 1e3),
             "f": lambda ms: self.feed(ms / 1e3)}[word[0]](int(value) if word[0] in "rR" else value)


def play(end, rounds, words):
    once, always = words[:words.index(":")], words[words.index(":") + 1:]
    took = []
    for word in once:
        end.say(word)
    for _ in range(rounds):
        end.round = time.monotonic()
        for word in always:
            end.say(word)
        took.append(time.monotonic() - end.round)
    return took


def in_child(action, *arguments):
    pid = os.fork()
    if pid == 0:
        action(*arguments)
        sys.stdout.flush()
        os._exit(0)
    return pid


def serve(listener, place, rounds, words):
    connection, _ = listener.accept()
    try:
        play(End(connection, place), rounds, words)
        while connection.recv(65536):
            pass
    except (EOFError, ConnectionError):
        pass


def ask(host, port, place, rounds, words):
    end = End(socket.create_connection((host, port)), place)
    took = play(end, rounds, words)
    took = sorted(took if end.limit else took[len(took) // 4:])
    print("rounds %d median_us %.1f stalls %d" % (len(took), took[len(took) // 2] * 1e6,
                                                  sum(t > (end.limit or .02) for t in took)))


def main(what, *words):
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if what == "server":
        port, rounds, connections = map(int, words[:3])
        listener = socket.create_server(("", port), backlog=64)
        print("listening on port", listener.getsockname()[1], flush=True)
        call = (serve, listener)
        words = words[3:]
    else:
        host = words[0]
        port, rounds, connections = map(int, words[1:4])
        call = (ask, host, port)
        words = words[4:]
    if connections == 1:
        call[0](*call[1:], 0, rounds, words)
        return 0
    children = [in_child(*call, place, rounds, words) for place in range(connections)]
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


sys.exit(main(*sys.argv[1:]))
