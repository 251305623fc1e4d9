/* SPDX-License-Identifier: MIT */
/* System calls by number: the C library's open, write and close are points of cancellation, where
 * the calls that ours stand in are none, and its stat and fstat have a new symbol version in every
 * other libc. Async-signal-safe; result and errno as the call leaves them. */
#ifndef NS_SYSTEM_H
#define NS_SYSTEM_H

#include "base/real.h"

#include <fcntl.h>
#include <sys/syscall.h>

#define NS_SYSTEM(...) NS_REAL(syscall)(__VA_ARGS__)

/* A descriptor of ours that was just made, as one above 2: 0 to 2 are the application's, closed or
 * not. -1 if fd is none or there is no room for another; fd itself is closed then. */
static inline int ns_system_high(long fd)
{
    if (fd < 0 || fd > 2)
        return (int)fd;
    long high = NS_SYSTEM(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);
    NS_SYSTEM(SYS_close, fd);
    return (int)high;
}

#endif
