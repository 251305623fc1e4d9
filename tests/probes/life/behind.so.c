/* SPDX-License-Identifier: MIT */
/* Stands behind the shim, and makes moments that tests cannot wait for: in the middle of a push
 * (before it: before_push, after it: behind_push), before a held write (behind_send) and after it
 * (behind_sent). */
#include "behind.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/socket.h>

extern moment before_push, behind_push, behind_send, behind_sent;
moment before_push, behind_push, behind_send, behind_sent;

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    static int (*real)(int, int, int, const void *, socklen_t);
    if (!real)
        *(void **)&real = next("setsockopt");
    bool pushes = level == IPPROTO_TCP && name == TCP_NODELAY;
    if (pushes && before_push)
        before_push();
    int result = real(fd, level, name, value, size);
    if (pushes && behind_push)
        behind_push();
    return result;
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to,
               socklen_t len)
{
    static ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    if (!real)
        *(void **)&real = next("sendto");
    if (behind_send)
        behind_send();
    ssize_t result = real(fd, data, size, flags, to, len);
    if (behind_sent)
        behind_sent();
    return result;
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    static ssize_t (*real)(int, const void *, size_t, int);
    if (!real)
        *(void **)&real = next("send");
    if (behind_send)
        behind_send();
    ssize_t result = real(fd, data, size, flags);
    if (behind_sent)
        behind_sent();
    return result;
}
