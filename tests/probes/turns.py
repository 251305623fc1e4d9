# SPDX-License-Identifier: MIT
# Two ends of TCP connections that act as their arguments say. Usage:
#
#   turns.py server PORT ROUNDS CONNECTIONS WORD...
#   turns.py client HOST PORT ROUNDS CONNECTIONS WORD...
#
# The words before ":" are executed once, those after it in every round. Each connection has its own process at both ends.
# A client prints the times of its rounds, and the segments of both ends for each round. With 0 for both numbers, a server
# serves every connection until that ends.
#
#   wN, rN      write N bytes; read N bytes, in as many reads as it takes
#   r           read the available bytes
#   sMS         sleep; sMS+STEP: STEP longer for each connection than for the one before
#   tMS         sleep until the next multiple of MS since the connection was made
#   mMS         measure the round from here; it stalls if the rest takes longer than MS (the whole, and 20)
#   fMS         read everything that comes in this time
#   iN          only one round in N has the next word
#   program     start a program, by fork and exec
#   zerocopyN   write N bytes with MSG_ZEROCOPY
#   forkN       write N bytes in a forked child, which then ends; cgiN: in a program whose output is the connection
#   nodelay, delay, cork, uncork, quickack, bbr, rcvbufN, sndbufN, lowatN    options of the socket
#   poll, select, room, selectroom    wait for input; wait for room to write
#
# Other ways to read N bytes:
#
#   allN, vectorN       by one call with MSG_WAITALL, recv or recvmsg
#   messagesN   by one recvmmsg of two messages
#   bytesN      by readv, byte by byte
#   hugeN       by reads that ask for 2 GiB - 1
#   peekN, countN, napN    once all are there, according to MSG_PEEK or FIONREAD after a poll, or to FIONREAD after a sleep
#   loopN       in an event loop whose waits never block, because a pipe is always writable
#   childN      in a forked child; startedN: in a program that it starts; newN, newallN: in a new child each time
#   threadN     each read in a new thread
#   streamN     by fread()
#   spliceN     by splices into a pipe; SPLICE_F_NONBLOCK concerns only the pipe: the socket blocks
#   attemptN    try to read, and poll if there is nothing; lookN tries only once
#   unseenN     try to read, and wait unseen by preloaded libraries if there is nothing; unseenfirstN waits first
import fcntl
import functools
import io
import itertools
import mmap
import os
import re
import select
import signal
import socket
import struct
import sys
import termios
import time

OPTIONS = {"nodelay": (socket.TCP_NODELAY, 1), "delay": (socket.TCP_NODELAY, 0),
           "cork": (socket.TCP_CORK, 1), "uncork": (socket.TCP_CORK, 0), "quickack": (socket.TCP_QUICKACK, 1)}
SIZES = {"rcvbuf": socket.SO_RCVBUF, "sndbuf": socket.SO_SNDBUF, "lowat": socket.SO_RCVLOWAT}
SEGMENTS = slice(136, 144)  # tcpi_segs_out and tcpi_segs_in in struct tcp_info


class End:
    def __init__(self, connection, place):
        self.connection = connection
        self.place = place
        self.began = time.monotonic()
        self.round = 0.0  # when the measured part of a round began
        self.limit = None  # seconds

    def action(self, word):
        """What the word does, as a function without arguments."""
        name, value = re.fullmatch(r"([a-z]+)([0-9.+]*)", word).groups()
        option = functools.partial(self.connection.setsockopt, socket.IPPROTO_TCP)
        if name in OPTIONS:
            return functools.partial(option, *OPTIONS[name])
        if name == "bbr":
            return functools.partial(option, socket.TCP_CONGESTION, name.encode())
        if name in SIZES:
            return functools.partial(self.connection.setsockopt, socket.SOL_SOCKET, SIZES[name], int(value))
        first, _, step = value.partition("+")
        number = float(first or 0) + self.place * float(step or 0)
        act = getattr(self, {"w": "write", "r": "read", "s": "sleep", "t": "tick", "m": "measure", "f": "feed"}.get(name, name))
        return functools.partial(act, number / 1e3 if name in "stmf" else int(number))

    def receive(self, size, flags=0):
        piece = self.connection.recv(size, flags)
        if not piece:
            raise EOFError
        return len(piece)

    def write(self, size):
        self.connection.sendall(b"x" * size)

    def zerocopy(self, size):
        self.connection.setsockopt(socket.SOL_SOCKET, 60, 1)  # SO_ZEROCOPY
        self.connection.send(bytes(size), 0x4000000)

    def read(self, size):
        if size == 0:
            self.receive(65536)
        while size > 0:
            size -= self.receive(size)

    def sleep(self, seconds):
        time.sleep(seconds)

    def tick(self, interval):
        since = time.monotonic() - self.began
        time.sleep(interval - since % interval)

    def measure(self, limit):
        self.round, self.limit = time.monotonic(), limit

    def feed(self, seconds):
        end = time.monotonic() + seconds
        self.connection.settimeout(0.001)
        while time.monotonic() < end:
            try:
                self.receive(65536)
            except TimeoutError:
                pass
        self.connection.settimeout(None)

    def poll(self, _=0, events=select.POLLIN):
        waits = select.poll()
        waits.register(self.connection, events)
        waits.poll()

    def room(self, _):
        self.poll(events=select.POLLOUT)

    def select(self, _):
        select.select([self.connection], [], [])

    def selectroom(self, _):
        select.select([], [self.connection], [])

    def all(self, size):
        if self.receive(size, socket.MSG_WAITALL) != size:
            raise EOFError

    def vector(self, size):
        if self.connection.recvmsg_into([bytearray(10), bytearray(size - 10)], 0, socket.MSG_WAITALL)[0] != size:
            raise EOFError

    def messages(self, size):
        if self.probe.messages_read(self.connection.fileno(), size // 2) != size:
            raise EOFError

    def bytes(self, size):
        for _ in range(size):
            if os.readv(self.connection.fileno(), [bytearray(1)]) == 0:
                raise EOFError

    @functools.cached_property
    def huge_read(self):
        room = mmap.mmap(-1, 2**31 - 1, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
        return functools.partial(io.FileIO(self.connection.fileno(), closefd=False).readinto, room)

    def huge(self, size):
        while size > 0:
            got = self.huge_read()
            if got == 0:
                raise EOFError
            size -= got

    def available(self):
        return struct.unpack("i", fcntl.ioctl(self.connection, termios.FIONREAD, bytes(4)))[0]

    # The kernel acknowledges data that stays unread when its timer fires, and no option changes this, because
    # tcp_cleanup_rbuf needs an empty queue.
    def peek(self, size):
        self.poll()
        while self.receive(size, socket.MSG_PEEK) < size:
            self.poll()
        self.read(size)

    def count(self, size):
        self.poll()
        while self.available() < size:
            self.poll()
        self.read(size)

    def nap(self, size):
        time.sleep(50e-6)
        while self.available() < size:
            time.sleep(50e-6)
        self.read(size)

    @functools.cached_property
    def pipe(self):
        return os.pipe()

    @functools.cached_property
    def event_loop(self):
        loop = select.epoll()
        loop.register(self.pipe[1], select.EPOLLOUT)
        loop.register(self.connection, select.EPOLLIN)
        return loop

    def loop(self, size):
        while size > 0:
            for fd, _ in self.event_loop.poll(maxevents=2):
                if fd == self.connection.fileno():
                    size -= self.receive(size)

    @functools.cache
    def reader(self, starts):
        """The pipes to and from a child that reads when it is told to, or starts a program that does."""
        told, says = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(told[1])
            if starts:
                fds = self.connection.fileno(), told[0], says[1]
                for fd in fds:
                    os.set_inheritable(fd, True)
                os.execv(sys.executable, [sys.executable, "-S", __file__, "reader", *map(str, fds)])
            read_as_told(self, told[0], says[1])
            os._exit(0)
        return told[1], says[0]

    def child(self, size, starts=False):
        told, says = self.reader(starts)
        os.write(told, bytes([size]))
        os.read(says, 1)

    def started(self, size):
        self.child(size, True)

    def fork(self, size, act=None):
        pid = os.fork()
        if pid == 0:
            (act or self.write)(size)
            os._exit(0)
        os.waitpid(pid, 0)

    def new(self, size):
        self.fork(size, self.read)

    def newall(self, size):
        self.fork(size, self.all)

    def cgi(self, size):
        def start(_):
            os.dup2(self.connection.fileno(), 1)
            os.execvp("head", ["head", f"-c{size}", "/dev/zero"])

        self.fork(size, start)

    def program(self, _):
        self.fork("/bin/true", lambda path: os.execv(path, ["true"]))

    def splice(self, size):
        while size > 0:
            moved = os.splice(self.connection.fileno(), self.pipe[1], size, flags=os.SPLICE_F_NONBLOCK)
            if moved == 0:
                raise EOFError
            size -= len(os.read(self.pipe[0], moved))

    def look(self, size):
        try:
            return self.receive(size, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def attempt(self, size, wait=None):
        while size > 0:
            got = self.look(size)
            size -= got
            if not got:
                (wait or self.poll)()

    @functools.cached_property
    def probe(self):
        import ctypes  # not at the start of every program
        return ctypes.CDLL("build/probes/unseen_wait.so")

    @functools.cached_property
    def stream_read(self):
        import ctypes
        libc = ctypes.CDLL(None)
        libc.fdopen.restype = ctypes.c_void_p
        stream = ctypes.c_void_p(libc.fdopen(self.connection.fileno(), b"r"))
        return lambda size: libc.fread(ctypes.create_string_buffer(size), size, 1, stream)

    def stream(self, size):
        if self.stream_read(size) != 1 and size:
            raise EOFError

    def wait_unseen(self):
        self.probe.unseen_wait(self.connection.fileno())

    def thread(self, size):
        while size > 0:
            got = self.probe.thread_read(self.connection.fileno(), size)
            if got <= 0:
                raise EOFError
            size -= got

    def unseen(self, size):
        self.attempt(size, self.wait_unseen)

    def unseenfirst(self, size):
        while size > 0:
            self.wait_unseen()
            size -= self.look(size)


def play(end, rounds, words):
    once, always = words[:words.index(":")], words[words.index(":") + 1:]
    parts = re.findall(r"(?:i(\d+) )?(\S+)", " ".join(always))
    always = [(int(every or 1), end.action(word)) for every, word in parts]
    took = []
    for word in once:
        end.action(word)()
    for turn in range(rounds) if rounds else itertools.count():
        end.round = time.monotonic()
        for every, act in always:
            if turn % every == 0:
                act()
        took.append(time.monotonic() - end.round)
    return took


def read_as_told(end, told, says):
    while size := os.read(told, 1):
        end.read(size[0])
        os.write(says, size)


def in_child(action, *arguments):
    pid = os.fork()
    if pid == 0:
        action(*arguments)
        sys.stdout.flush()
        os._exit(0)
    return pid


def serve(listener, *rest):
    answer(listener.accept()[0], *rest)


def answer(connection, place, rounds, words):
    try:
        play(End(connection, place), rounds, words)
        while connection.recv(65536):
            pass
    except (EOFError, ConnectionError):
        pass


def ask(host, port, place, rounds, words):
    end = End(socket.create_connection((host, port)), place)
    took = play(end, rounds, words)
    both = sum(struct.unpack("II", end.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 144)[SEGMENTS]))
    took = sorted(took if end.limit else took[len(took) // 4:])
    print("rounds %d median_us %.1f stalls %d both %.2f" % (
        len(took), took[len(took) // 2] * 1e6, sum(t > (end.limit or .02) for t in took), both / rounds))


def main(what, *words):
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if what == "reader":
        connection, told, says = map(int, words)
        read_as_told(End(socket.socket(fileno=connection), 0), told, says)
        return 0
    if what == "server":
        port, rounds, connections = map(int, words[:3])
        listener = socket.create_server(("", port), backlog=64)
        print("listening on port", listener.getsockname()[1], flush=True)
        call = (serve, listener)
        words = words[3:]
        signal.signal(signal.SIGCHLD, signal.SIG_DFL if connections else signal.SIG_IGN)
        while connections == 0:
            in_child(answer, listener.accept()[0], 0, rounds, words)
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
