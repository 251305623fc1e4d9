/* SPDX-License-Identifier: MIT */
/* The next definition of every interposed call: what the application would have reached without us.
 * Whatever the shim itself asks of one of these calls goes through this table, since by its own
 * name it would come back to us. But for the search for a policy (policy/find.c), which the command
 * has, too: it reads its files before the table of descriptors is open, and our calls pass it on.
 * Calls that are not interposed (mmap, getsockname, readlink) are made by their own names. */
#ifndef NS_REAL_H
#define NS_REAL_H

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <pty.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>

enum ns_call_id {
#define NS_CALL(result, name, parameters, failure) NS_CALL_##name,
#include "base/calls.def"
#undef NS_CALL
    NS_CALL_COUNT
};

struct ns_real {
#define NS_CALL(result, name, parameters, failure) result(*name) parameters;
#include "base/calls.def"
#undef NS_CALL
};

/* Written once per entry, with the same value whoever writes it; so no lock. */
extern struct ns_real ns_real;

/* The next definition of one call, looked up if it was not yet: a constructor that runs before ours
 * calls us early. Never NULL: where the libc lacks the call, a function that fails with ENOSYS. */
#define NS_REAL(name)                                                                              \
    (__builtin_expect(ns_real.name != NULL, 1)                                                     \
         ? ns_real.name                                                                            \
         : (__typeof__(ns_real.name))ns_real_load(NS_CALL_##name))

/* The same where start-up is known to be done (ns_fd_is_open says so); not for calls
 * that a glibc before 2.34 has in libpthread or libutil. */
#define NS_NEXT(name) (ns_real.name)

/* Look a call up, and all others with it; returns what to call. Where a glibc before 2.34 lacks a
 * call of libpthread or libutil its entry stays NULL, and the next call looks again: the library
 * may have been loaded since. errno unchanged. Not async-signal-safe. */
void *ns_real_load(enum ns_call_id id);

/* Look all of them up. errno unchanged. Not async-signal-safe. */
void ns_real_load_all(void);

/* Does the libc have this call? After ns_real_load_all. */
int ns_real_has(enum ns_call_id id);

/* A function of libc that is not interposed and that an old libc keeps in a library of its own
 * (libpthread): NULL if this process has not loaded it. */
void *ns_real_optional(const char *name);

#endif
