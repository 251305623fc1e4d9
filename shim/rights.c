/* SPDX-License-Identifier: MIT */
/* Descriptors inside messages (SCM_RIGHTS, unix(7)). Reads control data only; async-signal-safe. */
#include "interpose.h"

#include <string.h>

/* Calls visit for each descriptor in the message. */
static void each_right(const struct msghdr *message, void (*visit)(int fd))
{
    /* CMSG_NXTHDR wants a message that is not const, and writes to nothing. */
    struct msghdr copy = *message;
    if (!copy.msg_control)
        return;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&copy); header;
         header = CMSG_NXTHDR(&copy, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
            header->cmsg_len < CMSG_LEN(0))
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            visit(fd);
        }
    }
}

static void arrives(int fd)
{
    ns_engine_inherited(fd, false);
}

void ns_rights_leave(const struct msghdr *message)
{
    each_right(message, ns_engine_never_hold);
}

void ns_rights_arrive(const struct msghdr *message)
{
    int saved = errno;
    each_right(message, arrives);
    errno = saved;
}
