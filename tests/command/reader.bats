# SPDX-License-Identifier: MIT
# Promise: What a hostile process or file shows does not hang the command, and the command opens nothing that could do harm.

load ../helpers/doctor

setup() {
    ns_setup
    ns_python
    has_ptrace || cannot_here "CAP_SYS_PTRACE is missing"
    program ordinary "$T/ordinary"
}

# within SECONDS COMMAND...: it ends by itself in that time.
within() {
    local seconds=$1
    shift
    run --separate-stderr timeout -s KILL "$seconds" "$@"
    [[ $status -lt 124 ]] || unexpected "it did not end within $seconds s: $*"
}

# only_looked_at NAME COMMAND...: makes a device of that name in the root of a process that the command starts. doctor finds it,
# and opens it only by a descriptor that cannot read.
only_looked_at() {
    local name=$1
    shift
    patient=/patient patient p pause "$@" "${enter[@]}" "$root"
    mknod "$root/$name" c 1 3 || mkfifo "$root/$name"
    run --separate-stderr strace -f -qq -y -e trace=openat,openat2,open -o "$T/calls" "$NS" doctor --pid "${NS_PID[p]}"
    expect_status 1
    grep "$name" "$T/calls" | grep ' = [0-9]' >"$T/opened" || wrong "it was not found:" "$T/calls" || return
    [[ $(grep -vc O_PATH "$T/opened") -eq 0 ]] || wrong "it was opened:" "$T/opened"
}

@test "doctor does not open a device that a container has as its ld.so.preload, or as the library" {
    make_root
    unset NAGLESHIM_POLICY_DIR
    only_looked_at etc/ld.so.preload env
    only_looked_at opt/libnagleshim.so env LD_PRELOAD=/opt/libnagleshim.so
    expect_part output "reason: /opt/libnagleshim.so is not a regular file"
}

@test "a FIFO under the name of a file that a process has mapped and removed is not opened" {
    local words
    ns_start server "$python" -c 'import ctypes, os, socket, sys, time
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
name = sys.argv[1]
file = os.open(name, os.O_RDWR | os.O_CREAT)
os.truncate(file, 4096)
# Below all others, so that it is the first to be looked at.
assert libc.mmap(0x20000, 4096, 1, 0x12, file, 0) == 0x20000
os.unlink(name)
os.mkfifo(name + " (deleted)")
listener = socket.create_server(("127.0.0.1", 0))
ends = socket.create_connection(listener.getsockname()), listener.accept()[0]
print("ready", flush=True)
while True:
    ends[0].send(b"x"), ends[1].recv(1), time.sleep(0.01)' "$T/f"
    ns_wait_for "$T/server.out" ready
    for words in "doctor --pid ${NS_PID[server]}" "diagnose --pid ${NS_PID[server]} --for 1"; do
        # shellcheck disable=SC2086 # words
        within 10 "$NS" $words
        expect_no_part output "stuck"
    done
}

# sparse FILE PART: makes a program of $T/ordinary whose notes, or whose table of symbols, fill a hole of a terabyte.
sparse() {
    "$python" - "$T/ordinary" "$@" <<'PYTHON'
import os, struct, sys
source, target, part = sys.argv[1:]
data = bytearray(open(source, "rb").read())
assert data[4] == 2, "64-bit only"
size, huge = len(data), 1 << 40
table, step, count = (*struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)) if part == "notes" else (
    *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58))
for at in range(table, table + step * count, step):
    if part == "notes" and struct.unpack_from("<I", data, at)[0] == 4:
        struct.pack_into("<Q", data, at + 8, size)
        struct.pack_into("<Q", data, at + 32, huge)
    if part == "symbols" and struct.unpack_from("<I", data, at + 4)[0] == 11:
        struct.pack_into("<QQ", data, at + 24, size, huge)
with open(target, "wb") as file:
    file.write(data)
    file.truncate(size + huge)
os.chmod(target, 0o755)
PYTHON
}

@test "an ELF file with a terabyte of notes, or of symbols, is read in a moment" {
    local part
    for part in notes symbols; do
        sparse "$T/$part" "$part" || cannot_here "no such file can be made"
        within 5 "$NS" doctor "$T/$part"
        expect_status 0
    done
}
