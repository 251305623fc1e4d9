/* SPDX-License-Identifier: MIT */
/* The exported reads. A read that blocks is a wait: if ACKs are pending on this thread, it is first
 * made without waiting, and the ACKs are sent only if there is no data. Never reads ahead, never
 * keeps a byte. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"

/* Before a read. conn: NULL if no rule applies to fd. Must it first be made without waiting? */
static inline bool begins(int fd, struct ns_conn *conn, int flags, bool may_try)
{
    if (__builtin_expect(conn != NULL, 1))
        return ns_in_begin(fd, conn, flags, may_try);
    if (!(flags & MSG_DONTWAIT) || ns_thread.corked) /* a busy poll must not keep a cork */
        ns_flush_unless_ready(fd, NULL, POLLIN);
    return false;
}

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

/* Out of line, so that the path of other descriptors stays short. */
__attribute__((noinline)) static ssize_t read_managed(int fd, void *data, size_t size)
{
    if (size == 0) /* no wait */
        return NS_REAL(read)(fd, data, size);
    struct ns_conn *conn = ns_socket_managed(fd, false);
    int saved = errno;
    ssize_t result = -1;
    /* MAX_RW_COUNT: read treats larger sizes in another way than recv. */
    bool probes = begins(fd, conn, 0, size <= 0x7ffff000);
    if (probes)
        result = NS_REAL(recv)(fd, data, size, MSG_DONTWAIT);
    if (!probes || found_nothing(fd, conn, result, saved))
        result = NS_REAL(read)(fd, data, size);
    if (conn)
        ns_in_end(fd, conn, result, errno, 0);
    return result;
}

NS_EXPORT ssize_t read(int fd, void *data, size_t size)
{
    if (!ns_fd_has_place(fd))
        return read_managed(fd, data, size);
    struct ns_conn *conn = ns_fd_lookup(fd);
    bool passes = !ns_fd_is_conn(conn) || !ns_conn_is_tracked(conn);
    if (__builtin_expect(passes, 1) && (!ns_pending_any() || ns_pending_skips(fd, true)))
        return NS_NEXT(read)(fd, data, size);
    return read_managed(fd, data, size);
}

/* The fortified form checks the size of the buffer. If it is too small, libc's own form reports it.
 */
NS_EXPORT ssize_t __read_chk(int fd, void *data, size_t size, size_t room)
{
    return size > room ? NS_REAL(__read_chk)(fd, data, size, room) : read(fd, data, size);
}

static void ns_rights_received_in(const struct mmsghdr *messages, int count)
{
    for (int i = 0; i < count; i++)
        ns_rights_received(&messages[i].msg_hdr);
}

/* probe makes a call on a socket without waiting. It is harmless: the kernel writes to a message
 * only if there is data. */
#define EACH_READ(type, name, parameters, arguments, fd, flags, bytes, after, is_socket, probe)    \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        struct ns_conn *conn = ns_socket_managed(fd, is_socket);                                   \
        int saved = (is_socket) ? errno : 0;                                                       \
        type result = -1;                                                                          \
        bool probes = begins(fd, conn, flags, is_socket) && (is_socket);                           \
        if (probes) {                                                                              \
            probe;                                                                                 \
        }                                                                                          \
        if (!probes || found_nothing(fd, conn, result, saved))                                     \
            result = NS_REAL(name) arguments;                                                      \
        if (conn) {                                                                                \
            ns_in_end(fd, conn, result > 0 ? (ssize_t)(bytes) : result, errno, flags);             \
        } else if (result >= 0) {                                                                  \
            after;                                                                                 \
        }                                                                                          \
        return result;                                                                             \
    }
#define NS_CALL(...)
#define NS_READ(type, name, parameters, arguments, fd, flags, after, failure)                      \
    EACH_READ(type, name, parameters, arguments, fd, flags, result, after, true,                   \
              const int asked = flags;                                                             \
              flags |= MSG_DONTWAIT; result = NS_REAL(name) arguments; flags = asked)
#define NS_VECTOR(type, name, parameters, arguments, fd, flags, bytes, after, failure)             \
    EACH_READ(type, name, parameters, arguments, fd, flags, bytes, after, false, )
#include "base/calls.def"
