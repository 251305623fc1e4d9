/* SPDX-License-Identifier: MIT */
/* System calls by number: libc's open, write and close are cancellation points, while some
 * interposed calls are not, and stat and fstat have other symbol versions in other libcs. Result
 * and errno are the call's. Async-signal-safe. */
#ifndef NS_SYSTEM_H
#define NS_SYSTEM_H

#include "base/real.h"

#include <fcntl.h>
#include <sys/syscall.h>

#define NS_SYSTEM(...) NS_REAL(syscall)(__VA_ARGS__)

/* Move a new descriptor to a number above 2, because 0 to 2 belong to the application even if they
 * are closed. Returns -1 if fd is negative or no descriptor is left; then fd is closed. */
static inline int ns_system_high(long fd)
{
    if (fd < 0 || fd > 2)
        return (int)fd;
    long high = NS_SYSTEM(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);
    NS_SYSTEM(SYS_close, fd);
    return (int)high;
}

#endif
