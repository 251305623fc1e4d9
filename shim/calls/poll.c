/* SPDX-License-Identifier: MIT */
/* The exported waits for descriptors. Nothing owed: one load, then the call. Otherwise held bytes
 * are pushed, and where ACKs are owed the call is first made with no time to wait: what is ready is
 * returned at no cost, and only when nothing is are the ACKs sent. As async-signal-safe as the
 * calls themselves. */
#include "calls/calls.h"

/* What has to be done around a wait. */
enum plan {
    PLAN_AS_ASKED,
    PLAN_PROBE_FIRST, /* without waiting; and if nothing is ready settle, and as asked */
};

/* A wait that may take time, and something may be owed. Held bytes go before a first look: their
 * answer cannot be there yet, so that look would find nothing and cost a call. */
static enum plan before_wait(void)
{
    unsigned debts = ns_pending_kinds();
    if (debts & NS_PENDING_PUSH)
        ns_flush_pushes();
    return debts & NS_PENDING_ACK ? PLAN_PROBE_FIRST : PLAN_AS_ASKED;
}

/* After a call without time, and something was owed before it. waits: see ns_probe_begins. */
static int after_probe(int result, bool waits)
{
    if (waits && result == 0)
        ns_flush_pending();
    else
        ns_flush_quiet();
    return result;
}

/* A whole wait: waits says whether it may take time, LOOK is the call without any and CALL as
 * asked. Returns from the function it stands in. */
#define NS_WAIT(waits, LOOK, CALL)                                                                 \
    do {                                                                                           \
        if (!(waits)) {                                                                            \
            bool busy = ns_probe_begins();                                                         \
            return ns_pending_any() ? after_probe(CALL, busy) : (CALL);                            \
        }                                                                                          \
        ns_epoch_ends();                                                                           \
        if (ns_pending_any() && before_wait() == PLAN_PROBE_FIRST) {                               \
            int found = LOOK;                                                                      \
            if (found != 0)                                                                        \
                return found;                                                                      \
            ns_flush_pending();                                                                    \
        }                                                                                          \
        return CALL;                                                                               \
    } while (0)

/* Times as ppoll, pselect and epoll_pwait2 have them; NULL is no end. */
static const struct timespec no_time;

/* The kernel refuses any other, ready or not; so a first look must not hide it. */
static const struct timespec *probe_time(const struct timespec *time)
{
    enum { NS_PER_S = 1000000000 };
    bool valid = !time || (time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < NS_PER_S);
    return valid ? &no_time : time;
}

NS_EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    NS_WAIT(timeout != 0, NS_REAL(poll)(fds, count, 0), NS_REAL(poll)(fds, count, timeout));
}

/* The C libraries read the time of ppoll and pselect themselves. */
NS_EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                    const sigset_t *mask)
{
    NS_WAIT(ns_takes_time(timeout), NS_REAL(ppoll)(fds, count, probe_time(timeout), mask),
            NS_REAL(ppoll)(fds, count, timeout, mask));
}

NS_EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
    if (room / sizeof *fds < count) /* an overflow is the libc's to report */
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

/* The sets of a select are overwritten by the call, and may lie nowhere: so there is no first look
 * that would have to keep them. */
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
    NS_WAIT(timeout != 0, NS_REAL(epoll_wait)(epoll, events, most, 0),
            NS_REAL(epoll_wait)(epoll, events, most, timeout));
}

NS_EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout,
                          const sigset_t *mask)
{
    NS_WAIT(timeout != 0, NS_REAL(epoll_pwait)(epoll, events, most, 0, mask),
            NS_REAL(epoll_pwait)(epoll, events, most, timeout, mask));
}

/* Of this one the kernel reads the time, which may lie nowhere: whoever owes and gives one settles
 * without a look at it. */
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
