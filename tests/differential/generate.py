# SPDX-License-Identifier: MIT
"""Makes the script of a seed: first connections, and then random calls on the existing descriptors, most of which make
sense. Its assumptions about the descriptors need not be true, because the program accepts any script.

A line is a template, in which <...> is a random choice: <o:a b> one of the words, <n:6> a number below 6, <p:15:...>
a choice that is made in 15 of 100 cases, <size> and its like a function of Maker. Choices are made from right to left."""

import re

SCRIPT_MOST = 16384
SLOTS = "abcdefghijklmnopqrstuvwxyz"
# Features that only some policies allow: structures at bad addresses, and peers that close while the program writes.
BAD_ARGUMENTS, RESETS = 1, 2
# The kind of a slot.
TCP, LISTENER, EPOLL_SET, UNCONNECTED = 1, 2, 4, 8
ANY = 15
# Where a line is executed.
IN_MAIN, IN_CHILD, IN_VFORK_CHILD, IN_THREAD, IN_HANDLER = range(5)


class Maker:
    def __init__(self, seed, features):
        self.state = seed * 0x2545f4914f6cdd1d & (1 << 64) - 1
        self.features = features
        self.script = ""
        self.things = dict.fromkeys(SLOTS, 0)
        self.children = 0  # forked processes around this line
        self.place = IN_MAIN
        self.has_alarm = self.has_report = False

    # --- chance ---

    def below(self, count):
        """splitmix64"""
        mask = (1 << 64) - 1
        self.state = z = self.state + 0x9e3779b97f4a7c15 & mask
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & mask
        z = (z ^ z >> 27) * 0x94d049bb133111eb & mask
        return (z ^ z >> 31) % count

    def percent(self, chance):
        return self.below(100) < chance

    def one_of(self, words):
        words = words.split(" ")
        return words[self.below(len(words))]

    def choose(self, choice):
        kind, _, rest = choice.partition(":")
        if kind == "o":
            return self.one_of(rest)
        if kind == "n":
            return str(self.below(int(rest)))
        if kind == "p":
            chance, _, other = rest.partition(":")
            return self.choose(other) if self.percent(int(chance)) else ""
        return getattr(self, kind)() if hasattr(self, kind) else kind

    def say(self, template):
        parts = re.split("<(.*?)>", template)
        for at in range(len(parts) - 2, 0, -2):
            parts[at] = self.choose(parts[at])
        line = "".join(parts) + "\n"
        if len(line) + 200 < SCRIPT_MOST - len(self.script):
            self.script += line

    # --- words ---

    def pick(self, wanted):
        """A slot with one of these, or now and then any."""
        if self.place == IN_HANDLER:
            return "h"
        found = [slot for slot in SLOTS if self.things[slot] & wanted and slot != "h"]
        if not found and wanted != TCP and self.percent(80):
            return self.pick(TCP)
        if not found or self.percent(2):
            return SLOTS[self.below(8)]
        return found[self.below(len(found))]

    def tcp(self):
        return self.pick(TCP)

    def epoll_set(self):
        return self.pick(EPOLL_SET)

    def not_epoll(self):
        return self.pick(ANY & ~EPOLL_SET)

    def unused(self):
        for slot in SLOTS:
            if not self.things[slot] and slot != "h":
                return slot
        return SLOTS[self.below(len(SLOTS))]

    def has(self, slot, thing):
        if self.place in (IN_MAIN, IN_THREAD):
            self.things[slot] = thing

    def size(self):
        if self.place == IN_HANDLER or self.percent(75):
            return self.one_of("1 2 3 7 10 30 100 100 300 500 1000 0")
        return self.one_of("1447 1448 1449 2000 4096 4097 8192 16384 16385 30000 65536 70000")

    def bytes(self):
        """The size of a vector. Not 0: after a reset an empty writev succeeds, but auto-cork makes it a send, which fails."""
        return max(self.size(), "1", key=int)

    def send_flags(self):
        return "0" if self.percent(60) else self.one_of(
            "MSG_DONTWAIT MSG_NOSIGNAL MSG_DONTWAIT|MSG_NOSIGNAL MSG_MORE MSG_EOR MSG_CONFIRM MSG_DONTROUTE MSG_OOB "
            "MSG_MORE|MSG_DONTWAIT 0x80000000")

    def read_flags(self):
        if self.place == IN_HANDLER:
            return "MSG_DONTWAIT"
        return "0" if self.percent(45) else self.one_of(
            "MSG_DONTWAIT MSG_PEEK MSG_WAITALL MSG_TRUNC MSG_PEEK|MSG_DONTWAIT MSG_WAITALL|MSG_PEEK "
            "MSG_TRUNC|MSG_DONTWAIT MSG_OOB MSG_ERRQUEUE MSG_WAITALL|MSG_TRUNC MSG_CMSG_CLOEXEC")

    def mask(self):
        return self.one_of("- - 0 SIGUSR1 SIGUSR1|SIGUSR2")

    def set(self):
        items = []
        for _ in range(1 + self.below(3)):
            events = self.one_of("POLLIN POLLIN POLLIN POLLOUT POLLIN|POLLOUT POLLIN|POLLPRI|POLLRDHUP 0 POLLRDHUP")
            items.append(f"{self.not_epoll()}:{self.known(events)}")
        return ",".join(items)

    def known(self, events):
        """Where the peer does not read, the room for writing depends on the segments."""
        return events.replace("POLLOUT", "POLLIN") if "peer_stop" in self.script else events

    def prefix(self, may_sleep=False):
        words = ""
        if may_sleep and self.has_alarm and self.place != IN_HANDLER and self.percent(12):
            words = "interrupted "
        elif self.has_report and self.place in (IN_MAIN, IN_THREAD, IN_CHILD) and self.percent(15):
            words = f"step{1 + self.below(450)} "
        if self.features & BAD_ARGUMENTS and self.percent(2):
            words += self.one_of("bad_buffer bad_argument") + " "
        return words

    def weighted(self, rows):
        """One of the rows, each in as many cases as its weight says."""
        chosen = self.below(sum(weight for weight, _ in rows))
        for weight, row in rows:
            if chosen < weight:
                return row
            chosen -= weight

    # --- traffic ---

    def make_write(self):
        slot = self.tcp()
        start = self.prefix()
        line = self.weighted([
            (4, "write {} <size>"), (2, "send {} <size> <send_flags>"), (1, "sendto {} <size> <send_flags>"),
            (1, "writev {} <bytes> <n:6>"), (1, "<o:pwritev2 pwritev64v2> {} <bytes> <n:6> <o:0 0 0 RWF_NOWAIT RWF_HIPRI>"),
            (1, "sendmsg {} <size> <n:6> <send_flags>"), (1, "sendmmsg {} <size> <n:4> <send_flags>"),
            (1, "sendfile {} <size>"),
            (1, "splice {} <size> <o:0 0 SPLICE_F_MORE SPLICE_F_MOVE SPLICE_F_NONBLOCK>"),
            (1, "stdio {} <size>"), (1, "dprintf {} <size>"), (1, None)])
        if line is None:
            if self.percent(60):
                line = "zerocopy {} <o:1 100 2000 60000> <o:1 2 3 4 5 6>"
            elif self.place == IN_MAIN and self.has_alarm and self.percent(60):
                line = "interrupted <o:flood full> {} <o:60000 60000 4000000>"
            else:
                line = "<o:flood full> {} <o:60000 60000 4000000> <p:30:reset>"
            # How much is unsent depends on the segments. A handler writes to h, also in the middle of this.
            if "TCP_NOTSENT_LOWAT" in self.script or slot == "h":
                return
        self.say(start + line.format(slot))

    def make_burst(self):
        """Writes of a program that sends a message in many pieces."""
        slot = self.tcp()
        for _ in range(2 + self.below(6)):
            self.say(f"write {slot} <o:1 2 10 100 700>")

    def make_read(self):
        slot = self.tcp()
        if self.percent(40):
            self.say(f"peer_send {slot} <size>")
        start = self.prefix(True)
        size, flags = self.size(), self.read_flags()
        rows = [(4, "read {0} {1}"), (2, "recv {0} {1} {2}"), (1, "recvfrom {0} {1} {2}"), (1, "readv {0} {1} <n:6>"),
                (1, "<o:preadv2 preadv64v2> {0} {1} <o:1 2 3 4 5> <o:0 0 RWF_NOWAIT RWF_HIPRI>"),
                (2, "recvmsg {0} {1} <o:1 2 3 4 5> {2}"), (1, "recvmmsg {0} {1} <n:4> <wait_flags> <n:2>"),
                (1, "splice_from {0} {1} <o:0 SPLICE_F_NONBLOCK>"),
                (1, "<o:read_chk recv_chk recvfrom_chk> {0} {1} 0"), (1, "fionread {0}")]
        line = rows[1][1] if self.place == IN_HANDLER else self.weighted(rows)
        self.wait_flags = lambda: flags if self.percent(50) else self.one_of("MSG_WAITFORONE MSG_DONTWAIT")
        self.say(start + line.format(slot, size, flags))

    def make_wait(self):
        timeout = "0" if self.place == IN_HANDLER else self.one_of("0 0 1 2 -1 -1 -1")
        start = self.prefix(True)
        rows = [(3, "<o:poll poll poll_chk> <set> {}"), (2, "<o:ppoll ppoll ppoll_chk> <set> {} <mask>"),
                (1, "select <set> {}"), (1, "pselect <set> {} <mask>"),
                (3, "<o:epoll_wait epoll_pwait epoll_pwait2> <epoll_set> <o:1 2 8 8 0> {} <mask>"),
                (1, "<o:nanosleep clock_nanosleep> 200")]
        line = rows[0][1] if self.place == IN_HANDLER else self.weighted(rows)
        self.say(start + line.format(timeout))

    # --- descriptors, and what the peer does ---

    def make_epoll(self):
        epoll = self.epoll_set()
        if self.things[epoll] != EPOLL_SET:
            epoll = self.unused()
            self.say(f"epoll {epoll} <n:2>")
            self.has(epoll, EPOLL_SET)
        # Not POLLOUT with EPOLLET: the number of its events depends on segments and ACKs.
        events = self.one_of("POLLIN POLLIN POLLIN|EPOLLET POLLIN|POLLOUT POLLOUT POLLIN|EPOLLONESHOT POLLIN|POLLRDHUP")
        self.say(f"epoll_ctl {epoll} <o:add add add mod del> <not_epoll> {self.known(events)}")

    def make_option(self):
        slot = self.pick(TCP | LISTENER | UNCONNECTED)
        case = self.below(8)
        if case <= 2:
            self.say(self.prefix() + f"getsockopt {slot} <o:"
                     "TCP_NODELAY TCP_NODELAY TCP_NODELAY TCP_CORK TCP_QUICKACK TCP_MAXSEG TCP_DEFER_ACCEPT "
                     "TCP_USER_TIMEOUT TCP_KEEPIDLE TCP_NOTSENT_LOWAT TCP_INFO SO_RCVLOWAT SO_SNDBUF SO_RCVBUF SO_KEEPALIVE "
                     "SO_LINGER SO_ERROR SO_RCVTIMEO SO_TYPE SO_PROTOCOL SO_DOMAIN SO_ACCEPTCONN SO_ZEROCOPY IP_TOS "
                     "TCP_WINDOW_CLAMP SO_PRIORITY> <p:15:o:3 1 0 -1 8>")
            if self.percent(5):  # the library knows its own bound, which a child may have set, only by the whole value
                self.say(f"getsockopt {slot} TCP_DELACK_MAX_US")
        elif case <= 4:
            # The parent's shim cannot know what a forked child sets.
            unknown = self.children or self.place == IN_HANDLER  # which may run in a child
            names = "TCP_QUICKACK" if unknown else "<o:TCP_NODELAY TCP_NODELAY TCP_NODELAY TCP_QUICKACK TCP_QUICKACK>"
            self.say(self.prefix() + f"setsockopt {slot} {names}=<o:0 1 1 2> <p:4:o:3 0 8>")
        elif case == 5:
            # If the peer does not read, its room depends on the segments.
            tiny = "" if "peer_stop" in self.script else "SO_SNDBUF=0 "
            lowat = "" if self.children else "SO_RCVLOWAT=1 SO_RCVLOWAT=100 "
            self.say(f"setsockopt {slot} <o:SO_KEEPALIVE=1 {lowat}SO_RCVTIMEO=3000 SO_RCVTIMEO=0 "
                     "TCP_USER_TIMEOUT=9000 TCP_DELACK_MAX_US=20000 TCP_KEEPIDLE=77 IP_TOS=16 SO_PRIORITY=3 "
                     f"TCP_NOTSENT_LOWAT=16384 SO_SNDBUF=100000 {tiny}SO_RCVBUF=200000 SO_LINGER=-1 SO_LINGER=0 "
                     "SO_LINGER=3 TCP_DEFER_ACCEPT=1 TCP_MAXSEG=1000 SO_OOBINLINE=1 TCP_CORK=1 TCP_CORK=0 TCP_LINGER2=3 "
                     "SO_BUSY_POLL=10>")
        elif case == 6:
            self.say("descriptors" if self.percent(50) else "mask")
        elif self.percent(50):
            self.say(f"<o:getpeername getsockname> {slot} <o:16 16 4 0 -1>")
        elif self.percent(50):
            self.say(f"fionbio {slot} <o:0 0 1>")
        else:
            self.say(f"fcntl {slot} <o:F_GETFL F_GETFD F_SETFL=O_NONBLOCK F_SETFL=0 F_SETFD=FD_CLOEXEC>")

    def make_new(self):
        slot, case = self.unused(), self.below(9)
        if case <= 2:
            self.say(f"connect {slot} <o:0 0 0 SOCK_NONBLOCK SOCK_CLOEXEC SOCK_NONBLOCK|SOCK_CLOEXEC>")
            self.has(slot, TCP)
        elif case == 3:
            self.say(f"listen {slot} <o:0 0 SOCK_NONBLOCK>")
            self.has(slot, LISTENER)
        elif case <= 6:
            listener = self.pick(LISTENER)
            self.say(self.prefix(True) + f"accept {listener} {slot} <o:- - 0 SOCK_NONBLOCK SOCK_CLOEXEC "
                     "SOCK_NONBLOCK|SOCK_CLOEXEC 0x1><p:30: address>")
            self.has(slot, TCP)
        elif case == 7:
            self.say(f"socket {slot} 0")
            self.has(slot, UNCONNECTED)
        else:
            slot = self.pick(UNCONNECTED | TCP)
            self.say(self.prefix() + f"<o:reconnect reconnect refused disconnect> {slot}")
            if self.things[slot] == UNCONNECTED:
                self.has(slot, TCP)

    def make_copy(self):
        # A thread with its own descriptor table makes copies that are not in the library's.
        if "unshare" in self.script.lower():
            return
        source = self.pick(ANY)
        copy = self.unused() if self.percent(70) else self.pick(ANY)
        line = self.weighted([(2, "dup {} {}"), (1, "dupfd {} {} <p:50:cloexec>"), (1, "dup2 {} {}"),
                              (1, "dup3 {} {} <o:0 O_CLOEXEC 1>"), (1, None)])
        if line:
            self.say(line.format(source, copy))
            self.has(copy, self.things[source])
        else:
            source = self.tcp()
            if self.percent(50):
                self.say(f"lend {source} <size>")
            elif source != copy and "seccomp" not in self.script and "DELACK_MAX_US=" not in self.script:
                # After a filter the library is off. It cannot mark a socket that has a limit of its own.
                self.say(f"pass {source} {copy}")
                self.has(copy, TCP)
                self.has(source, 0)

    def make_close(self):
        slot = self.pick(ANY)
        line = self.weighted([(3, "close {}"), (1, "close_range {} <o:0 0 CLOSE_RANGE_UNSHARE>"),
                              (1, "close_range {} CLOSE_RANGE_CLOEXEC"), (1, "syscall_close {}"),
                              (2, "shutdown <tcp> <o:SHUT_WR SHUT_WR SHUT_RD SHUT_RDWR>")])
        self.say(line.format(slot))
        if not line.startswith("shutdown") and "CLOEXEC" not in line:
            self.has(slot, 0)

    def make_peer(self):
        slot = self.tcp()
        if self.percent(65):
            self.say(f"check {slot}")
        elif self.percent(50):
            self.say(f"peer_send {slot} <size>")
        elif self.percent(40):
            watched = re.search("epoll_ctl.*POLLOUT", self.script)
            stop = "" if "SO_SNDBUF=0" in self.script or watched else "peer_stop "
            self.say(f"<o:{stop}peer_resume> {slot}")
        elif self.percent(40):
            self.say(f"peer_half {slot}")
        elif self.features & RESETS:
            self.say(f"<o:peer_close peer_reset> {slot}")

    # --- processes, threads and signals ---

    def make_block(self, place, lines):
        outer, self.place = self.place, place
        self.children += place == IN_CHILD
        for _ in range(lines):
            self.make_line()
        self.children -= place == IN_CHILD
        self.place = outer
        self.say("}")

    def make_process(self):
        """A child's descriptors are its own, and end with it."""
        case = self.below(12)
        if case <= 2 and "pass " in self.script:
            return  # a child's TCP_NODELAY on a socket that was passed cannot be told from the sender's
        if case <= 2:
            self.say("fork <o:exit _exit _exit _Fork clone> {")
            self.make_block(IN_CHILD, 1 + self.below(5))
        elif case <= 4:
            self.say("vfork {" if case == 3 else "clone {")
            self.make_block(IN_VFORK_CHILD, 1 + self.below(3))
        elif case <= 6:
            self.say("thread <p:50:tight> {")
            if self.percent(15):
                self.say("unshare_range <tcp>")
            elif self.percent(15):
                self.say("unshare CLONE_FILES")
            self.make_block(IN_THREAD, 1 + self.below(5))
        elif case <= 8:
            self.say("worker {")
            self.make_block(IN_THREAD, 1 + self.below(5))
        elif case == 9 and self.percent(50):
            self.say(f"start {self.pick(TCP | LISTENER)} <size> <o:posix_spawn vfork fork clone>")
        elif case > 9 or "seccomp" not in self.script:  # the library is on in the other program and off here
            self.say(["spawn <tcp> <size> <o:posix_spawn posix_spawn vfork fork clone system popen>", "<o:seccomp altstack>",
                      "unshare <o:CLONE_FILES CLONE_FS CLONE_SYSVSEM>"][case - 9])

    def make_report(self):
        """Handlers that do I/O in the middle of calls."""
        if not self.has_report or self.place != IN_MAIN:
            return
        case = self.below(4)
        if case == 0:
            self.say("ticks <o:100 300 900> {")
            self.make_block(IN_MAIN, 1 + self.below(6))
        elif case == 1:
            self.say("jump <tcp> <n:450>")
        else:
            slots = "".join(slot for slot in SLOTS if self.things[slot] & TCP)
            for slot in slots:
                self.say(f"rounds {slot} <o:1 1 20>")
            self.say("step<n:450> log")

    def make_handler(self, name):
        self.say(f"handler {name} <o:0 SA_RESTART SA_RESTART SA_RESTART|SA_ONSTACK SA_NODEFER SA_SIGINFO> {{")
        if self.percent(15):
            self.say("fork _exit {\nwrite h 5\n}")
            self.make_block(IN_HANDLER, 0)
        else:
            self.make_block(IN_HANDLER, self.below(3))

    def make_signal(self):
        """A pending signal may end a wait that has a mask."""
        name, case = self.one_of("SIGUSR1 SIGUSR2"), self.below(6)
        if case == 2:
            self.say(f"block {name}\nraise {name}")
            self.make_wait()
        elif case == 4:
            if self.has_alarm and self.place == IN_MAIN:
                self.say("pause")
        else:
            self.say([f"<o:raise raise kill> {name}", f"<o:block block unblock> {name}", "",
                      "<o:sigtimedwait sigwait sigsuspend> <o:SIGUSR1 SIGUSR1|SIGUSR2 0> 300", "", "mask"][case])

    def make_line(self):
        """A handler, and a child with this process's memory, make only calls that are safe there."""
        careful = (self.make_write, self.make_burst, self.make_read, self.make_option, self.make_wait)
        anything = (*[self.make_write] * 4, *[self.make_burst] * 2, *[self.make_read] * 4, *[self.make_wait] * 3,
                    self.make_epoll, *[self.make_option] * 2, self.make_new, self.make_copy, self.make_close,
                    *[self.make_peer] * 3, self.make_process, self.make_signal, self.make_report)
        makers = careful if self.place in (IN_HANDLER, IN_VFORK_CHILD) else anything
        makers[self.below(len(makers))]()

    def make_script(self):
        if self.percent(40):
            self.say("report")
            self.has_report = True
        if self.percent(80):
            self.say("connect h")
            if self.percent(60):
                self.make_handler("SIGPIPE")
            else:
                self.say("signal SIGPIPE ignored")
            for name in ("SIGUSR1", "SIGUSR2", "SIGALRM"):
                self.make_handler(name)
            self.has_alarm = True
        for _ in range(1 + self.below(3)):
            slot = self.unused()
            self.say(f"connect {slot}")
            self.has(slot, TCP)
        if self.percent(20):
            slot = self.unused()
            self.say(f"listen {slot}")
            self.has(slot, LISTENER)
        for _ in range(5 + self.below(45)):
            self.make_line()
        if self.percent(30):
            self.say("end <o:exit _exit quick_exit abort signal exec pthread_exit thrd_exit sys_exit return>")
        return self.script


def generate(seed, features):
    return Maker(seed, features).make_script()
