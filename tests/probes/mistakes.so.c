/* SPDX-License-Identifier: MIT */
/* A library that is preloaded instead of nagleshim and makes the mistake that MISTAKE names, which
 * a test must detect. Without the variable it does nothing. */
#include "system.h"
#include <netinet/tcp.h>

enum { RARELY = 1000, CHANGED_MOST = 4096 };

static bool does(const char *mistake)
{
    const char *wanted = getenv("MISTAKE");
    return wanted && strcmp(wanted, mistake) == 0;
}

/* True once in a thousand calls. */
static bool does_rarely(const char *mistake)
{
    static _Atomic unsigned calls;
    return does(mistake) && atomic_fetch_add(&calls, 1) % RARELY == 0;
}

static ssize_t write_changed(int fd, const void *data, size_t size)
{
    unsigned char changed[CHANGED_MOST];
    memcpy(changed, data, size);
    changed[size - 1] ^= 1;
    return syscall(SYS_write, fd, changed, size);
}

ssize_t write(int fd, const void *data, size_t size)
{
    if (does("call"))
        syscall(SYS_fcntl, fd, F_GETFL);
    bool small = size > 0 && size <= CHANGED_MOST;
    if (small && (does("byte") || does_rarely("byte-rarely")))
        return write_changed(fd, data, size);
    size_t less = size > 1 && does_rarely("lose") ? 1 : 0;
    ssize_t n = does("hold") ? send(fd, data, size, MSG_MORE) : -1;
    if (n < 0 && (!does("hold") || errno == ENOTSOCK))
        n = syscall(SYS_write, fd, data, size - less);
    if (does("short") && n > 0 && (size_t)n < size)
        return (ssize_t)size;
    if (does("interrupted") && n < 0 && errno == EINTR)
        return write(fd, data, size);
    return less && n == (ssize_t)(size - less) ? n + 1 : n;
}

/* A system call that a sandbox may forbid. */
ssize_t read(int fd, void *data, size_t size)
{
    if (does("option"))
        setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &(int){1}, sizeof(int));
    return syscall(SYS_read, fd, data, size);
}

/* errno is changed if a call succeeds. */
ssize_t recv(int fd, void *data, size_t size, int flags)
{
    ssize_t n = syscall(SYS_recvfrom, fd, data, size, flags, NULL, NULL);
    if (does("errno") && n >= 0)
        errno = EAGAIN;
    return n;
}

int close(int fd)
{
    long result = syscall(SYS_close, fd);
    if (result == 0 && does_rarely("errno-rarely"))
        errno = 0;
    return (int)result;
}

/* A blocking send in two parts. */
ssize_t send(int fd, const void *data, size_t size, int flags)
{
    size_t half = does("split") ? size / 2 : 0;
    if (half && syscall(SYS_sendto, fd, data, half, flags, NULL, 0) != (long)half)
        return -1;
    ssize_t n = syscall(SYS_sendto, fd, (const char *)data + half, size - half, flags, NULL, 0);
    return n < 0 ? n : n + (ssize_t)half;
}

/* The mask of the call is forgotten. */
int ppoll(struct pollfd *items, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec copy;
    if (timeout)
        copy = *timeout;
    return (int)syscall(SYS_ppoll, items, count, timeout ? &copy : NULL, does("mask") ? NULL : mask,
                        8L);
}

/* A flag is dropped. */
int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    int dropped = does("cloexec") ? SOCK_CLOEXEC : does("nonblock") ? SOCK_NONBLOCK : 0;
    return (int)syscall(SYS_accept4, fd, address, length, flags & ~dropped);
}

int dup3(int fd, int to, int flags)
{
    return (int)syscall(SYS_dup3, fd, to, does("copied-flag") ? 0 : flags);
}

/* A descriptor leaks. */
int socket(int domain, int type, int protocol)
{
    int fd = (int)syscall(SYS_socket, domain, type, protocol);
    if (fd >= 0 && (does("leak") || does_rarely("leak-rarely")))
        fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return fd;
}
