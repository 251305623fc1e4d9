/* SPDX-License-Identifier: MIT */
/* The next definition of every call of calls.def, which the application would call without the
 * library. The library makes its own calls through this table, since by name they would be the
 * exported functions. Exception: the search for a policy (policy/find.c), which the command uses,
 * too. It runs before the descriptor table is open, when the exported functions pass everything
 * through. Calls that are not interposed (mmap, getpid, fnmatch) are made by name. */
#ifndef NS_REAL_H
#define NS_REAL_H

#include "base/machine.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>

#ifdef NS_TIME64
struct ns_timespec64 { /* struct __timespec64 of glibc, in little-endian order */
    int64_t tv_sec;
    int32_t tv_nsec, unused;
};
struct ns_timeval64 {
    int64_t tv_sec, tv_usec;
};
#endif

enum ns_call_id {
#define NS_CALL(result, name, parameters, failure) NS_CALL_##name,
#define NS_UNEXPORTED NS_CALL
#include "base/calls.def"
#undef NS_CALL
    NS_CALL_COUNT
};

struct ns_real {
#define NS_CALL(result, name, parameters, failure) result(*name) parameters;
#define NS_UNEXPORTED NS_CALL
#include "base/calls.def"
#undef NS_CALL
};

/* The names of the rows one after another, each with its NUL, and one more NUL. */
extern const char ns_real_names[];

/* Without a lock: every thread writes the same values. */
extern struct ns_real ns_real;

/* The next definition of a call. Looks it up if necessary, since another library's constructor may
 * run before this one's. Never NULL: if the libc lacks the call, a function that fails with ENOSYS.
 */
#define NS_REAL(name)                                                                              \
    (__builtin_expect(ns_real.name != NULL, 1)                                                     \
         ? ns_real.name                                                                            \
         : (__typeof__(ns_real.name))ns_real_load(NS_CALL_##name))

/* The same after start-up (if ns_fd_has_place). Not for calls that glibc before 2.34 has in
 * libpthread or libdl. */
#define NS_NEXT(name) (ns_real.name)

/* The value of an expression whose calls may change errno, which stays as it is. */
#define NS_QUIETLY(expression)                                                                     \
    ({                                                                                             \
        int saved = errno;                                                                         \
        __typeof__(expression) value_ = (expression);                                              \
        errno = saved;                                                                             \
        value_;                                                                                    \
    })

/* Look up all calls. Returns the function to call for id. If glibc lacks a call, its entry stays
 * NULL and the next call looks it up again, since before 2.34 libpthread or libdl, which may be
 * loaded later, can have it. errno is unchanged. Not async-signal-safe. */
void *ns_real_load(enum ns_call_id id);

/* Look up all calls. errno is unchanged. Not async-signal-safe. */
void ns_real_load_all(void);

/* Does the libc have this call? After ns_real_load_all. */
int ns_real_has(enum ns_call_id id);

#endif
