/* SPDX-License-Identifier: MIT */
/* The exported writes. Each runs ns_out_begin, makes the call as the application did, and runs
 * ns_out_end. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"

#include <sys/sendfile.h>
#include <sys/uio.h>

/* Is the call only passed on, since the table's entry of fd has no rule, and nothing is pending?
 * Such writes are a jump to libc. */
static inline bool passes(int fd, const struct ns_conn *conn, bool sockets_only)
{
    if (ns_fd_may_be_socket(conn) ? sockets_only || ns_socket_may_be_inherited(fd)
                                  : ns_fd_is_conn(conn) && ns_conn_is_tracked(conn))
        return false;
    return !ns_pending_any() || ns_pending_skips(fd, false);
}

/* Out of line: the path of other descriptors saves no registers then. */
__attribute__((noinline)) static ssize_t write_managed(int fd, const void *data, size_t size)
{
    struct ns_conn *conn = ns_socket_managed(fd, false);
    struct ns_write one = ns_out_begin(fd, conn, size, 0);
    if (!one.conn)
        return NS_REAL(write)(fd, data, size);
    ssize_t result = NS_REAL(write)(fd, data, size);
    ns_out_end(one, fd, 0, result);
    return result;
}

NS_EXPORT ssize_t write(int fd, const void *data, size_t size)
{
    if (!ns_fd_has_place(fd))
        return write_managed(fd, data, size);
    struct ns_conn *conn = ns_fd_lookup(fd);
    if (__builtin_expect(passes(fd, conn, false), 1))
        return NS_NEXT(write)(fd, data, size);
    if (ns_fd_is_conn(conn) && ns_out_goes_on(fd, conn))
        return NS_NEXT(write)(fd, data, size);
    return write_managed(fd, data, size);
}

/* As many messages as the kernel sends in one call (UIO_MAXIOV). */
static void rights_sent(int fd, const struct mmsghdr *messages, int from, unsigned count,
                        void (*visit)(int fd))
{
    for (unsigned i = from < 0 ? 0 : (unsigned)from; i < count && i < 1024; i++)
        ns_rights_sent(fd, &messages[i].msg_hdr, visit);
}

/* may: the call may be only passed on. after: what is done after a call that ns_out_end does not
 * follow. */
#define EACH_WRITE(type, name, parameters, arguments, fd, flags, bytes, sockets_only, may, after)  \
    __attribute__((noinline)) static type managed_##name parameters                                \
    {                                                                                              \
        struct ns_conn *conn = ns_socket_managed(fd, sockets_only);                                \
        struct ns_write one = ns_out_begin(fd, conn, bytes, flags);                                \
        if (!one.conn)                                                                             \
            after;                                                                                 \
        type result = NS_REAL(name) arguments;                                                     \
        ns_out_end(one, fd, flags, result);                                                        \
        return result;                                                                             \
    }                                                                                              \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        struct ns_conn *conn = ns_fd_has_place(fd) ? ns_fd_lookup(fd) : NS_FD_UNKNOWN;             \
        if (__builtin_expect((may) && passes(fd, conn, sockets_only), 1) ||                        \
            ((flags) == 0 && ns_fd_is_conn(conn) && ns_out_goes_on(fd, conn)))                     \
            return NS_REAL(name) arguments;                                                        \
        return managed_##name arguments;                                                           \
    }

/* What a message to a UNIX socket may contain has to be seen. */
#define AFTER_send(call) return call
#define AFTER_sendto(call) return call
#define AFTER_sendmsg(call)                                                                        \
    do {                                                                                           \
        ns_rights_sent(fd, message, ns_handover_passes);                                           \
        ssize_t sent = call;                                                                       \
        if (sent < 0)                                                                              \
            ns_rights_sent(fd, message, ns_handover_kept);                                         \
        return sent;                                                                               \
    } while (0)
#define AFTER_sendmmsg(call)                                                                       \
    do {                                                                                           \
        rights_sent(fd, messages, 0, count, ns_handover_passes);                                   \
        int sent = call;                                                                           \
        rights_sent(fd, messages, sent, count, ns_handover_kept);                                  \
        return sent;                                                                               \
    } while (0)
#define AFTER___sendmsg64 AFTER_sendmsg
#define AFTER___sendmmsg64 AFTER_sendmmsg

#define NS_CALL(...)
#define NS_WRITE(type, name, parameters, arguments, fd, flags, size, bytes, failure)               \
    EACH_WRITE(type, name, parameters, arguments, fd, flags, size, false, true,                    \
               return NS_REAL(name) arguments)
#define NS_SEND(type, name, parameters, arguments, fd, flags, size, bytes, failure)                \
    EACH_WRITE(type, name, parameters, arguments, fd, flags, size, true, conn != NS_FD_UNIX,       \
               AFTER_##name(NS_REAL(name) arguments))
#include "base/calls.def"
#undef NS_CALL

/* One of the two is a pipe. SPLICE_F_NONBLOCK is about the pipe (splice(2)). */
NS_EXPORT ssize_t splice(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t size,
                         unsigned flags)
{
    struct ns_conn *source = ns_socket_managed(from, false);
    if (source)
        ns_in_begin(from, source, 0, false);
    else if (!(flags & SPLICE_F_NONBLOCK))
        ns_flush_unless_ready(from, NULL, POLLIN);
    int more = flags & SPLICE_F_MORE ? MSG_MORE : 0;
    struct ns_write one = ns_out_begin(to, ns_socket_managed(to, false), size, more);
    ssize_t result = NS_REAL(splice)(from, from_offset, to, to_offset, size, flags);
    if (one.conn)
        ns_out_end(one, to, more, result);
    if (source)
        ns_in_end(from, source, result, errno, 0);
    return result;
}
