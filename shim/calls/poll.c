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

/* The timeout of a probe for ppoll, pselect and epoll_pwait2. */
static const struct timespec no_time;

/* The kernel refuses an invalid timeout, ready or not. A probe must not hide that. */
static const struct timespec *probe_time(const struct timespec *time)
{
    enum { NS_PER_S = 1000000000 };
    bool valid = !time || (time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < NS_PER_S);
    return valid ? &no_time : time;
}

NS_EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    PROBE_THEN_WAIT(timeout != 0, NS_REAL(poll)(fds, count, 0), NS_REAL(poll)(fds, count, timeout));
}

/* libc itself reads the timeout of ppoll and pselect, so it may be read here. */
NS_EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                    const sigset_t *mask)
{
    PROBE_THEN_WAIT(ns_takes_time(timeout), NS_REAL(ppoll)(fds, count, probe_time(timeout), mask),
                    NS_REAL(ppoll)(fds, count, timeout, mask));
}

NS_EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
    if (room / sizeof *fds < count) /* libc reports the overflow */
        return NS_REAL(__poll_chk)(fds, count, timeout, room);
    return poll(fds, count, timeout);
}

NS_EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                          const sigset_t *mask, size_t room)
{
    if (room / sizeof *fds < count)
        return NS_REAL(__ppoll_chk)(fds, count, timeout, mask, room);
    return ppoll(fds, count, timeout, mask);
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

NS_EXPORT int select(int count, fd_set *reads, fd_set *writes, fd_set *errors,
                     struct timeval *timeout)
{
    struct timeval none = {0, 0};
    bool blocks = !timeout || timeout->tv_sec != 0 || timeout->tv_usec != 0;
    /* An invalid timeout is an error, ready or not. */
    bool valid = !timeout || (timeout->tv_sec >= 0 && timeout->tv_usec >= 0);
    SELECT(blocks && valid, NS_REAL(select)(count, reads, writes, errors, &none),
           NS_REAL(select)(count, reads, writes, errors, timeout));
}

NS_EXPORT int pselect(int count, fd_set *reads, fd_set *writes, fd_set *errors,
                      const struct timespec *timeout, const sigset_t *mask)
{
    SELECT(ns_takes_time(timeout),
           NS_REAL(pselect)(count, reads, writes, errors, probe_time(timeout), mask),
           NS_REAL(pselect)(count, reads, writes, errors, timeout, mask));
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

/* The kernel reads the timeout of this call, and the pointer may be bad. So a call with a timeout
 * flushes at once. */
NS_EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int most,
                           const struct timespec *timeout, const sigset_t *mask)
{
    if (timeout) {
        ns_before_wait();
        return NS_REAL(epoll_pwait2)(epoll, events, most, timeout, mask);
    }
    PROBE_THEN_WAIT(true, NS_REAL(epoll_pwait2)(epoll, events, most, &no_time, mask),
                    NS_REAL(epoll_pwait2)(epoll, events, most, timeout, mask));
}
