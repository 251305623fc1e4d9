#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A line between two network namespaces: a TUN device in the namespace in which it is started, and another in its own.
`nsenter --net=/proc/PID/ns/net` with this process's PID starts a program at the far end. Packets keep their order. On SIGUSR1
it prints how many packets, segments with data and pure ACKs have left each end, and how many were dropped. Exits with 77 if
there are no TUN devices; then a test is skipped."""
import argparse
import collections
import ctypes
import fcntl
import os
import random
import select
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time

CLONE_NEWNET, TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x40000000, 0x400454CA, 1, 0x1000
NEAR_ADDRESS, FAR_ADDRESS = "10.99.0.1", "10.99.0.2"
MOST = 32768  # packets on their way in one direction; then the device's queue fills
TUN_MISSING = 77
TCP = 6
libc = ctypes.CDLL(None)


def open_driver():
    """Containers often have the driver but not its node in /dev."""
    try:
        return os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    except FileNotFoundError:
        with tempfile.TemporaryDirectory(prefix="tun-") as own:
            os.mknod(own + "/tun", stat.S_IFCHR | 0o600, os.makedev(10, 200))
            return os.open(own + "/tun", os.O_RDWR | os.O_NONBLOCK)


def make_device(name, own, peer):
    """Packets that the network namespace sends to this device are read from the descriptor, and packets written there arrive
    in the namespace. Its queue is long enough to lose nothing."""
    device = open_driver()
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    for command in ("link set lo up", f"addr add {own} peer {peer} dev {name}", f"link set {name} mtu 1500 txqueuelen 10000 up"):
        subprocess.run(["ip", *command.split()], check=True)
    return device


class Direction:
    def __init__(self, source, target):
        self.source, self.target = source, target
        self.packets = collections.deque()  # when each is due, and its bytes
        self.idle = 0  # when the bottleneck has sent what is in its queue
        self.seen = self.data = self.acks = self.dropped = 0

    def count(self, packet):
        header = (packet[0] & 15) * 4
        self.seen += 1
        if packet[0] >> 4 != 4 or packet[9] != TCP or len(packet) < header + 20:
            return
        if len(packet) > header + (packet[header + 12] >> 4) * 4:
            self.data += 1
        elif packet[header + 13] & 0x17 == 0x10:  # ACK, without SYN, FIN and RST
            self.acks += 1

    def passes(self, now, size):
        """When a packet of that size has passed the bottleneck; None if its queue is full."""
        if not line.kbit:
            return now
        begin = max(self.idle, now)
        if (begin - now) * line.kbit / 8e-3 + size > line.queue:
            return None
        self.idle = begin + size * 8e-3 / line.kbit
        return self.idle

    def take(self):
        """Takes a packet from the device. Returns whether there was one."""
        try:
            packet = os.read(self.source, 1536) if len(self.packets) < MOST else b""
        except (BlockingIOError, InterruptedError):
            return False
        if not packet:
            return False
        self.count(packet)
        due = self.passes(time.monotonic(), len(packet))
        if due is None or random.random() * 100 < line.loss:
            self.dropped += 1
            return True
        due += (line.delay_us + random.random() * line.jitter_us) / 1e6
        self.packets.append((max(due, self.packets[-1][0] if self.packets else 0), packet))
        return True

    def deliver(self):
        while self.packets and time.monotonic() >= self.packets[0][0]:
            try:
                os.write(self.target, self.packets[0][1])
            except BlockingIOError:
                return
            except OSError:
                pass  # a packet of a protocol that is switched off at the interface
            self.packets.popleft()


def report(*_):
    for name, one in zip(("near", "far"), both):
        print(f"{name} packets {one.seen} data {one.data} acks {one.acks} dropped {one.dropped}", flush=True)


def carry():
    while True:
        for one, other in (both, both[::-1]):
            one.deliver()
            while one.take():
                other.deliver()
        due = min((one.packets[0][0] for one in both if one.packets), default=None)
        wait = None if due is None else max(0, due - time.monotonic())
        select.select([one.source for one in both if len(one.packets) < MOST], [], [], wait)


def parse():
    parser = argparse.ArgumentParser(description="A line between two network namespaces, the same in either direction.")
    parser.add_argument("-l", dest="loss", type=int, default=0, help="percent of the packets that are lost")
    parser.add_argument("-j", dest="jitter_us", type=int, default=0, help="each packet takes up to so many microseconds longer")
    parser.add_argument("-r", dest="kbit", type=int, default=0, help="a bottleneck of so many kbit/s, and before it")
    parser.add_argument("-q", dest="queue", type=int, default=16000, help="a queue of so many bytes; other packets are dropped")
    parser.add_argument("delay_us", type=int)
    return parser.parse_args()


line = parse()
try:
    near = make_device("near", NEAR_ADDRESS, FAR_ADDRESS)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise PermissionError("a network namespace")
    far = make_device("far", FAR_ADDRESS, NEAR_ADDRESS)
except OSError as error:
    print(f"delay_line: {error}", file=sys.stderr)
    sys.exit(TUN_MISSING)
both = Direction(near, far), Direction(far, near)
try:  # so that other processes do not delay packets
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))
except PermissionError:
    pass
# A packet is queued on the CPU on which it was written. The next one, written on another CPU, could overtake it.
os.sched_setaffinity(0, {libc.sched_getcpu()})
signal.signal(signal.SIGUSR1, report)
print(f"near {NEAR_ADDRESS} far {FAR_ADDRESS} delay_us {line.delay_us}", flush=True)
carry()
