# SPDX-License-Identifier: MIT
# A process with a TCP connection that makes whoever looks at it wait. Usage, as root in a mount namespace of its own:
# stuck.py DIRECTORY [FORM [USER [NAMESPACE]]]. It prints "stuck PID". The user is one of that user namespace. The forms:
#   lock (or none)  it is stuck in the kernel with the lock of its memory held: it unmaps a changed page of a file on a FUSE
#                   file system that does not answer any more
#   page            its memory has a page of such a file, which it does not touch itself
#   send            a thread sends another page of such a file, and has locked its socket meanwhile
#   fifo            it has mapped and removed a file, and made a FIFO under the name that its list of mappings shows
import ctypes
import os
import signal
import socket
import struct
import sys
import threading
import time

INIT, LOOKUP, GETATTR, OPEN, READ, FORGET, INTERRUPT = 26, 1, 3, 14, 15, 2, 36
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def attributes(inode):
    return struct.pack("<QQQQQQIIIIIIIIII", inode, 8192, 16, 0, 0, 0, 0, 0, 0, 0o040755 if inode == 1 else 0o100666, 1, 0, 0, 0, 4096, 0)


def serve(device, dead):
    answers = {
        INIT: struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 12, 12, 1 << 17, 1, 32, 0, 0),
        LOOKUP: struct.pack("<QQQQII", 2, 0, 0, 0, 0, 0) + attributes(2),
        OPEN: struct.pack("<QII", 1, 0, 0),
        READ: b"x" * 4096,
    }
    while True:
        request = os.read(device, 1 << 20)
        _, what, unique, node = struct.unpack_from("<IIQQ", request)
        if what in (FORGET, INTERRUPT) or os.path.exists(dead):
            continue
        answer = struct.pack("<QII", 0, 0, 0) + attributes(node) if what == GETATTR else answers.get(what)
        os.write(device, struct.pack("<IiQ", 16 + len(answer or b""), 0 if answer is not None else -38, unique) + (answer or b""))


# Below all others, so that it is the first to be looked at, if it is the file's first page.
def map_first(name, offset=0):
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    assert libc.mmap(0x20000, 4096, 1, 0x11, file, offset) == 0x20000
    os.close(file) # else its end would wait, too


def become_fifo(directory):
    name = directory + "/file"
    with open(name, "wb") as file:
        file.truncate(4096)
    map_first(name)
    os.unlink(name)
    os.mkfifo(name + " (deleted)")


def become_stuck(directory, dead, form, user, namespace):
    pid = os.readlink("/proc/self") # outside of a PID namespace of its own, too
    if form == "lock":
        page = libc.mmap(None, 4096, 3, 1, os.open(directory + "/file", os.O_RDWR), 0)
    elif form in ("page", "send"):
        map_first(directory + "/file", 0 if form == "page" else 4096)
    else:
        become_fifo(directory)
    listener = socket.create_server(("127.0.0.1", 0))
    ends = [socket.create_connection(listener.getsockname()), listener.accept()[0]]
    if form == "lock":
        ctypes.memset(page, 65, 1)
    if form != "fifo":
        open(dead, "w").close()
    if namespace and libc.setns(os.open(namespace, os.O_RDONLY), 0):
        sys.exit("setns: " + os.strerror(ctypes.get_errno()))
    os.setresuid(user, user, user)

    def call(after, function, *arguments):
        time.sleep(after)
        function(*arguments)

    # A thread that waits for the lock, to write, makes all readers wait.
    calls = ((0.2, libc.munmap, page, 4096), (0.4, libc.mmap, None, 4096, 3, 0x22, -1, 0)) if form == "lock" else ()
    for words in ((0.2, libc.send, ends[0].fileno(), ctypes.c_void_p(0x20000), 4096, 0),) if form == "send" else calls:
        threading.Thread(target=call, args=words, daemon=True).start()
    time.sleep(0.6)
    print("stuck", pid, flush=True)
    time.sleep(60)
    return ends


def main(directory, form="lock", user="0", namespace=None):
    dead = directory + ".dead"
    if form == "fifo":
        become_stuck(directory, dead, form, int(user), namespace)
        return
    device = os.open("/dev/fuse", os.O_RDWR)
    if libc.mount(b"stuck", directory.encode(), b"fuse", 0, b"fd=%d,rootmode=40000,user_id=0,group_id=0" % device):
        sys.exit("mount: " + os.strerror(ctypes.get_errno()))
    child = os.fork()
    if child == 0:
        os.close(device)
        become_stuck(directory, dead, form, int(user), namespace)
        os._exit(0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    serve(device, dead) # its end ends the file system, and with it the child's wait


main(*sys.argv[1:])
