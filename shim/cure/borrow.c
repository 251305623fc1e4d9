/* SPDX-License-Identifier: MIT */
/* Owns the sockets of other processes that this one has for a moment, by pidfd_getfd(2). It must
 * never read, write or shut down one of them. */
#include "cure/code.h"
#include "conn/delack.h"
#include "cure/cure.h"
#include "process/scope.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Headers of old C libraries lack them; the numbers are those of every architecture. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static int get(int fd, int option)
{
    int value;
    socklen_t size = sizeof value;
    return getsockopt(fd, IPPROTO_TCP, option, &value, &size) == 0 ? value : -1;
}

/* The second word tells the BPF programs of code.h that the call is not by the program. */
static int set(int fd, int option, int value)
{
    const int words[2] = {value, NS_KERNEL_MAGIC};
    const socklen_t size = option == TCP_NODELAY ? sizeof words : sizeof value;
    return setsockopt(fd, IPPROTO_TCP, option, words, size) == 0 ? 0 : -errno;
}

int ns_cure_open_process(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0)
        return fd;
    /* What a thread's id gets: EINVAL, and ENOENT since Linux 6.15. */
    return errno == EINVAL || errno == ENOENT ? -ESRCH : -errno;
}

int ns_cure_borrow(pid_t pid, int fd, uint64_t cookie)
{
    NS_AUTO_CLOSE int process = ns_cure_open_process(pid);
    uint64_t found;
    socklen_t size = sizeof found;
    if (process < 0)
        return process;
    int borrowed = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
    if (borrowed < 0)
        return -errno;
    if (getsockopt(borrowed, SOL_SOCKET, SO_COOKIE, &found, &size) == 0 && found == cookie)
        return borrowed;
    close(borrowed);
    return -ENOENT;
}

/* Has a connection inherited its mark? Then its SYN was saved. A value that is too short leaves it
 * there (do_tcp_getsockopt, net/ipv4/tcp.c). */
static bool is_inherited(int fd)
{
    enum { SAVED_SYN = 28 }; /* TCP_SAVED_SYN, linux/tcp.h */
    char byte;
    socklen_t size = sizeof byte;
    return getsockopt(fd, IPPROTO_TCP, SAVED_SYN, &byte, &size) != 0 && errno == EINVAL && size > 1;
}

struct ns_cure_values ns_cure_get(int fd)
{
    int mark = get(fd, NS_MARK_OPTION);
    if (mark == NS_MARK_OWN_0 && is_inherited(fd))
        mark = NS_MARK_OWN_1;
    return (struct ns_cure_values){get(fd, TCP_NODELAY), get(fd, NS_DELACK_OPTION), mark};
}

int ns_cure_set(int fd, const struct ns_cure_values *values)
{
    int error = values->mark > NS_MARK_NONE ? set(fd, NS_MARK_OPTION, values->mark) : 0;
    if (!error && values->nodelay >= 0)
        error = set(fd, TCP_NODELAY, values->nodelay);
    if (!error && values->delack >= 0 && !ns_group_limit(fd, values->delack))
        error = set(fd, NS_DELACK_OPTION, values->delack);
    if (!error && values->mark == NS_MARK_NONE) /* last: an undo that is killed can be repeated */
        error = set(fd, NS_MARK_OPTION, NS_MARK_NONE);
    return error;
}
