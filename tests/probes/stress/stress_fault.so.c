/* SPDX-License-Identifier: MIT */
/* A library that is preloaded instead of nagleshim and makes the mistake that STRESS_FAULT names.
 * The stress program must detect it. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RARELY = 1000, SWAP_MOST = 4096 };

static bool does(const char *fault)
{
    const char *wanted = getenv("STRESS_FAULT");
    return wanted && strcmp(wanted, fault) == 0;
}

/* True once in a thousand calls. */
static bool does_rarely(const char *fault)
{
    static _Atomic unsigned calls;
    return does(fault) && atomic_fetch_add(&calls, 1) % RARELY == 0;
}

static ssize_t write_swapped(int fd, const void *data, size_t size)
{
    unsigned char swapped[SWAP_MOST];
    if (size < 2 || size > sizeof swapped)
        return syscall(SYS_write, fd, data, size);
    memcpy(swapped, data, size);
    swapped[0] = ((const unsigned char *)data)[1];
    swapped[1] = ((const unsigned char *)data)[0];
    return syscall(SYS_write, fd, swapped, size);
}

ssize_t write(int fd, const void *data, size_t size)
{
    if (does_rarely("swap"))
        return write_swapped(fd, data, size);
    if (size > 1 && does_rarely("lose")) {
        ssize_t n = syscall(SYS_write, fd, data, size - 1);
        return n == (ssize_t)size - 1 ? n + 1 : n;
    }
    if (does("hold")) {
        ssize_t n = send(fd, data, size, MSG_MORE);
        if (n >= 0 || errno != ENOTSOCK)
            return n;
    }
    return syscall(SYS_write, fd, data, size);
}

int close(int fd)
{
    long result = syscall(SYS_close, fd);
    if (result == 0 && does_rarely("errno"))
        errno = 0;
    return (int)result;
}

int accept(int listener, struct sockaddr *remote, socklen_t *len)
{
    if (does_rarely("leak"))
        fcntl(listener, F_DUPFD_CLOEXEC, 3);
    return (int)syscall(SYS_accept, listener, remote, len);
}
