/* SPDX-License-Identifier: MIT */
/* The calls of a process that is observed: each stands between the exported function and the C
 * library, in the table of real.h, and looks before and after. They are put there only where a rule
 * observes, so that nobody else executes an instruction for them. Each makes the call as it was
 * asked, once. As async-signal-safe as the calls themselves. */
#include "calls/observed.h"

#include "base/real.h"
#include "conn/recorder.h"
#include "traffic/observe.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/syscall.h>

/* What was in the table before. */
static struct ns_real below;

/* --- writes: fd is written to, and bytes says how many were if the call worked --- */

#define WRITE(type, name, parameters, arguments, fd, bytes)                                        \
    static type observed_##name parameters                                                         \
    {                                                                                              \
        struct ns_conn *conn = ns_observed(fd);                                                    \
        if (!conn)                                                                                 \
            return below.name arguments;                                                           \
        ns_observe_write(fd, conn);                                                                \
        type result = below.name arguments;                                                        \
        if (result > 0 && ns_fd_names(fd, conn))                                                   \
            ns_observe_wrote(fd, conn, bytes);                                                     \
        return result;                                                                             \
    }

static size_t bytes_of(const struct mmsghdr *messages, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += messages[i].msg_len;
    return bytes;
}

WRITE(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), fd, (size_t)result)
WRITE(ssize_t, writev, (int fd, const struct iovec *vector, int count), (fd, vector, count), fd,
      (size_t)result)
WRITE(ssize_t, pwritev2, (int fd, const struct iovec *vector, int count, off_t offset, int flags),
      (fd, vector, count, offset, flags), fd, (size_t)result)
WRITE(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags),
      fd, (size_t)result)
WRITE(ssize_t, sendto,
      (int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t len),
      (fd, data, size, flags, to, len), fd, (size_t)result)
WRITE(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), fd,
      (size_t)result)
WRITE(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags),
      (fd, messages, count, flags), fd, bytes_of(messages, result))
WRITE(ssize_t, sendfile, (int to, int from, off_t *offset, size_t size), (to, from, offset, size),
      to, (size_t)result)
WRITE(ssize_t, sendfile64, (int to, int from, off64_t *offset, size_t size),
      (to, from, offset, size), to, (size_t)result)
WRITE(int, vdprintf, (int fd, const char *format, va_list list), (fd, format, list), fd,
      (size_t)result)
WRITE(int, __vdprintf_chk, (int fd, int flag, const char *format, va_list list),
      (fd, flag, format, list), fd, (size_t)result)

/* --- reads --- */

/* Does a call on fd wait where there is nothing? Of what is no TCP socket nobody knows, and then no
 * answer is waited for. */
static bool may_wait(int fd, int flags)
{
    struct ns_conn *conn = ns_fd_conn(fd);
    return conn && !NS_GET(conn, nonblock) && !(flags & (MSG_DONTWAIT | MSG_ERRQUEUE));
}

#define READ(type, name, parameters, arguments, fd, flags)                                         \
    static type observed_##name parameters                                                         \
    {                                                                                              \
        struct ns_conn *conn = ns_observed(fd);                                                    \
        bool waits = may_wait(fd, flags);                                                          \
        if (waits)                                                                                 \
            ns_observe_wait(conn);                                                                 \
        type result = below.name arguments;                                                        \
        if (waits)                                                                                 \
            ns_observe_woke(result > 0 ? conn : NULL);                                             \
        if (conn && result > 0 && !((flags) & (MSG_PEEK | MSG_ERRQUEUE)) && ns_fd_names(fd, conn)) \
            ns_observe_read(fd, conn);                                                             \
        return result;                                                                             \
    }

READ(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size), fd, 0)
READ(ssize_t, readv, (int fd, const struct iovec *vector, int count), (fd, vector, count), fd, 0)
READ(ssize_t, preadv2, (int fd, const struct iovec *vector, int count, off_t offset, int flags),
     (fd, vector, count, offset, flags), fd, flags &RWF_NOWAIT ? MSG_DONTWAIT : 0)
READ(ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags), fd,
     flags)
READ(ssize_t, recvfrom,
     (int fd, void *data, size_t size, int flags, struct sockaddr *from, socklen_t *len),
     (fd, data, size, flags, from, len), fd, flags)
READ(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), fd, flags)
READ(int, recvmmsg,
     (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout),
     (fd, messages, count, flags, timeout), fd, flags)

/* One of the two is a pipe. */
static ssize_t observed_splice(int from, off64_t *from_offset, int to, off64_t *to_offset,
                               size_t size, unsigned flags)
{
    struct ns_conn *source = ns_observed(from), *target = ns_observed(to);
    bool waits = may_wait(from, 0) && !(flags & SPLICE_F_NONBLOCK);
    if (target)
        ns_observe_write(to, target);
    if (waits)
        ns_observe_wait(source);
    ssize_t result = below.splice(from, from_offset, to, to_offset, size, flags);
    if (waits)
        ns_observe_woke(NULL);
    if (target && result > 0 && ns_fd_names(to, target))
        ns_observe_wrote(to, target, (size_t)result);
    if (source && result > 0 && ns_fd_names(from, source))
        ns_observe_read(from, source);
    return result;
}

/* --- waits: when says whether the call may take time --- */

#define WAIT_IF(type, name, parameters, arguments, when)                                           \
    static type observed_##name parameters                                                         \
    {                                                                                              \
        if (!(when))                                                                               \
            return below.name arguments;                                                           \
        ns_observe_wait(NULL);                                                                     \
        type result = below.name arguments;                                                        \
        ns_observe_woke(NULL);                                                                     \
        return result;                                                                             \
    }
#define WAIT(type, name, parameters, arguments) WAIT_IF(type, name, parameters, arguments, true)

static bool takes_time(const struct timespec *time)
{
    return !time || time->tv_sec != 0 || time->tv_nsec != 0;
}

WAIT_IF(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout),
        timeout != 0)
WAIT_IF(int, ppoll,
        (struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
        (fds, count, timeout, mask), takes_time(timeout))
WAIT_IF(int, select,
        (int count, fd_set *reads, fd_set *writes, fd_set *errors, struct timeval *timeout),
        (count, reads, writes, errors, timeout),
        !timeout || timeout->tv_sec != 0 || timeout->tv_usec != 0)
WAIT_IF(int, pselect,
        (int count, fd_set *reads, fd_set *writes, fd_set *errors, const struct timespec *timeout,
         const sigset_t *mask),
        (count, reads, writes, errors, timeout, mask), takes_time(timeout))
WAIT_IF(int, epoll_wait, (int epoll, struct epoll_event *events, int most, int timeout),
        (epoll, events, most, timeout), timeout != 0)
WAIT_IF(int, epoll_pwait,
        (int epoll, struct epoll_event *events, int most, int timeout, const sigset_t *mask),
        (epoll, events, most, timeout, mask), timeout != 0)
/* The kernel reads the time of this one, which may lie nowhere. */
WAIT(int, epoll_pwait2,
     (int epoll, struct epoll_event *events, int most, const struct timespec *timeout,
      const sigset_t *mask),
     (epoll, events, most, timeout, mask))
WAIT_IF(int, accept, (int fd, struct sockaddr *from, socklen_t *len), (fd, from, len),
        may_wait(fd, 0))
WAIT_IF(int, accept4, (int fd, struct sockaddr *from, socklen_t *len, int flags),
        (fd, from, len, flags), may_wait(fd, 0))
WAIT_IF(int, connect, (int fd, const struct sockaddr *to, socklen_t len), (fd, to, len),
        may_wait(fd, 0))
WAIT(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
WAIT(int, clock_nanosleep,
     (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
     (clock, flags, time, left))
WAIT(int, usleep, (useconds_t time), (time))
WAIT(unsigned, sleep, (unsigned seconds), (seconds))
WAIT(int, thrd_sleep, (const struct timespec *time, struct timespec *left), (time, left))
WAIT(int, pause, (void), ())
WAIT(int, sigsuspend, (const sigset_t *mask), (mask))
WAIT(int, sigwait, (const sigset_t *set, int *number), (set, number))
WAIT(int, sigwaitinfo, (const sigset_t *set, siginfo_t *info), (set, info))
WAIT(int, sigtimedwait, (const sigset_t *set, siginfo_t *info, const struct timespec *timeout),
     (set, info, timeout)) /* as epoll_pwait2 */
WAIT(int, pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex),
     (condition, mutex))
WAIT(int, pthread_cond_timedwait,
     (pthread_cond_t * condition, pthread_mutex_t *mutex, const struct timespec *until),
     (condition, mutex, until))
WAIT(int, pthread_cond_clockwait,
     (pthread_cond_t * condition, pthread_mutex_t *mutex, clockid_t clock,
      const struct timespec *until),
     (condition, mutex, clock, until))
WAIT(int, cnd_wait, (cnd_t * condition, mtx_t *mutex), (condition, mutex))
WAIT(int, cnd_timedwait, (cnd_t * condition, mtx_t *mutex, const struct timespec *until),
     (condition, mutex, until))
WAIT(int, pthread_join, (pthread_t thread, void **value), (thread, value))
WAIT(int, thrd_join, (thrd_t thread, int *value), (thread, value))
WAIT(int, sem_wait, (sem_t * semaphore), (semaphore))
WAIT(int, sem_timedwait, (sem_t * semaphore, const struct timespec *until), (semaphore, until))
WAIT(int, sem_clockwait, (sem_t * semaphore, clockid_t clock, const struct timespec *until),
     (semaphore, clock, until))
WAIT(pid_t, wait, (int *status), (status))
WAIT_IF(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options),
        !(options & WNOHANG))
WAIT_IF(pid_t, wait3, (int *status, int options, struct rusage *usage), (status, options, usage),
        !(options & WNOHANG))
WAIT_IF(pid_t, wait4, (pid_t pid, int *status, int options, struct rusage *usage),
        (pid, status, options, usage), !(options & WNOHANG))
WAIT_IF(int, waitid, (idtype_t type, id_t id, siginfo_t *info, int options),
        (type, id, info, options), !(options & WNOHANG))

/* How Rust and others wait for their threads. */
static bool waits_by_number(long number, const long a[6])
{
    int operation = (int)a[1] & FUTEX_CMD_MASK;
    return number == SYS_futex &&
           (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET ||
            operation == FUTEX_LOCK_PI || operation == FUTEX_WAIT_REQUEUE_PI);
}

static long observed_syscall(long number, ...)
{
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    bool waits = waits_by_number(number, a);
    if (waits)
        ns_observe_wait(NULL);
    long result = below.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (waits)
        ns_observe_woke(NULL);
    return result;
}

/* --- privileges: with fewer of them the record may not be made any more --- */

#define PRIVILEGES(name, parameters, arguments)                                                    \
    static int observed_##name parameters                                                          \
    {                                                                                              \
        ns_recorder_make();                                                                        \
        return below.name arguments;                                                               \
    }

PRIVILEGES(setuid, (uid_t user), (user))
PRIVILEGES(seteuid, (uid_t user), (user))
PRIVILEGES(setreuid, (uid_t real, uid_t effective), (real, effective))
PRIVILEGES(setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved))

static void put_between(void)
{
/* A call of a library that is not loaded yet stays as it is, and is looked up when it is made. */
#define NS_OBSERVED(name)                                                                          \
    if (ns_real.name && ns_real.name != observed_##name) {                                         \
        below.name = ns_real.name;                                                                 \
        __atomic_store_n(&ns_real.name, observed_##name, __ATOMIC_RELEASE);                        \
    }
#include "calls/observed.def"
#undef NS_OBSERVED
}

void ns_observed_open(void)
{
    put_between();
    ns_real_on_load(put_between);
}
