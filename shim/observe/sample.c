/* SPDX-License-Identifier: MIT */
/* See sample.h. Owns nothing; must never change a socket. */
#include "observe/sample.h"

#include "base/clock.h"
#include "base/real.h"
#include "conn/kernel.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>

uint64_t ns_sample_cookie(int fd)
{
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    NS_QUIETLY(NS_REAL(getsockopt)(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size));
    return cookie;
}

bool ns_sample_blocks(int fd, int flags)
{
    if (flags & (MSG_DONTWAIT | MSG_ERRQUEUE))
        return false;
    int status = NS_QUIETLY(NS_REAL(fcntl)(fd, F_GETFL));
    return status >= 0 && !(status & O_NONBLOCK);
}

uint32_t ns_sample_unsent(int fd)
{
    int unsent = 0;
    NS_QUIETLY(NS_REAL(ioctl)(fd, SIOCOUTQNSD, &unsent));
    return unsent > 0 ? (uint32_t)unsent : 0;
}

bool ns_sample_take(int fd, bool more, enum ns_look_kind kind, struct ns_look *sample)
{
    uint64_t info[64]; /* larger than any kernel's tcp_info */
    socklen_t size = sizeof info;
    if (NS_QUIETLY(NS_REAL(getsockopt)(fd, IPPROTO_TCP, TCP_INFO, info, &size)) != 0)
        return false;
    int nodelay = ns_kernel_get(fd, IPPROTO_TCP, TCP_NODELAY);
    int cork = ns_kernel_get(fd, IPPROTO_TCP, TCP_CORK);
    *sample = (struct ns_look){.at = ns_clock_now(CLOCK_MONOTONIC), .kind = (uint8_t)kind};
    ns_look_take(sample, info, size);
    if (nodelay > 0)
        sample->flags |= NS_LOOK_NODELAY;
    if (cork > 0 || more)
        sample->flags |= NS_LOOK_CORK;
    return true;
}
