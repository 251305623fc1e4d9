/* SPDX-License-Identifier: MIT */
/* Descriptors: each process and each namespace that is watched takes some as long as it is there,
 * and reading what /proc has of them takes others for a moment. */
#ifndef NS_FD_LIMIT_H
#define NS_FD_LIMIT_H

#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>

enum { NS_FD_LIMIT_FOR_READING = 16 };

/* To the hard limit. */
static inline void ns_fd_limit_raise(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* May a descriptor that is to stay have this number? */
static inline bool ns_fd_limit_is_left(int fd)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
           (rlim_t)fd + NS_FD_LIMIT_FOR_READING < limit.rlim_cur;
}

/* Did this process lack descriptors or memory? That passes, and may be tried again. */
static inline bool ns_fd_limit_is_short(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -ENOBUFS ||
           error == -EAGAIN;
}

#endif
