/* SPDX-License-Identifier: MIT */
/* The limit of descriptors. Each namespace needs some permanently, and reading /proc needs others
 * for a moment. */
#ifndef NS_FD_LIMIT_H
#define NS_FD_LIMIT_H

#include <stdbool.h>
#include <sys/resource.h>

enum { NS_FD_LIMIT_FOR_READING = 16 };

/* Raise the soft limit to the hard limit. */
static inline void ns_fd_limit_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* May this descriptor stay open, so that enough are left for reading /proc? */
static inline bool ns_fd_limit_is_left(int fd)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
           (rlim_t)fd + NS_FD_LIMIT_FOR_READING < limit.rlim_cur;
}

#endif
