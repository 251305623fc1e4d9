/* SPDX-License-Identifier: MIT */
/* A message that carries a descriptor. */
#pragma once

#include "system.h"

struct right {
    struct iovec piece;
    struct msghdr message;
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control;
};

/* A message with these bytes, which carries fd or, to receive one, has room for it (fd: -1). It is
 * valid as long as *right is. */
static inline struct msghdr *right_message(struct right *right, void *data, size_t size, int fd)
{
    *right = (struct right){.piece = {data, size},
                            .control.header = {.cmsg_len = CMSG_LEN(sizeof fd),
                                               .cmsg_level = SOL_SOCKET,
                                               .cmsg_type = SCM_RIGHTS}};
    right->message = (struct msghdr){.msg_iov = &right->piece,
                                     .msg_iovlen = 1,
                                     .msg_control = right->control.room,
                                     .msg_controllen = sizeof right->control.room};
    memcpy(CMSG_DATA(&right->control.header), &fd, sizeof fd);
    return &right->message;
}

/* The descriptor of a message that was received, or -1. */
static inline int right_of(const struct right *right)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(&right->message);
    int fd = -1;
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}
