/* SPDX-License-Identifier: MIT */
/* A library that is preloaded instead of nagleshim and makes the mistake that DIFFERENTIAL_FAULT
 * names. The fuzzer must detect it. Without the variable the library does nothing. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool does(const char *fault)
{
    const char *wanted = getenv("DIFFERENTIAL_FAULT");
    return wanted && strcmp(wanted, fault) == 0;
}

/* A short write is reported as a full one. */
ssize_t write(int fd, const void *data, size_t size)
{
    ssize_t n = syscall(SYS_write, fd, data, size);
    if (does("short") && n > 0 && (size_t)n < size)
        return (ssize_t)size;
    if (does("interrupted") && n < 0 && errno == EINTR)
        return write(fd, data, size);
    return n;
}

/* errno is lost if a call fails, or changed if it succeeds. */
ssize_t recv(int fd, void *data, size_t size, int flags)
{
    ssize_t n = syscall(SYS_recvfrom, fd, data, size, flags, NULL, NULL);
    if (does("errno") && n >= 0)
        errno = EAGAIN;
    return n;
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

/* A byte changes on its way. */
ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *address,
               socklen_t length)
{
    char changed[1000];
    if (does("byte") && size > 0 && size < sizeof changed) {
        memcpy(changed, data, size);
        changed[size - 1] ^= 1;
        data = changed;
    }
    return syscall(SYS_sendto, fd, data, size, flags, address, length);
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
    if (does("leak") && fd >= 0)
        syscall(SYS_dup, fd);
    return fd;
}
