/* SPDX-License-Identifier: MIT */
/* The exported waits. If nothing is pending, each costs one load. Otherwise a wait for descriptors
 * or children is first made without waiting (a probe). If something is ready, its result is
 * returned, and only what has been pending for long is sent. If not, everything pending is sent,
 * and the call is made as the program asked. Nothing reads the caller's memory before the kernel
 * has accepted it. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"
#include "conn/kernel.h"

#include <string.h>

/* The timeout of a probe. */
static const struct timespec no_time;

/* select overwrites its sets. They are saved before a probe. */
struct sets {
    size_t size;
    fd_set saved[3];
};

/* Returns false if the kernel would not accept the sets, or if they are too large. */
static bool save_sets(struct sets *sets, fd_set *const given[3], int count)
{
    if (count < 0 || count > FD_SETSIZE)
        return false;
    uintptr_t known = (uintptr_t)sets;
    sets->size = ((size_t)count + NFDBITS - 1) / NFDBITS * sizeof(fd_mask);
    for (int i = 0; i < 3; i++) {
        if (!given[i])
            continue;
        if (!ns_kernel_can_read(given[i], sets->size, &known))
            return false;
        memcpy(&sets->saved[i], given[i], sets->size);
    }
    return true;
}

/* The probe of select, and of pselect with its mask. Sets that cannot be saved are not probed. */
static int select_now(int count, fd_set *const given[3], const sigset_t *const *mask)
{
    struct sets sets;
    if (!save_sets(&sets, given, count))
        return 0;
    struct timeval none = {0, 0};
    int found = mask ? NS_REAL(pselect)(count, given[0], given[1], given[2], &no_time, *mask)
                     : NS_REAL(select)(count, given[0], given[1], given[2], &none);
    for (int i = 0; i < 3 && found == 0; i++)
        if (given[i])
            memcpy(given[i], &sets.saved[i], sets.size);
    return found;
}

/* The part that is used while something is pending is out of line, so that the other one saves no
 * registers. */
#define WAIT(type, name, parameters, arguments, when, probe, failure)                              \
    __attribute__((noinline)) static type pending_##name parameters                                \
    {                                                                                              \
        type result;                                                                               \
        if (!(when)) {                                                                             \
            result = NS_REAL(name) arguments;                                                      \
            ns_flush_old();                                                                        \
            return result;                                                                         \
        }                                                                                          \
        if (ns_pending_before_wait() && (result = (probe)) != 0) {                                 \
            ns_flush_old();                                                                        \
            return result;                                                                         \
        }                                                                                          \
        ns_flush_pending();                                                                        \
        return NS_REAL(name) arguments;                                                            \
    }                                                                                              \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        ns_thread.waits++;                                                                         \
        return ns_pending_any() ? pending_##name arguments : NS_REAL(name) arguments;              \
    }

#define NS_CALL(...)
#define NS_WAIT(...) WAIT(__VA_ARGS__) /* which expands the name */

/* Waits for time, signals, threads and anything else. */
#define NS_SLEEP(type, name, parameters, arguments, failure)                                       \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        ns_before_wait();                                                                          \
        return NS_REAL(name) arguments;                                                            \
    }
#include "base/calls.def"
