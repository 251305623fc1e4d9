/* SPDX-License-Identifier: MIT */
/* The exported reads. A read that blocks is a wait: if ACKs are pending on this thread, it is first
 * made without waiting, and the ACKs are sent only if there is no data. Never reads ahead, never
 * keeps a byte. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"

/* After a read without waiting. Returns true if there was no data. Then errno is saved again, and
 * the caller makes the read as the program asked. */
static bool found_nothing(int fd, struct ns_conn *conn, ssize_t result, int saved)
{
    if (result >= 0 || (errno != EAGAIN && errno != ENOTSOCK))
        return false;
    errno = saved;
    ns_in_waits(fd, conn);
    return true;
}

/* A complete read. conn: NULL if no rule applies to fd. PROBE is the call made without waiting,
 * CALL the call as the program asked. Its value is the result. */
#define PROBE_THEN_READ(fd, conn, flags, PROBE, CALL)                                              \
    ({                                                                                             \
        ssize_t count;                                                                             \
        int saved = errno;                                                                         \
        if (__builtin_expect(conn != NULL, 1)) {                                                   \
            if (!ns_in_begin(fd, conn, flags, true))                                               \
                count = CALL;                                                                      \
            else if (count = PROBE, found_nothing(fd, conn, count, saved))                         \
                count = CALL;                                                                      \
            ns_in_end(fd, conn, count, errno, flags);                                              \
        } else {                                                                                   \
            if (!((flags)&MSG_DONTWAIT))                                                           \
                ns_flush_unless_ready(fd, NULL, POLLIN);                                           \
            count = CALL;                                                                          \
        }                                                                                          \
        count;                                                                                     \
    })

/* Out of line, so that the path of other descriptors stays short. */
__attribute__((noinline)) static ssize_t read_managed(int fd, void *data, size_t size)
{
    if (size - 1 >= 0x7ffff000) /* MAX_RW_COUNT: read treats these sizes in another way than recv */
        return NS_REAL(read)(fd, data, size);
    struct ns_conn *conn = ns_socket_managed(fd, false);
    return PROBE_THEN_READ(fd, conn, 0, NS_REAL(recv)(fd, data, size, MSG_DONTWAIT),
                           NS_REAL(read)(fd, data, size));
}

NS_EXPORT ssize_t read(int fd, void *data, size_t size)
{
    if (!ns_fd_is_open(fd))
        return read_managed(fd, data, size);
    struct ns_conn *conn = ns_fd_lookup(fd);
    bool passes = !ns_fd_is_conn(conn) || !ns_conn_is_tracked(conn);
    if (__builtin_expect(passes, 1) && (!ns_pending_any() || ns_pending_skips(fd, true)))
        return NS_NEXT(read)(fd, data, size);
    return read_managed(fd, data, size);
}

NS_EXPORT ssize_t recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *from,
                           socklen_t *len)
{
    struct ns_conn *conn = ns_socket_managed(fd, true);
    return PROBE_THEN_READ(fd, conn, flags,
                           NS_REAL(recvfrom)(fd, data, size, flags | MSG_DONTWAIT, from, len),
                           NS_REAL(recvfrom)(fd, data, size, flags, from, len));
}

NS_EXPORT ssize_t recv(int fd, void *data, size_t size, int flags)
{
    struct ns_conn *conn = ns_socket_managed(fd, true);
    return PROBE_THEN_READ(fd, conn, flags, NS_REAL(recv)(fd, data, size, flags | MSG_DONTWAIT),
                           NS_REAL(recv)(fd, data, size, flags));
}

/* The kernel writes into the message only if there is data, so that a probe is harmless. */
#define NS_RECVMSG(name)                                                                           \
    NS_EXPORT ssize_t name(int fd, struct msghdr *message, int flags)                              \
    {                                                                                              \
        struct ns_conn *conn = ns_socket_managed(fd, true);                                        \
        ssize_t result =                                                                           \
            PROBE_THEN_READ(fd, conn, flags, NS_REAL(name)(fd, message, flags | MSG_DONTWAIT),     \
                            NS_REAL(name)(fd, message, flags));                                    \
        if (!conn && result >= 0 && (uint32_t)message->msg_controllen)                             \
            ns_rights_received(message);                                                           \
        return result;                                                                             \
    }
NS_RECVMSG(recvmsg)
NS_IF_TIME64(NS_RECVMSG(__recvmsg64))

/* Before a read that has no form without waiting. */
static struct ns_conn *before_vector(int fd, struct ns_conn *conn, int flags)
{
    if (!conn ? !(flags & MSG_DONTWAIT) : ns_in_begin(fd, conn, flags, false))
        ns_flush_unless_ready(fd, NULL, POLLIN);
    return conn;
}

#define NS_CALL(...)
#define NS_VECTOR(type, name, parameters, arguments, fd, flags, failure)                           \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        struct ns_conn *conn = before_vector(fd, ns_socket_managed(fd, false), flags);             \
        type result = NS_REAL(name) arguments;                                                     \
        if (conn)                                                                                  \
            ns_in_end(fd, conn, result, errno, 0);                                                 \
        return result;                                                                             \
    }
#include "base/calls.def"
#undef NS_CALL

#define NS_RECVMMSG(name, time_type)                                                               \
    NS_EXPORT int name(int fd, struct mmsghdr *messages, unsigned count, int flags,                \
                       struct time_type *timeout)                                                  \
    {                                                                                              \
        struct ns_conn *conn = before_vector(fd, ns_socket_managed(fd, true), flags);              \
        int result = NS_REAL(name)(fd, messages, count, flags, timeout);                           \
        if (conn)                                                                                  \
            ns_in_end(fd, conn, result, errno, flags);                                             \
        for (int i = 0; !conn && i < result; i++)                                                  \
            if ((uint32_t)messages[i].msg_hdr.msg_controllen)                                      \
                ns_rights_received(&messages[i].msg_hdr);                                          \
        return result;                                                                             \
    }
NS_RECVMMSG(recvmmsg, timespec)
NS_IF_TIME64(NS_RECVMMSG(__recvmmsg64, ns_timespec64))

/* The fortified forms check the size of the buffer and read. If it is too small, libc's own form is
 * called, which reports it. */
NS_EXPORT ssize_t __read_chk(int fd, void *data, size_t size, size_t room)
{
    return size > room ? NS_REAL(__read_chk)(fd, data, size, room) : read(fd, data, size);
}

NS_EXPORT ssize_t __recv_chk(int fd, void *data, size_t size, size_t room, int flags)
{
    return size > room ? NS_REAL(__recv_chk)(fd, data, size, room, flags)
                       : recv(fd, data, size, flags);
}

NS_EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t size, size_t room, int flags,
                                 struct sockaddr *from, socklen_t *len)
{
    return size > room ? NS_REAL(__recvfrom_chk)(fd, data, size, room, flags, from, len)
                       : recvfrom(fd, data, size, flags, from, len);
}
