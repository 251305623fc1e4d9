/* SPDX-License-Identifier: MIT */
/* Is preloaded after nagleshim, and provides moments that tests cannot wait for: after a push
 * (behind_push), and before a held write (behind_send). */
#include "behind.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

extern moment behind_push, behind_send;
moment behind_push, behind_send;

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    static int (*real)(int, int, int, const void *, socklen_t);
    if (!real)
        *(void **)&real = next("setsockopt");
    int result = real(fd, level, name, value, size);
    if (level == IPPROTO_TCP && name == TCP_NODELAY && behind_push)
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
    return real(fd, data, size, flags, to, len);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    static ssize_t (*real)(int, const void *, size_t, int);
    if (!real)
        *(void **)&real = next("send");
    if (behind_send)
        behind_send();
    return real(fd, data, size, flags);
}
