/* SPDX-License-Identifier: MIT */
/* The part of poll.c that takes a time. poll.c includes it once, and on 32-bit systems a second
 * time for 64-bit times, with other names for the functions and structures. */

/* The timeout of a probe for ppoll, pselect and epoll_pwait2. */
static const struct timespec no_time;

/* The kernel refuses an invalid timeout, ready or not. A probe must not hide that. */
static const struct timespec *probe_time(const struct timespec *time)
{
    enum { NS_PER_S = 1000000000 };
    bool valid = !time || (time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < NS_PER_S);
    return valid ? &no_time : time;
}

/* libc itself reads the timeout of ppoll and pselect, so it may be read here. */
NS_EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                    const sigset_t *mask)
{
    PROBE_THEN_WAIT(NS_TAKES_TIME(timeout), NS_REAL(ppoll)(fds, count, probe_time(timeout), mask),
                    NS_REAL(ppoll)(fds, count, timeout, mask));
}

NS_EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                          const sigset_t *mask, size_t room)
{
    if (room / sizeof *fds < count)
        return NS_REAL(__ppoll_chk)(fds, count, timeout, mask, room);
    return ppoll(fds, count, timeout, mask);
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
    SELECT(NS_TAKES_TIME(timeout),
           NS_REAL(pselect)(count, reads, writes, errors, probe_time(timeout), mask),
           NS_REAL(pselect)(count, reads, writes, errors, timeout, mask));
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
