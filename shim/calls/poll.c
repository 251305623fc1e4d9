/* SPDX-License-Identifier: MIT */
/* The exported waits for descriptors. If nothing is pending, each costs one load. Otherwise held
 * bytes are pushed. If ACKs are pending, the call is first made with zero timeout (a probe): if
 * something is ready, its result is returned. The ACKs are sent only if nothing is ready. As
 * async-signal-safe as the calls themselves. */
#include "calls/calls.h"

#include <string.h>

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
    if (waits) /* and finds room to write each time, for example */
        ns_flush_busy();
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
            if (found != 0) {                                                                      \
                ns_flush_busy();                                                                   \
                return found;                                                                      \
            }                                                                                      \
            ns_flush_pending();                                                                    \
        }                                                                                          \
        return CALL;                                                                               \
    } while (0)

/* --- a wait for room ---
 *
 * A stream may poll for room before each write (poll with POLLOUT, select with writes). If such a
 * call finds only room, it was not a wait for an answer, and the burst continues. It counts as a
 * probe: bursts that have not grown since the previous probe are pushed. */

/* A few bits of an address, never 0. The lowest two bits are 0 in every structure. */
static uint16_t part_of(uintptr_t address)
{
    return (uint16_t)((address >> 2 ^ address >> 16) | 1);
}

enum { ROOM_MOST = 8 }; /* descriptors of such a poll; an event loop has more */

static bool polls_room(const struct pollfd *fds, nfds_t count)
{
    bool polls = false;
    for (nfds_t i = 0; count <= ROOM_MOST && i < count; i++)
        polls |= fds[i].events & POLLOUT;
    return polls;
}

/* Does the call wait for room, as far as is known before it? Only the kernel can recognise a bad
 * pointer. */
static bool asks_for_room(uintptr_t fds, nfds_t count)
{
    return fds && ns_thread.room == part_of(fds) && polls_room((const struct pollfd *)fds, count);
}

/* After a call that was not known to wait for room. */
static int note_poll(int found, const struct pollfd *fds, nfds_t count)
{
    if (found <= 0 || !polls_room(fds, count))
        return found;
    ns_thread.room = part_of((uintptr_t)fds);
    for (nfds_t i = 0; i < count; i++)
        if (fds[i].revents & POLLIN)
            ns_fd_is_file(fds[i].fd); /* noted in the table, for polled_room */
    return found;
}

/* A regular file is always ready for reading. */
static bool polled_room(const struct pollfd *fds, nfds_t count)
{
    for (nfds_t i = 0; i < count; i++)
        if (fds[i].revents & ~POLLOUT &&
            !(fds[i].revents & POLLIN && ns_fd_is_known_file(fds[i].fd)))
            return false;
    return true;
}

static bool selected_room(int count, const fd_set *reads, const fd_set *errors)
{
    for (int fd = 0; fd < count; fd++)
        if ((reads && FD_ISSET(fd, reads) && !ns_fd_is_known_file(fd)) ||
            (errors && FD_ISSET(fd, errors)))
            return false;
    return true;
}

/* As PROBE_THEN_WAIT, for a call that may block until there is room. ROOM: it found only room. */
#define WAIT_FOR_ROOM(ROOM, PROBE, CALL)                                                           \
    do {                                                                                           \
        int found;                                                                                 \
        if (ns_pending_any() && ns_pending_kinds()) {                                              \
            found = PROBE;                                                                         \
            if (found > 0 && (ROOM)) {                                                             \
                if (ns_probe_begins()) /* a busy loop that asks for room each time */              \
                    ns_flush_busy();                                                               \
                ns_flush_quiet();                                                                  \
                return found;                                                                      \
            }                                                                                      \
            ns_epoch_ends();                                                                       \
            if (found != 0) {                                                                      \
                ns_flush_pushes();                                                                 \
                return found;                                                                      \
            }                                                                                      \
            ns_flush_pending();                                                                    \
        }                                                                                          \
        found = CALL;                                                                              \
        if (found <= 0 || !(ROOM))                                                                 \
            ns_epoch_ends();                                                                       \
        return found;                                                                              \
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

/* Out of line, so that the usual poll saves few registers. */
__attribute__((noinline)) static int poll_with_care(struct pollfd *fds, nfds_t count, int timeout)
{
    if (timeout != 0 && asks_for_room((uintptr_t)fds, count))
        WAIT_FOR_ROOM(polled_room(fds, count), NS_NEXT(poll)(fds, count, 0),
                      NS_NEXT(poll)(fds, count, timeout));
    PROBE_THEN_WAIT(timeout != 0, NS_NEXT(poll)(fds, count, 0),
                    note_poll(NS_NEXT(poll)(fds, count, timeout), fds, count));
}

NS_EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    if (!ns_thread.token) /* this thread has nothing to do with TCP */
        return NS_REAL(poll)(fds, count, timeout);
    if (ns_pending_any() || ns_thread.room == part_of((uintptr_t)fds))
        return poll_with_care(fds, count, timeout);
    if (timeout == 0) {
        ns_probe_begins();
        return NS_NEXT(poll)(fds, count, 0);
    }
    ns_epoch_ends();
    return note_poll(NS_NEXT(poll)(fds, count, timeout), fds, count);
}

/* libc itself reads the timeout of ppoll and pselect, so it may be read here. */
NS_EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                    const sigset_t *mask)
{
    if (ns_takes_time(timeout) && asks_for_room((uintptr_t)fds, count))
        WAIT_FOR_ROOM(polled_room(fds, count),
                      NS_REAL(ppoll)(fds, count, probe_time(timeout), mask),
                      NS_REAL(ppoll)(fds, count, timeout, mask));
    PROBE_THEN_WAIT(ns_takes_time(timeout), NS_REAL(ppoll)(fds, count, probe_time(timeout), mask),
                    note_poll(NS_REAL(ppoll)(fds, count, timeout, mask), fds, count));
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
    fd_set reads, writes, errors;
};

static size_t set_size(int count)
{
    return ((size_t)count + NFDBITS - 1) / NFDBITS * sizeof(fd_mask);
}

static void copy_set(fd_set *to, const fd_set *from, int count)
{
    if (to && from)
        memcpy(to, from, set_size(count));
}

static void save_sets(struct sets *saved, int count, const fd_set *reads, const fd_set *writes,
                      const fd_set *errors)
{
    copy_set(&saved->reads, reads, count);
    copy_set(&saved->writes, writes, count);
    copy_set(&saved->errors, errors, count);
}

static void restore_sets(const struct sets *saved, int count, fd_set *reads, fd_set *writes,
                         fd_set *errors)
{
    copy_set(reads, &saved->reads, count);
    copy_set(writes, &saved->writes, count);
    copy_set(errors, &saved->errors, count);
}

static uint16_t part_of_sets(const fd_set *reads, const fd_set *writes, const fd_set *errors)
{
    return part_of((uintptr_t)reads + 3 * (uintptr_t)writes + 5 * (uintptr_t)errors);
}

/* See asks_for_room. Sets of more than FD_SETSIZE descriptors are not copied. */
static bool selects_room(int count, const fd_set *reads, const fd_set *writes, const fd_set *errors)
{
    return writes && ns_thread.room == part_of_sets(reads, writes, errors) && count > 0 &&
           count <= FD_SETSIZE;
}

static int note_select(int found, int count, const fd_set *reads, const fd_set *writes,
                       const fd_set *errors)
{
    if (found <= 0 || !writes || count > FD_SETSIZE)
        return found;
    ns_thread.room = part_of_sets(reads, writes, errors);
    for (int fd = 0; reads && fd < count; fd++)
        if (FD_ISSET(fd, reads))
            ns_fd_is_file(fd); /* noted in the table, for selected_room */
    return found;
}

NS_EXPORT int select(int count, fd_set *reads, fd_set *writes, fd_set *errors,
                     struct timeval *timeout)
{
    if (!timeout || timeout->tv_sec != 0 || timeout->tv_usec != 0) {
        struct timeval none = {0, 0};
        struct sets saved;
        if (selects_room(count, reads, writes, errors)) {
            save_sets(&saved, count, reads, writes, errors);
            WAIT_FOR_ROOM(selected_room(count, reads, errors),
                          NS_REAL(select)(count, reads, writes, errors, &none),
                          (restore_sets(&saved, count, reads, writes, errors),
                           NS_REAL(select)(count, reads, writes, errors, timeout)));
        }
        ns_before_wait();
        return note_select(NS_REAL(select)(count, reads, writes, errors, timeout), count, reads,
                           writes, errors);
    }
    bool busy = ns_probe_begins();
    int result = NS_REAL(select)(count, reads, writes, errors, timeout);
    return ns_pending_any() ? after_probe(result, busy) : result;
}

NS_EXPORT int pselect(int count, fd_set *reads, fd_set *writes, fd_set *errors,
                      const struct timespec *timeout, const sigset_t *mask)
{
    if (ns_takes_time(timeout)) {
        struct sets saved;
        if (selects_room(count, reads, writes, errors)) {
            save_sets(&saved, count, reads, writes, errors);
            WAIT_FOR_ROOM(selected_room(count, reads, errors),
                          NS_REAL(pselect)(count, reads, writes, errors, probe_time(timeout), mask),
                          (restore_sets(&saved, count, reads, writes, errors),
                           NS_REAL(pselect)(count, reads, writes, errors, timeout, mask)));
        }
        ns_before_wait();
        return note_select(NS_REAL(pselect)(count, reads, writes, errors, timeout, mask), count,
                           reads, writes, errors);
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
            if (found != 0) {
                ns_flush_busy();
                return found;
            }
            ns_flush_pending();
        }
    }
    return NS_REAL(epoll_pwait2)(epoll, events, most, timeout, mask);
}
