/* SPDX-License-Identifier: MIT */
/* The exported waits for descriptors. If nothing is pending, each costs one load. Otherwise held
 * bytes are pushed. If ACKs are pending, the call is first made with zero timeout (a probe): if
 * something is ready it is returned, and only if nothing is ready the ACKs are sent. As
 * async-signal-safe as the calls themselves. */
#include "calls/calls.h"

/* How to make a wait. */
enum plan {
    PLAN_AS_ASKED,
    PLAN_PROBE_FIRST, /* with zero timeout; if nothing is ready: flush, then as asked */
};

/* Before a wait that may take time, while something may be pending. Held bytes are pushed without a
 * probe, which would cost a call: their answer cannot have arrived. */
static enum plan before_wait(void)
{
    unsigned kinds = ns_pending_kinds();
    if (kinds & NS_PENDING_PUSH)
        ns_flush_pushes();
    return kinds & NS_PENDING_ACK ? PLAN_PROBE_FIRST : PLAN_AS_ASKED;
}

/* After a probe, before which something was pending. waits: see ns_probe_begins. */
static int after_probe(int result, bool waits)
{
    if (waits && result == 0)
        ns_flush_pending();
    else
        ns_flush_quiet();
    return result;
}

/* A complete wait. waits: may it take time? PROBE is the call with zero timeout, CALL the call as
 * asked. Returns from the calling function. */
#define PROBE_THEN_WAIT(waits, PROBE, CALL)                                                        \
    do {                                                                                           \
        if (!(waits)) {                                                                            \
            bool busy = ns_probe_begins();                                                         \
            return ns_pending_any() ? after_probe(CALL, busy) : (CALL);                            \
        }                                                                                          \
        ns_epoch_ends();                                                                           \
        if (ns_pending_any() && before_wait() == PLAN_PROBE_FIRST) {                               \
            int found = PROBE;                                                                     \
            if (found != 0)                                                                        \
                return found;                                                                      \
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

/* No probe for select: the call overwrites its sets, and the pointers may be bad. */
NS_EXPORT int select(int count, fd_set *reads, fd_set *writes, fd_set *errors,
                     struct timeval *timeout)
{
    if (!timeout || timeout->tv_sec != 0 || timeout->tv_usec != 0) {
        ns_before_wait();
        return NS_REAL(select)(count, reads, writes, errors, timeout);
    }
    bool busy = ns_probe_begins();
    int result = NS_REAL(select)(count, reads, writes, errors, timeout);
    return ns_pending_any() ? after_probe(result, busy) : result;
}

NS_EXPORT int pselect(int count, fd_set *reads, fd_set *writes, fd_set *errors,
                      const struct timespec *timeout, const sigset_t *mask)
{
    if (ns_takes_time(timeout)) {
        ns_before_wait();
        return NS_REAL(pselect)(count, reads, writes, errors, timeout, mask);
    }
    bool busy = ns_probe_begins();
    int result = NS_REAL(pselect)(count, reads, writes, errors, timeout, mask);
    return ns_pending_any() ? after_probe(result, busy) : result;
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
    ns_epoch_ends();
    if (ns_pending_any()) {
        if (timeout)
            ns_flush_pending();
        else if (before_wait() == PLAN_PROBE_FIRST) {
            int found = NS_REAL(epoll_pwait2)(epoll, events, most, &no_time, mask);
            if (found != 0)
                return found;
            ns_flush_pending();
        }
    }
    return NS_REAL(epoll_pwait2)(epoll, events, most, timeout, mask);
}
