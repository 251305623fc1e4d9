/* SPDX-License-Identifier: MIT */
/* Owns the sockets of other processes that this one has for a moment, by pidfd_getfd(2). It must
 * never read, write or shut down one of them. */
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

static int set(int fd, int option, int value)
{
    return setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value) == 0 ? 0 : -errno;
}

int ns_cure_least_delack(void)
{
    /* Two ticks (TCP_TIMEOUT_MIN, include/net/tcp.h) at 1000, 500, 250 and 100 Hz. */
    static const int limits[] = {2000, 4000, 8000, 20000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP), least = -1;

    for (size_t i = 0; i < sizeof limits / sizeof *limits && least < 0; i++)
        if (set(fd, NS_DELACK_OPTION, limits[i]) == 0)
            least = limits[i];
    if (fd >= 0)
        close(fd);
    return least;
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
    return (struct ns_cure_values){get(fd, TCP_NODELAY), get(fd, NS_DELACK_OPTION)};
}

int ns_cure_set(int fd, const struct ns_cure_values *values)
{
    int error = values->nodelay >= 0 ? set(fd, TCP_NODELAY, values->nodelay) : 0;
    return !error && values->delack >= 0 ? set(fd, NS_DELACK_OPTION, values->delack) : error;
}
