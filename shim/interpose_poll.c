/* SPDX-License-Identifier: MIT */
/* The exported waits for descriptors. Nothing owed: one load, then the call. Otherwise held bytes
 * are pushed, and where ACKs are owed the call is first made with no time to wait: what is ready is
 * returned at no cost, and only when nothing is are the ACKs sent. As async-signal-safe as the
 * calls themselves. */
#include "interpose.h"

#include <string.h>

/* What has to be done around a wait. */
enum plan {
    PLAN_PLAIN, /* as asked */
    PLAN_AFTER, /* it does not wait: as asked, and if nothing was ready settle */
    PLAN_FIRST, /* without waiting first; then settle, and as asked */
};

static enum plan make_plan(bool waits)
{
    unsigned debts = ns_owed();
    if (!debts)
        return PLAN_PLAIN;
    if (!waits)
        return PLAN_AFTER;
    /* Held bytes go before the first look, not after it: their answer cannot be there yet, so that
     * look would find nothing and cost a call. */
    if (debts & NS_OWES_PUSH)
        ns_settle(NS_OWES_PUSH);
    return debts & NS_OWES_ACK ? PLAN_FIRST : PLAN_PLAIN;
}

static inline int settle_if_nothing(int result)
{
    if (result == 0)
        ns_settle(NS_OWES_ALL);
    return result;
}

static bool is_zero(const struct timespec *timeout)
{
    return timeout && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
}

/* The kernel refuses any other, ready or not; so a first look must not hide it. */
static bool is_valid(const struct timespec *timeout)
{
    return !timeout ||
           (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && timeout->tv_nsec < 1000000000);
}

static const struct timespec no_time;

/* WAIT(time): the call with another time to wait; asked: as the application has it. Returns from
 * the function it stands in. */
#define NS_WAIT(waits, without_waiting, as_asked)                                                  \
    do {                                                                                           \
        enum plan plan = ns_owes() ? make_plan(waits) : PLAN_PLAIN;                                \
        if (plan == PLAN_AFTER)                                                                    \
            return settle_if_nothing(as_asked);                                                    \
        if (plan == PLAN_FIRST) {                                                                  \
            int found = settle_if_nothing(without_waiting);                                        \
            if (found != 0)                                                                        \
                return found;                                                                      \
        }                                                                                          \
        return as_asked;                                                                           \
    } while (0)

NS_EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    NS_WAIT(timeout != 0, NS_REAL(poll)(fds, count, 0), NS_REAL(poll)(fds, count, timeout));
}

NS_EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                    const sigset_t *mask)
{
    NS_WAIT(!is_zero(timeout),
            NS_REAL(ppoll)(fds, count, is_valid(timeout) ? &no_time : timeout, mask),
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

/* The sets of a select, which the call overwrites: kept for the second one. No more than an fd_set
 * holds: programs pass getdtablesize() with sets of that size, and the kernel looks no further than
 * the descriptors there are. */
enum { SELECT_MOST = FD_SETSIZE, SELECT_LONGS = SELECT_MOST / (8 * (int)sizeof(long)) };
struct sets {
    long kept[3][SELECT_LONGS];
    size_t size;
};

static bool sets_keep(struct sets *sets, int count, fd_set *const given[3])
{
    if (count < 0 || count > SELECT_MOST)
        return false;
    /* The kernel reads and writes whole longs (core_sys_select, fs/select.c). */
    size_t bits = 8 * sizeof(long);
    sets->size = ((size_t)count + bits - 1) / bits * sizeof(long);
    for (int i = 0; i < 3; i++)
        if (given[i])
            memcpy(sets->kept[i], given[i], sets->size);
    return true;
}

static void sets_restore(const struct sets *sets, fd_set *const given[3])
{
    for (int i = 0; i < 3; i++)
        if (given[i])
            memcpy(given[i], sets->kept[i], sets->size);
}

NS_EXPORT int select(int count, fd_set *reads, fd_set *writes, fd_set *errors,
                     struct timeval *timeout)
{
    enum plan plan = PLAN_PLAIN;
    if (ns_owes())
        plan = make_plan(!timeout || timeout->tv_sec != 0 || timeout->tv_usec != 0);
    if (plan == PLAN_FIRST && (!timeout || (timeout->tv_sec >= 0 && timeout->tv_usec >= 0))) {
        fd_set *const given[3] = {reads, writes, errors};
        struct sets sets;
        struct timeval none = {0, 0};
        if (sets_keep(&sets, count, given)) {
            int found = NS_REAL(select)(count, reads, writes, errors, &none);
            if (found != 0)
                return found;
            sets_restore(&sets, given);
        }
        ns_settle(NS_OWES_ALL);
    }
    int result = NS_REAL(select)(count, reads, writes, errors, timeout);
    return plan == PLAN_AFTER ? settle_if_nothing(result) : result;
}

NS_EXPORT int pselect(int count, fd_set *reads, fd_set *writes, fd_set *errors,
                      const struct timespec *timeout, const sigset_t *mask)
{
    enum plan plan = ns_owes() ? make_plan(!is_zero(timeout)) : PLAN_PLAIN;
    if (plan == PLAN_FIRST && is_valid(timeout)) {
        fd_set *const given[3] = {reads, writes, errors};
        struct sets sets;
        if (sets_keep(&sets, count, given)) {
            int found = NS_REAL(pselect)(count, reads, writes, errors, &no_time, mask);
            if (found != 0)
                return found;
            sets_restore(&sets, given);
        }
        ns_settle(NS_OWES_ALL);
    }
    int result = NS_REAL(pselect)(count, reads, writes, errors, timeout, mask);
    return plan == PLAN_AFTER ? settle_if_nothing(result) : result;
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

NS_EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int most,
                           const struct timespec *timeout, const sigset_t *mask)
{
    NS_WAIT(
        !is_zero(timeout),
        NS_REAL(epoll_pwait2)(epoll, events, most, is_valid(timeout) ? &no_time : timeout, mask),
        NS_REAL(epoll_pwait2)(epoll, events, most, timeout, mask));
}
