/* SPDX-License-Identifier: MIT */
/* What the exported wrappers of both libraries share: the library (calls/) and the observing
 * library (observe/calls.c). Everything here is async-signal-safe. */
#ifndef NS_WRAPPER_H
#define NS_WRAPPER_H

#include "base/real.h"

#include <linux/futex.h>
#include <stdbool.h>
#include <unistd.h>

/* For functions with libc's name and prototype; nothing else is exported. */
#define NS_EXPORT __attribute__((visibility("default")))

/* Names that only the compiler calls, under _FORTIFY_SOURCE: no header declares them otherwise. */
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
char *__fgets_chk(char *, size_t, int, FILE *);
char *__fgets_unlocked_chk(char *, size_t, int, FILE *);
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
size_t __fread_unlocked_chk(void *, size_t, size_t, size_t, FILE *);
int __uflow(FILE *);
int __vdprintf_chk(int, int, const char *, va_list);
int __dprintf_chk(int, int, const char *, ...);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);

/* Can a wait with this timeout take time? NULL: there is no timeout. */
static inline bool ns_takes_time(const struct timespec *time)
{
    return !time || time->tv_sec != 0 || time->tv_nsec != 0;
}

/* Does a futex() with that operation wait? */
static inline bool ns_futex_waits(int operation)
{
    switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI:
    case FUTEX_WAIT_REQUEUE_PI:
        return true;
    default:
        return false;
    }
}

/* Does a call of seccomp() or prctl() install a filter? strict and filter: which of the two modes
 * it asks for. A call with the filter NULL fails; programs use it to find out whether the kernel
 * supports filters. */
static inline bool ns_sets_filter(bool strict, bool filter, long program)
{
    return strict || (filter && program);
}

#endif
