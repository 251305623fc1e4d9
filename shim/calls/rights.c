/* SPDX-License-Identifier: MIT */
/* Descriptors inside messages (SCM_RIGHTS, unix(7)). Reads control data only; async-signal-safe. */
#include "calls/calls.h"

#include <string.h>

/* Calls visit for each descriptor in the message. Lengths are read as 32 bits, which the kernel
 * limits them to: musl's members are that wide, with padding behind them that nobody clears. */
static void each_right(const struct msghdr *message, void (*visit)(int fd))
{
    const unsigned char *at = message->msg_control;
    size_t left = at ? (uint32_t)message->msg_controllen : 0;
    while (left >= sizeof(struct cmsghdr)) {
        struct cmsghdr header;
        memcpy(&header, at, sizeof header);
        size_t len = (uint32_t)header.cmsg_len;
        if (len < sizeof header || len > left)
            return;
        if (header.cmsg_level == SOL_SOCKET && header.cmsg_type == SCM_RIGHTS)
            for (size_t i = CMSG_LEN(0); i + sizeof(int) <= len; i += sizeof(int)) {
                int fd;
                memcpy(&fd, at + i, sizeof fd);
                visit(fd);
            }
        size_t step = CMSG_ALIGN(len);
        if (step > left)
            return;
        at += step;
        left -= step;
    }
}

static void arrives(int fd)
{
    ns_life_inherited(fd);
}

void ns_rights_leave(const struct msghdr *message)
{
    each_right(message, ns_handover_unseen);
}

void ns_rights_arrive(const struct msghdr *message)
{
    int saved = errno;
    each_right(message, arrives);
    errno = saved;
}
