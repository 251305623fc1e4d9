/* SPDX-License-Identifier: MIT */
/* The calls that the observing library exports: the rows of calls.def that have a kind, and a few
 * by hand. Each makes the call once, as the program asked, and takes samples before and after it.
 * As async-signal-safe as the calls themselves. */
#include "base/redirect.h"
#include "base/wrapper.h"
#include "observe/observe.h"
#include "observe/recorder.h"
#include "observe/sample.h"
#include "observe/descriptor.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define NS_CALL(...)
#define NS_WRITE(type, name, parameters, arguments, fd, flags, size, bytes, failure)               \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        struct ns_observed *conn = ns_descriptor_conn(fd);                                         \
        if (!conn)                                                                                 \
            return NS_REAL(name) arguments;                                                        \
        ns_observe_write(fd, conn);                                                                \
        type result = NS_REAL(name) arguments;                                                     \
        if (result > 0)                                                                            \
            ns_observe_wrote(fd, conn, bytes, flags);                                              \
        return result;                                                                             \
    }

#define NS_READ(type, name, parameters, arguments, fd, flags, after, failure)                      \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        struct ns_observed *conn = ns_descriptor_conn(fd);                                         \
        bool waits = conn && ns_sample_blocks(fd, flags);                                          \
        if (waits)                                                                                 \
            ns_observe_wait(conn);                                                                 \
        type result = NS_REAL(name) arguments;                                                     \
        if (waits)                                                                                 \
            ns_observe_woke(result > 0 ? conn : NULL);                                             \
        if (conn && result > 0 && !((flags) & (MSG_PEEK | MSG_ERRQUEUE)))                          \
            ns_observe_read(fd, conn);                                                             \
        return result;                                                                             \
    }

#define NS_WAIT(type, name, parameters, arguments, when, probe, failure)                           \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        if (!ns_recorder_is_open() || !(when))                                                     \
            return NS_REAL(name) arguments;                                                        \
        ns_observe_wait(NULL);                                                                     \
        type result = NS_REAL(name) arguments;                                                     \
        ns_observe_woke(NULL);                                                                     \
        return result;                                                                             \
    }

#define NS_SLEEP(type, name, parameters, arguments, failure)                                       \
    NS_WAIT(type, name, parameters, arguments, true, 0, failure)

/* Without them the record may be impossible to make. */
#define NS_PRIVILEGES(type, name, parameters, arguments, failure)                                  \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        ns_recorder_make();                                                                        \
        return NS_REAL(name) arguments;                                                            \
    }

/* Not generated: they have functions of their own in calls/. */
NS_WRITE(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), fd, 0, size,
         (size_t)result, MINUS_ONE)
NS_READ(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size), fd, 0, , MINUS_ONE)
NS_READ(ssize_t, __read_chk, (int fd, void *data, size_t size, size_t room), (fd, data, size, room),
        fd, 0, , MINUS_ONE)

#include "base/calls.def"

/* --- descriptors --- */

/* One of the two is a pipe. */
NS_EXPORT ssize_t splice(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t size,
                         unsigned flags)
{
    struct ns_observed *source = ns_descriptor_conn(from), *target = ns_descriptor_conn(to);
    bool waits = source && !(flags & SPLICE_F_NONBLOCK) && ns_sample_blocks(from, 0);
    if (target)
        ns_observe_write(to, target);
    if (waits)
        ns_observe_wait(source);
    ssize_t result = NS_REAL(splice)(from, from_offset, to, to_offset, size, flags);
    if (waits)
        ns_observe_woke(NULL);
    if (target && result > 0)
        ns_observe_wrote(to, target, (size_t)result, flags & SPLICE_F_MORE ? MSG_MORE : 0);
    if (source && result > 0)
        ns_observe_read(from, source);
    return result;
}

#define ACCEPT(name, parameters, arguments)                                                        \
    NS_EXPORT int name parameters                                                                  \
    {                                                                                              \
        bool waits = ns_recorder_is_open() && ns_sample_blocks(listener, 0);                       \
        if (waits)                                                                                 \
            ns_observe_wait(NULL);                                                                 \
        int fd = NS_REAL(name) arguments;                                                          \
        if (waits)                                                                                 \
            ns_observe_woke(NULL);                                                                 \
        if (fd >= 0)                                                                               \
            ns_descriptor_has_role(fd, NS_ROLE_SERVER);                                            \
        return fd;                                                                                 \
    }
ACCEPT(accept, (int listener, struct sockaddr *remote, socklen_t *len), (listener, remote, len))
ACCEPT(accept4, (int listener, struct sockaddr *remote, socklen_t *len, int flags),
       (listener, remote, len, flags))

NS_EXPORT int connect(int fd, const struct sockaddr *remote, socklen_t len)
{
    bool waits = ns_recorder_is_open() && ns_sample_blocks(fd, 0);
    ns_descriptor_has_role(fd, NS_ROLE_CLIENT);
    if (waits)
        ns_observe_wait(NULL);
    int result = NS_REAL(connect)(fd, remote, len);
    if (waits)
        ns_observe_woke(NULL);
    return result;
}

NS_EXPORT int close(int fd)
{
    ns_descriptor_closes(fd);
    return NS_REAL(close)(fd);
}

NS_EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    int result = NS_REAL(setsockopt)(fd, level, option, value, len);
    struct ns_observed *conn = NULL;
    if (result == 0 && level == IPPROTO_TCP && option == TCP_QUICKACK)
        conn = ns_descriptor_conn(fd);
    else if (result == 0 && level == IPPROTO_TCP && option == TCP_NODELAY)
        conn = ns_descriptor_known(fd); /* the kernel is asked when it is added */
    if (conn)
        ns_observe_option(conn, option, *(const int *)value);
    return result;
}
NS_IF_TIME64(NS_SECOND_NAME(setsockopt, __setsockopt64))

/* --- libraries that the program opens --- */

bool ns_loader_acts(void)
{
    return ns_recorder_is_open();
}

void ns_loader_finds(const char *name, const struct ns_object *object)
{
    (void)name, (void)object;
}

/* --- threads and processes --- */

/* Rust and others wait for a thread by syscall(). */
NS_EXPORT long syscall(long number, ...)
{
    NS_GATHER(long, a, 6, number);
    bool futex = number == SYS_futex;
#ifdef SYS_futex_time64
    futex |= number == SYS_futex_time64;
#endif
    bool waits = futex && ns_recorder_is_open() && ns_futex_waits((int)a[1]);
    if (number == SYS_seccomp &&
        ns_sets_filter(a[0] == SECCOMP_SET_MODE_STRICT, a[0] == SECCOMP_SET_MODE_FILTER, a[2]))
        ns_recorder_stop();
    if (waits)
        ns_observe_wait(NULL);
    long result = NS_REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (waits)
        ns_observe_woke(NULL);
    return result;
}

NS_EXPORT int prctl(int option, ...)
{
    NS_GATHER(unsigned long, a, 4, option);
    if (option == PR_SET_SECCOMP &&
        ns_sets_filter(a[0] == SECCOMP_MODE_STRICT, a[0] == SECCOMP_MODE_FILTER, (long)a[1]))
        ns_recorder_stop();
    return NS_REAL(prctl)(option, a[0], a[1], a[2], a[3]);
}
NS_IF_TIME64(NS_SECOND_NAME(prctl, __prctl_time64))
