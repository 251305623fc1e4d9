/* SPDX-License-Identifier: MIT */
/* The exported syscall(): system calls that a program makes by number. numbers.def lists those that
 * matter. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"

#include <sched.h>
#include <sys/syscall.h>

#ifdef __s390x__
enum { FLAGS = 1 }; /* clone()'s, after its stack (CLONE_BACKWARDS2, kernel/fork.c) */
#else
enum { FLAGS = 0 };
#endif

/* Before a call, and when it is done. */
#define NS_NUMBER_OF_CALL(name, call)
static void hook(bool done, long number, const long a[6], long result)
{
    int fd = (int)a[0];
    switch (number) {
#define NS_NUMBER(name, before, after)                                                             \
    case SYS_##name:                                                                               \
        if (done) {                                                                                \
            after;                                                                                 \
        } else {                                                                                   \
            before;                                                                                \
        }                                                                                          \
        break;
#include "calls/numbers.def"
#undef NS_NUMBER
    default:
        break;
    }
}
#undef NS_NUMBER_OF_CALL

/* syscall takes up to six arguments of register size. If fewer were passed, the others are whatever
 * the registers and the stack contain, and the kernel ignores them, as with libc's own syscall. */
NS_EXPORT long syscall(long number, ...)
{
    NS_GATHER(long, a, 6, number);
    long result;
    switch (ns_thread.by_number ? -1 : number) {
#define NS_NUMBER(name, before, after)
#define NS_NUMBER_OF_CALL(name, call)                                                              \
    case SYS_##name:                                                                               \
        ns_thread.by_number = true;                                                                \
        result = call;                                                                             \
        ns_thread.by_number = false;                                                               \
        return result;
#include "calls/numbers.def"
    default:
        break;
    }
    hook(false, number, a, 0);
    result = NS_REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (result >= 0 && !ns_has_other_fds())
        hook(true, number, a, result);
    return result;
}
