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

/* No header declares names that only the compiler calls (_FORTIFY_SOURCE, _TIME_BITS). */
#define NS_CALL(type, name, parameters, failure) type name parameters;
#include "base/calls.def"
#undef NS_CALL

/* The exported function has a second name in the call table. */
#define NS_SECOND_NAME(name, second)                                                               \
    NS_EXPORT extern __typeof__(name) second __attribute__((alias(#name), nothrow, leaf));

/* Declares an array of the count variadic arguments after the parameter last. */
#define NS_GATHER(type, array, count, last)                                                        \
    type array[count];                                                                             \
    va_list list_;                                                                                 \
    va_start(list_, last);                                                                         \
    for (int i_ = 0; i_ < (count); i_++)                                                           \
        (array)[i_] = va_arg(list_, type);                                                         \
    va_end(list_)

/* Can a wait with this struct timespec take time? NULL: there is no timeout. An invalid one is an
 * error, ready or not. */
#define NS_TAKES_TIME(time)                                                                        \
    (!(time) || ((time)->tv_sec >= 0 && (time)->tv_nsec >= 0 && (time)->tv_nsec < 1000000000 &&    \
                 ((time)->tv_sec != 0 || (time)->tv_nsec != 0)))

/* Does a wait for this semaphore take time? */
static inline bool ns_semaphore_waits(sem_t *semaphore)
{
    int value = 0;
    return NS_REAL(sem_getvalue)(semaphore, &value) != 0 || value <= 0;
}

/* The bytes that sendmmsg or recvmmsg has moved in count messages. */
static inline size_t ns_bytes_of(const struct mmsghdr *messages, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += messages[i].msg_len;
    return bytes;
}

/* The flags with which recvmsg() waits as recvmmsg() does: for all messages after the first one. */
static inline int ns_messages_flags(unsigned count, int flags)
{
    return count > 1 && !(flags & (MSG_WAITFORONE | MSG_DONTWAIT)) ? flags | MSG_WAITALL : flags;
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
