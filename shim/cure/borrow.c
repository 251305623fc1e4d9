/* SPDX-License-Identifier: MIT */
/* Owns the sockets of other processes that this one has for a moment, by pidfd_getfd(2). It must
 * never read, write or shut down one of them. */
#include "cure/code.h"
#include "cure/cure.h"

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
    int process = ns_cure_open_process(pid), borrowed, error;
    uint64_t found;
    socklen_t size = sizeof found;
    if (process < 0)
        return process;
    borrowed = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
    error = borrowed < 0 ? -errno : 0;
    close(process);
    if (error)
        return error;
    if (getsockopt(borrowed, SOL_SOCKET, SO_COOKIE, &found, &size) == 0 && found == cookie)
        return borrowed;
    close(borrowed);
    return -ENOENT;
}

struct ns_cure_values ns_cure_get(int fd)
{
    return (struct ns_cure_values){get(fd, TCP_NODELAY), get(fd, NS_DELACK_OPTION),
                                   get(fd, NS_MARK_OPTION)};
}

int ns_cure_set(int fd, const struct ns_cure_values *values)
{
    int error = values->mark >= 0 ? set(fd, NS_MARK_OPTION, values->mark) : 0;
    if (!error && values->nodelay >= 0)
        error = set(fd, TCP_NODELAY, values->nodelay);
    if (!error && values->delack >= 0 && !ns_group_limit(fd, values->delack))
        error = set(fd, NS_DELACK_OPTION, values->delack);
    return error;
}
