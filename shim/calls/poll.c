/* SPDX-License-Identifier: MIT */
/* The exported waits for descriptors. If nothing is pending, each costs one load. Otherwise the
 * call is first made with zero timeout (a probe). If something is ready, its result is returned,
 * and only what has been pending for long is sent. If not, everything pending is sent, and the call
 * is made as the program asked. Nothing reads the caller's memory before the kernel has accepted
 * it. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"
#include "conn/kernel.h"

#include <string.h>

/* A complete wait. blocks: may it take time? PROBE is the call with zero timeout, CALL the call as
 * the program asked. Returns from the calling function. */
#define PROBE_THEN_WAIT(blocks, PROBE, CALL)                                                       \
    do {                                                                                           \
        ns_thread.waits++;                                                                         \
        if (!ns_pending_any())                                                                     \
            return CALL;                                                                           \
        if (!(blocks)) {                                                                           \
            int result = CALL;                                                                     \
            ns_after_probe();                                                                      \
            return result;                                                                         \
        }                                                                                          \
        if (ns_pending_before_wait()) {                                                            \
            int found = PROBE;                                                                     \
            if (found != 0) {                                                                      \
                ns_after_probe();                                                                  \
                return found;                                                                      \
            }                                                                                      \
            ns_flush_pending();                                                                    \
        }                                                                                          \
        return CALL;                                                                               \
    } while (0)

NS_EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    PROBE_THEN_WAIT(timeout != 0, NS_REAL(poll)(fds, count, 0), NS_REAL(poll)(fds, count, timeout));
}

NS_EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
    if (room / sizeof *fds < count) /* libc reports the overflow */
        return NS_REAL(__poll_chk)(fds, count, timeout, room);
    return poll(fds, count, timeout);
}

/* select overwrites its sets. They are saved before a probe. */
struct sets {
    fd_set *given[3];
    size_t size;
    fd_set saved[3];
};

/* Returns false if the kernel would not accept the sets, or if they are too large. */
static bool save_sets(struct sets *sets, int count)
{
    if (count < 0 || count > FD_SETSIZE)
        return false;
    uintptr_t known = (uintptr_t)sets;
    sets->size = ((size_t)count + NFDBITS - 1) / NFDBITS * sizeof(fd_mask);
    for (int i = 0; i < 3; i++) {
        if (!sets->given[i])
            continue;
        if (!ns_kernel_can_read(sets->given[i], sets->size, &known))
            return false;
        memcpy(&sets->saved[i], sets->given[i], sets->size);
    }
    return true;
}

static void restore_sets(const struct sets *sets)
{
    for (int i = 0; i < 3; i++)
        if (sets->given[i])
            memcpy(sets->given[i], &sets->saved[i], sets->size);
}

/* As PROBE_THEN_WAIT. Sets that cannot be saved are not probed: everything pending is sent. */
#define SELECT(blocks, PROBE, CALL)                                                                \
    struct sets sets = {.given = {reads, writes, errors}};                                         \
    PROBE_THEN_WAIT(blocks, save_sets(&sets, count) ? found_or_restored(PROBE, &sets) : 0, CALL)

/* After a probe of select. */
static int found_or_restored(int found, const struct sets *sets)
{
    if (found == 0)
        restore_sets(sets);
    return found;
}

NS_EXPORT int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    PROBE_THEN_WAIT(timeout != 0, NS_REAL(epoll_wait)(epoll, events, most, 0),
                    NS_REAL(epoll_wait)(epoll, events, most, timeout));
}

NS_EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout,
                          const sigset_t *mask)
{
    PROBE_THEN_WAIT(timeout != 0, NS_REAL(epoll_pwait)(epoll, events, most, 0, mask),
                    NS_REAL(epoll_pwait)(epoll, events, most, timeout, mask));
}

#include "calls/timed.h"

#ifdef NS_TIME64
#define timespec ns_timespec64
#define timeval ns_timeval64
#define no_time no_time64
#define probe_time probe_time64
#define ppoll __ppoll64
#define __ppoll_chk __ppoll64_chk
#define select __select64
#define pselect __pselect64
#define epoll_pwait2 __epoll_pwait2_time64
#include "calls/timed.h"
#endif
