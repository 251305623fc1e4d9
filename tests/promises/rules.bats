# SPDX-License-Identifier: MIT
# Promise: In every mode the program's own calls reach the kernel unchanged, and no call takes memory or a lock on the way.

load ../helpers/common

# calls PRELOAD: the writes and reads that a program makes on its connections, as the kernel gets them.
calls() {
    cat >"$T/calls.py" <<'END'
import os, socket, select
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far = listener.accept()[0]
file = os.memfd_create("file")
os.write(file, b"file")
for _ in range(4):
    for _ in range(5):
        os.write(near.fileno(), b"write")
    near.send(b"send")
    near.send(b"more", socket.MSG_MORE)
    near.sendto(b"sendto", near.getpeername())
    os.writev(near.fileno(), [b"write", b"v"])
    near.sendmsg([b"send", b"msg"], [], socket.MSG_NOSIGNAL)
    near.send(b"!", socket.MSG_OOB)
    os.sendfile(near.fileno(), file, 0, 4)
    select.select([near], [near], [], 1)
    os.write(near.fileno(), b"room")
    select.select([near], [], [], 0.001)
    far.recv(1, socket.MSG_WAITALL)
    far.recv(4096)
    far.send(b"answer")
    near.recv(3)
    os.readv(near.fileno(), [bytearray(3)])
END
    strace -f -qq -o "$T/trace" -e trace=write,writev,sendto,sendmsg,sendfile,read,readv,recvfrom,setsockopt,?send,?recv,?sendfile64 \
        -E LD_PRELOAD="$1" python3 "$T/calls.py"
    # From the first write on, with one port for all runs. A read may be made without waiting first. The program sets no option.
    sed -nE '/"write"/,$ { /setsockopt/d; s/^[0-9]+ +//; s/htons\([0-9]+\)/PORT/; /MSG_DONTWAIT.*EAGAIN/d; s/MSG_DONTWAIT/0/; p }' \
        "$T/trace"
}

@test "in every mode the program's writes and reads reach the kernel with its own arguments" {
    ns_needs_strace
    local mode policy
    calls '' >"$T/without"
    [[ $(wc -l <"$T/without") -gt 60 ]]
    while IFS='|' read -r mode policy; do
        echo "$mode"
        NAGLESHIM_POLICY=$policy calls "$LIBRARY" >"$T/with"
        diff "$T/without" "$T/with"
        # The library has treated the connection.
        grep -q 'setsockopt(.*TCP_NODELAY' "$T/trace"
    done < <(tests/modes)
}

@test "the test of unchanged calls notices one that is changed" {
    ns_needs_strace
    calls '' >"$T/without"
    MISTAKE=hold calls "$PROBES/mistakes.so" >"$T/with"
    run ! diff -q "$T/without" "$T/with"
}

@test "no call allocates or takes the loader's lock on its way to the kernel" {
    local mode policy
    while IFS='|' read -r mode policy; do
        echo "$mode"
        [[ $(NAGLESHIM_POLICY=$policy NAGLESHIM_LOG=info LD_PRELOAD=$LIBRARY "$PROBES/takes_nothing" 2>"$T/log") == ended ]]
        grep -q ' sockets [1-9]' "$T/log"
    done < <(tests/modes)
}

@test "a call with a bad pointer fails with EFAULT, although something is pending or the option is rewritten" {
    cat >"$T/bad.py" <<'END'
import ctypes, errno, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
bad = ctypes.c_void_p(libc.mmap(None, 4096, 0, 0x22, -1, 0))  # a page without access
soon, also = (ctypes.c_long * 2)(0, 1000000), (ctypes.c_long * 2)(0, 1000)
near = socket.create_connection((listener := socket.create_server(("127.0.0.1", 0))).getsockname())
most = near.fileno() + 1
for call, *arguments in ((libc.setsockopt, most - 1, 1, socket.SO_SNDBUF, bad, 4), (libc.poll, bad, 1, 1), (libc.ppoll, bad, 1, soon, None),
                         (libc.select, most, bad, None, None, also), (libc.pselect, most, None, bad, None, soon, None)):
    for _ in range(6):
        near.send(b"piece")
    assert (call(*arguments), ctypes.get_errno()) == (-1, errno.EFAULT), arguments
# A message to a UNIX socket, whose one descriptor is at the end of what can be read.
pages = libc.mmap(None, 8192, 3, 0x22, -1, 0)
libc.mprotect(ctypes.c_void_p(pages + 4096), 4096, 0)
right = struct.pack("Niii0N", struct.calcsize("Niii"), socket.SOL_SOCKET, socket.SCM_RIGHTS, near.fileno())
ctypes.memmove(pages + 4096 - len(right), right, len(right))
text = ctypes.create_string_buffer(b"right", 5)
vector = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(text), 5))
def message(control):
    return struct.pack("PiPNPNi0P", 0, 0, ctypes.addressof(vector), 1, control, len(right), 0)
one, other = socket.socketpair()
good = message(pages + 4096 - len(right))
assert libc.sendmsg(one.fileno(), good, 0) == 5
assert libc.sendmmsg(one.fileno(), 2 * (good + struct.pack("I0P", 0)), 2, 0) == 2
for _ in range(3):
    said, fds, *_ = socket.recv_fds(other, 5, 1)
    assert said == b"right" and os.path.sameopenfile(near.fileno(), fds[0])
for wrong in bad, message(bad.value), message(pages + 4097 - len(right)):
    assert (libc.sendmsg(one.fileno(), wrong, 0), ctypes.get_errno()) == (-1, errno.EFAULT), wrong
END
    python3 "$T/bad.py"
    NAGLESHIM_POLICY='{"version": 1, "rules": [{"sockopt": {"SO_SNDBUF": "ignore"}}]}' NAGLESHIM_LOG=info \
        LD_PRELOAD=$LIBRARY python3 "$T/bad.py" 2>"$T/log"
    grep -q ' pushes [1-9]' "$T/log"
}
