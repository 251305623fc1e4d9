# SPDX-License-Identifier: MIT
# Shared by the tests of `nagleshim cure` on control groups: a group, and a BPF file system that no other test sees.

load "${BASH_SOURCE[0]%/*}/doctor"
load "${BASH_SOURCE[0]%/*}/options"

setup() {
    ns_setup
    has_ptrace || cannot_here "CAP_SYS_PTRACE is missing"
    ns_python
    local root
    root=$(findmnt -nfo TARGET -t cgroup2) || cannot_here 'no cgroup2 file system is mounted'
    group=$root/nagleshim-$SRANDOM # process ids are those of a namespace
    mkdir "$group" 2>/dev/null || cannot_here 'control groups cannot be made'
    # The names of programs are in a file system that no other test sees.
    ns_start names unshare --mount sh -c 'mount -t bpf bpf /sys/fs/bpf && echo mounted; exec sleep 600'
    ns_wait_for "$T/names.out" mounted || cannot_here 'no BPF file system can be mounted'
    # With its root, which is not that of the mounts if this is a chroot.
    local names=/proc/${NS_PID[names]}
    inside=(nsenter --mount="$names/ns/mnt" --root="$names/root" --wd="$names/cwd" --)
    in_group=(sh -c "echo \$\$ >'$group/cgroup.procs' && exec \"\$@\"" sh)
    options_in=("${in_group[@]}")
}

teardown() {
    ns_teardown
    for _ in {1..200}; do
        find "$group" -depth -type d -delete 2>/dev/null; [[ -e $group ]] || return 0
        sleep 0.01
    done
}

cure() {
    run --separate-stderr "${inside[@]}" "$NS" cure "$@"
}

programs_seen() {
    "$python" tests/helpers/bpf.py count "$group"
}

# programs_are N: so many programs see the group's connections and its setsockopt calls.
programs_are() {
    local found
    found=$(programs_seen)
    # Before Linux 5.15 no program changes a setsockopt call.
    [[ $found == "$1 $1" || (${NS_KERNEL-} == 5.10.* && $found == "$1 "*) ]] || wrong "not $1 programs each, but $found"
}

# A 64-bit kernel runs no BPF program at setsockopt of a 32-bit process (do_sock_setsockopt in net/socket.c).
sees_setsockopt() {
    [[ $(uname -m) != i?86 ]] || ns_skip 'the kernel shows BPF no setsockopt of 32-bit programs'
}

sets_nodelay() {
    "$python" -c 'import os; raise SystemExit(tuple(map(int, os.uname().release.split(".")[:2])) < (6, 1))'
}

# For the tests in which the kernel sets TCP_NODELAY and the programs ask for it.
needs_nodelay() {
    sees_setsockopt
    sets_nodelay || cannot_here 'the kernel sets no TCP_NODELAY'
}
