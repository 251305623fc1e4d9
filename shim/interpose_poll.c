/* SPDX-License-Identifier: MIT */
/* The exported waits for descriptors. Nothing owed: one load, then the call. Otherwise held bytes
 * are pushed, and where ACKs are owed the call is first made with no time to wait: what is ready is
 * returned at no cost, and only when nothing is are the ACKs sent. As async-signal-safe as the
 * calls themselves. */
#include "interpose.h"

#include "flusher.h"

#include <string.h>

/* What has to be done around a wait. */
enum plan {
    PLAN_PLAIN, /* as asked */
    PLAN_AFTER, /* it does not wait: as asked, and if nothing was ready settle */
    PLAN_FIRST, /* without waiting first; then settle, and as asked */
    PLAN_SOON,  /* for a moment first; then settle, and for the rest of the time */
};

/* How long an ACK waits for an answer that somebody else has always given: three orders of
 * magnitude more than a hand-over between threads takes, and a fortieth of the kernel's own delay.
 */
enum { MOMENT_MS = 1, MOMENT_NS = 1000000, NS_PER_S = 1000000000 };

static enum plan make_plan(bool waits)
{
    unsigned debts = ns_owed();
    ns_flusher_start_if_wanted();
    if (!debts)
        return PLAN_PLAIN;
    if (!waits)
        return PLAN_AFTER;
    /* Held bytes go before the first look, not after it: their answer cannot be there yet, so that
     * look would find nothing and cost a call. */
    if (debts & NS_OWES_PUSH)
        ns_settle(NS_OWES_PUSH);
    if (debts & NS_OWES_ACK)
        return PLAN_FIRST;
    return debts & NS_OWES_LATER ? PLAN_SOON : PLAN_PLAIN;
}

static inline int settle_if_nothing(int result)
{
    if (result == 0)
        ns_settle(NS_OWES_ALL);
    return result;
}

/* --- times in milliseconds: poll, epoll_wait, epoll_pwait; below 0 is no end --- */

static bool waits_ms(int time)
{
    return time != 0;
}

static int first_ms(enum plan plan, int time)
{
    if (plan == PLAN_FIRST)
        return 0;
    return time < 0 || time > MOMENT_MS ? MOMENT_MS : time;
}

static int rest_ms(enum plan plan, int time)
{
    return plan == PLAN_SOON && time > 0 ? time - first_ms(plan, time) : time;
}

/* --- times in nanoseconds: ppoll, pselect, epoll_pwait2; NULL is no end --- */

static bool waits_ns(const struct timespec *time)
{
    return !time || time->tv_sec != 0 || time->tv_nsec != 0;
}

/* The kernel refuses any other, ready or not; so a first look must not hide it. */
static bool is_valid(const struct timespec *time)
{
    return !time || (time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < NS_PER_S);
}

static struct timespec first_ns(enum plan plan, const struct timespec *time)
{
    struct timespec first = {0, plan == PLAN_FIRST ? 0 : MOMENT_NS};
    if (time && (!is_valid(time) || (time->tv_sec == 0 && time->tv_nsec < first.tv_nsec)))
        first = *time;
    return first;
}

/* What is left of time after the first look, in left. */
static const struct timespec *rest_ns(enum plan plan, const struct timespec *time,
                                      struct timespec *left)
{
    struct timespec first = first_ns(plan, time);
    if (!time || plan != PLAN_SOON || !is_valid(time))
        return time;
    *left = *time;
    left->tv_nsec -= first.tv_nsec;
    if (left->tv_nsec < 0) {
        left->tv_nsec += NS_PER_S;
        left->tv_sec--;
    }
    return left;
}

/* A whole wait whose time is the function's parameter timeout: CALL(time) is the call. Returns from
 * the function it stands in. */
#define NS_WAIT_MS(CALL)                                                                           \
    do {                                                                                           \
        enum plan plan = make_plan(waits_ms(timeout));                                             \
        if (plan == PLAN_AFTER)                                                                    \
            return settle_if_nothing(CALL(timeout));                                               \
        if (plan != PLAN_PLAIN) {                                                                  \
            int found = settle_if_nothing(CALL(first_ms(plan, timeout)));                          \
            if (found != 0)                                                                        \
                return found;                                                                      \
        }                                                                                          \
        return CALL(rest_ms(plan, timeout));                                                       \
    } while (0)

#define NS_WAIT_NS(CALL)                                                                           \
    do {                                                                                           \
        enum plan plan = make_plan(waits_ns(timeout));                                             \
        struct timespec first, left;                                                               \
        if (plan == PLAN_AFTER)                                                                    \
            return settle_if_nothing(CALL(timeout));                                               \
        if (plan != PLAN_PLAIN) {                                                                  \
            first = first_ns(plan, timeout);                                                       \
            int found = settle_if_nothing(CALL(&first));                                           \
            if (found != 0)                                                                        \
                return found;                                                                      \
        }                                                                                          \
        return CALL(rest_ns(plan, timeout, &left));                                                \
    } while (0)

/* The owing halves stand out of line, so that the exported functions are a load, a test and a jump.
 */
#define NS_OWING __attribute__((noinline)) static int

NS_OWING poll_owing(struct pollfd *fds, nfds_t count, int timeout)
{
#define CALL(time) NS_REAL(poll)(fds, count, time)
    NS_WAIT_MS(CALL);
#undef CALL
}

NS_EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    ns_epoch_ends();
    return ns_owes() ? poll_owing(fds, count, timeout) : NS_REAL(poll)(fds, count, timeout);
}

NS_OWING ppoll_owing(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                     const sigset_t *mask)
{
#define CALL(time) NS_REAL(ppoll)(fds, count, time, mask)
    NS_WAIT_NS(CALL);
#undef CALL
}

NS_EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                    const sigset_t *mask)
{
    ns_epoch_ends();
    return ns_owes() ? ppoll_owing(fds, count, timeout, mask)
                     : NS_REAL(ppoll)(fds, count, timeout, mask);
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
    if (NS_MUTANT(select_sets))
        return;
    for (int i = 0; i < 3; i++)
        if (given[i])
            memcpy(given[i], sets->kept[i], sets->size);
}

/* select's own time is struct timeval, and the kernel writes what is left into it: only the whole
 * call as asked may do that. So there is no moment's wait here, but a look. */
NS_OWING select_owing(int count, fd_set *reads, fd_set *writes, fd_set *errors,
                      struct timeval *timeout)
{
    enum plan plan = make_plan(!timeout || timeout->tv_sec != 0 || timeout->tv_usec != 0);
    bool valid = !timeout || (timeout->tv_sec >= 0 && timeout->tv_usec >= 0);
    fd_set *const given[3] = {reads, writes, errors};
    struct sets sets;
    if (plan == PLAN_AFTER)
        return settle_if_nothing(NS_REAL(select)(count, reads, writes, errors, timeout));
    if (plan != PLAN_PLAIN && valid && sets_keep(&sets, count, given)) {
        struct timeval none = {0, 0};
        int found = NS_REAL(select)(count, reads, writes, errors, &none);
        if (found != 0)
            return found;
        sets_restore(&sets, given);
    }
    ns_settle(NS_OWES_ALL);
    return NS_REAL(select)(count, reads, writes, errors, timeout);
}

NS_EXPORT int select(int count, fd_set *reads, fd_set *writes, fd_set *errors,
                     struct timeval *timeout)
{
    ns_epoch_ends();
    return ns_owes() ? select_owing(count, reads, writes, errors, timeout)
                     : NS_REAL(select)(count, reads, writes, errors, timeout);
}

NS_OWING pselect_owing(int count, fd_set *reads, fd_set *writes, fd_set *errors,
                       const struct timespec *timeout, const sigset_t *mask)
{
    enum plan plan = make_plan(waits_ns(timeout));
    fd_set *const given[3] = {reads, writes, errors};
    struct sets sets;
    struct timespec left;
    if (plan == PLAN_AFTER)
        return settle_if_nothing(NS_REAL(pselect)(count, reads, writes, errors, timeout, mask));
    if (plan != PLAN_PLAIN && is_valid(timeout) && sets_keep(&sets, count, given)) {
        struct timespec first = first_ns(plan, timeout);
        int found = NS_REAL(pselect)(count, reads, writes, errors, &first, mask);
        if (found != 0)
            return found;
        sets_restore(&sets, given);
        timeout = rest_ns(plan, timeout, &left);
    }
    ns_settle(NS_OWES_ALL);
    return NS_REAL(pselect)(count, reads, writes, errors, timeout, mask);
}

NS_EXPORT int pselect(int count, fd_set *reads, fd_set *writes, fd_set *errors,
                      const struct timespec *timeout, const sigset_t *mask)
{
    ns_epoch_ends();
    return ns_owes() ? pselect_owing(count, reads, writes, errors, timeout, mask)
                     : NS_REAL(pselect)(count, reads, writes, errors, timeout, mask);
}

NS_OWING epoll_wait_owing(int epoll, struct epoll_event *events, int most, int timeout)
{
#define CALL(time) NS_REAL(epoll_wait)(epoll, events, most, time)
    NS_WAIT_MS(CALL);
#undef CALL
}

NS_EXPORT int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    ns_epoch_ends();
    return ns_owes() ? epoll_wait_owing(epoll, events, most, timeout)
                     : NS_REAL(epoll_wait)(epoll, events, most, timeout);
}

NS_OWING epoll_pwait_owing(int epoll, struct epoll_event *events, int most, int timeout,
                           const sigset_t *mask)
{
#define CALL(time) NS_REAL(epoll_pwait)(epoll, events, most, time, mask)
    NS_WAIT_MS(CALL);
#undef CALL
}

NS_EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout,
                          const sigset_t *mask)
{
    ns_epoch_ends();
    return ns_owes() ? epoll_pwait_owing(epoll, events, most, timeout, mask)
                     : NS_REAL(epoll_pwait)(epoll, events, most, timeout, mask);
}

NS_OWING epoll_pwait2_owing(int epoll, struct epoll_event *events, int most,
                            const struct timespec *timeout, const sigset_t *mask)
{
#define CALL(time) NS_REAL(epoll_pwait2)(epoll, events, most, time, mask)
    NS_WAIT_NS(CALL);
#undef CALL
}

NS_EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int most,
                           const struct timespec *timeout, const sigset_t *mask)
{
    ns_epoch_ends();
    return ns_owes() ? epoll_pwait2_owing(epoll, events, most, timeout, mask)
                     : NS_REAL(epoll_pwait2)(epoll, events, most, timeout, mask);
}
