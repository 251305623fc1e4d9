# SPDX-License-Identifier: MIT
"""bpf.py count GROUP: prints how many programs of a control group see its connections and its calls of setsockopt.
bpf.py add GROUP: adds a program of somebody else, which allows everything, until the group is removed. bpf.py only GROUP:
the same, but it allows no program beside it. bpf.py override GROUP: it allows those of inner groups, and does not run there then.
bpf.py reply GROUP: the same as add, and the program that sees connections writes its reply, as the kernel's samples do."""
import contextlib
import ctypes
import os
import resource
import struct
import sys

SOCK_OPS, SETSOCKOPT = (13, 3), (25, 22)  # enum bpf_prog_type, enum bpf_attach_type
PROG_LOAD, PROG_ATTACH, PROG_QUERY = 5, 8, 16
FLAGS = {"only": 0, "override": 1, "add": 2, "reply": 2}  # BPF_F_ALLOW_...
libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 128)
    number = {"x86_64": 321, "aarch64": 280, "i686": 357}[os.uname().machine]
    result = libc.syscall(number, command, buffer, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result, buffer.raw


with contextlib.suppress(ValueError):  # without the right to do so; only before Linux 5.11 it counts programs
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
group = os.open(sys.argv[2], os.O_RDONLY)
for kind, attach in (SOCK_OPS, SETSOCKOPT):
    if sys.argv[1] != "count":
        words = [(0xB7, 0, 0, 1), (0x95, 0, 0, 0)]
        if sys.argv[1] == "reply" and kind == SOCK_OPS[0]:
            words = [(0xB7, 2, 0, -1), (0x63, 0x21, 4, 0), *words]
        code = ctypes.create_string_buffer(b"".join(struct.pack("<BBhi", *word) for word in words))
        licence = ctypes.create_string_buffer(b"MIT")
        fields = (kind, len(words), ctypes.addressof(code), ctypes.addressof(licence))
        program, _ = bpf(PROG_LOAD, struct.pack("<IIQQ", *fields) + bytes(44) + struct.pack("<I", attach))
        bpf(PROG_ATTACH, struct.pack("<IIII", group, program, attach, FLAGS[sys.argv[1]]))
    else:
        ids = ctypes.create_string_buffer(256)
        _, result = bpf(PROG_QUERY, struct.pack("<IIIIQI", group, attach, 0, 0, ctypes.addressof(ids), 64))
        print(struct.unpack_from("<I", result, 24)[0], end="\n" if attach == SETSOCKOPT[1] else " ")
