/* SPDX-License-Identifier: MIT */
/* The exported writes. Each runs ns_out_begin, the call and ns_out_end. A write that is held
 * (auto-cork) is made as a send with MSG_MORE, any other as the application made it. Never copies
 * or keeps a byte. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"
#include "traffic/push.h"
#include "conn/fds.h"
#include "conn/kernel.h"

#include <limits.h>
#include <netinet/in.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

/* Before a write on conn (NULL: no rule governs fd). plain: do not hold it. */
static inline struct ns_write begin(int fd, struct ns_conn *conn, size_t size, int flags,
                                    bool plain)
{
    struct ns_write one = {.fd = fd, .flags = flags, .size = size, .conn = conn, .plain = plain};
    ns_out_begin(&one);
    return one;
}

/* An invalid address that is passed with held bytes. A connected TCP socket ignores it (tcp_sendmsg
 * never reads msg_name). If the descriptor was replaced unseen, the call fails before it takes a
 * byte. This matters most for UDP, where MSG_MORE would merge datagrams. So no additional call is
 * needed to check that the descriptor is still TCP. */
static const sa_family_t hold_address = 0xffff;

/* Is it an errno value of a held write to something else than a connected TCP socket? */
static bool is_stale(int error)
{
    return error == EINVAL || error == EISCONN || error == EOPNOTSUPP || error == EAFNOSUPPORT ||
           error == EDESTADDRREQ || error == ENOTSOCK || error == EBADF || error == EPROTOTYPE ||
           error == ENOPROTOOPT;
}

/* After a held write. Returns false if fd is not a connected TCP socket. Then nothing was sent,
 * errno is saved again, and the caller makes the call as the application asked. */
static bool is_held(struct ns_write *one, ssize_t result, int saved)
{
    if (__builtin_expect(result >= 0 || !is_stale(errno), 1)) {
        ns_held_after(one, result);
        return true;
    }
    errno = saved;
    ns_held_refused(one);
    return false;
}

static bool send_held(struct ns_write *one, const void *data, size_t size, ssize_t *result)
{
    int saved = errno;
    *result =
        NS_REAL(sendto)(one->fd, data, size, one->flags | MSG_MORE,
                        (const struct sockaddr *)(const void *)&hold_address, sizeof hold_address);
    return is_held(one, *result, saved);
}

/* writev and pwritev2. Only the kernel reads the vector. */
static bool writev_held(struct ns_write *one, const struct iovec *vector, int count,
                        ssize_t *result)
{
    /* sendmsg takes the vector without const and does not write to it. */
    union {
        const struct iovec *given;
        struct iovec *taken;
    } both = {.given = vector};
    sa_family_t address = hold_address;
    struct msghdr message = {.msg_name = &address,
                             .msg_namelen = sizeof address,
                             .msg_iov = both.taken,
                             .msg_iovlen = (size_t)count};
    int saved = errno;
    *result = NS_REAL(sendmsg)(one->fd, &message, MSG_MORE | MSG_NOSIGNAL);
    if (*result >= 0 || errno != EPIPE)
        return is_held(one, *result, saved);
    errno = saved;
    ns_held_after(one, *result);
    /* writev raises SIGPIPE for it, and without bytes does not report it */
    one->holds = false;
    return false;
}

/* The message must not be changed or read, since the pointer may be bad. So the kernel is asked
 * what fd is. */
static bool sendmsg_held(struct ns_write *one, const struct msghdr *message, ssize_t *result)
{
    if (!ns_kernel_is_still_tcp(one->fd)) {
        ns_held_refused(one);
        return false;
    }
    *result = NS_REAL(sendmsg)(one->fd, message, one->flags | MSG_MORE);
    ns_held_after(one, *result);
    return true;
}

/* Does no rule govern conn, the table's entry, and is nothing pending? Such writes end in a jump to
 * libc and save no registers, since a return is mispredicted after a system call. */
static inline bool passes(const struct ns_conn *conn)
{
    return (!ns_fd_is_conn(conn) || !ns_conn_is_ours(conn)) && !ns_pending_any();
}

/* One more write of a held burst. If fd was replaced unseen, the write is made as the application
 * asked; errno may then change although the call succeeds. */
__attribute__((noinline)) static ssize_t send_more(int fd, const void *data, size_t size, int flags)
{
    ssize_t result = NS_NEXT(send)(fd, data, size, flags | MSG_MORE);
    struct ns_conn *conn = ns_fd_conn(fd);
    if (__builtin_expect(result >= 0, 1)) {
        ns_held_went_on(fd, result);
        return result;
    }
    if (!conn || !is_stale(errno))
        return result;
    ns_fd_refresh(fd, conn);
    return flags ? send(fd, data, size, flags) : write(fd, data, size);
}

__attribute__((noinline)) static ssize_t write_governed(int fd, const void *data, size_t size)
{
    ssize_t result;
    /* write refuses sizes that send would cut. */
    struct ns_write one = begin(fd, ns_socket_ruled(fd, false), size, 0, size > SSIZE_MAX);
    if (one.holds && send_held(&one, data, size, &result))
        return result;
    result = NS_REAL(write)(fd, data, size);
    ns_out_end(&one, result);
    return result;
}

/* How to make a write. */
enum way {
    AT_ONCE,  /* without hooks */
    AS_MORE,  /* as one more write of a held burst */
    GOVERNED, /* with hooks */
};

/* conn: the table's entry of fd. */
__attribute__((always_inline)) static inline enum way way_of(int fd, struct ns_conn *conn,
                                                             size_t size)
{
    if (!ns_fd_is_conn(conn) || NS_GET(conn, kind) != NS_CONN_RULED)
        return GOVERNED;
    if (ns_out_passes(fd, conn))
        return AT_ONCE;
    return ns_held_goes_on(fd, conn, size) ? AS_MORE : GOVERNED;
}

__attribute__((noinline)) static ssize_t write_socket(int fd, const void *data, size_t size,
                                                      struct ns_conn *conn)
{
    enum way way = way_of(fd, conn, size);
    if (__builtin_expect(way == AT_ONCE, 1))
        return NS_NEXT(write)(fd, data, size);
    return way == AS_MORE ? send_more(fd, data, size, 0) : write_governed(fd, data, size);
}

NS_EXPORT ssize_t write(int fd, const void *data, size_t size)
{
    if (!ns_fd_is_open(fd))
        return write_governed(fd, data, size);
    struct ns_conn *conn = ns_fd_lookup(fd);
    return passes(conn) ? NS_NEXT(write)(fd, data, size) : write_socket(fd, data, size, conn);
}

__attribute__((noinline)) static ssize_t send_governed(int fd, const void *data, size_t size,
                                                       int flags)
{
    ssize_t result;
    struct ns_write one = begin(fd, ns_socket_ruled(fd, true), size, flags, false);
    if (one.holds && send_held(&one, data, size, &result))
        return result;
    result = NS_REAL(send)(fd, data, size, flags);
    ns_out_end(&one, result);
    return result;
}

__attribute__((noinline)) static ssize_t send_socket(int fd, const void *data, size_t size,
                                                     int flags, struct ns_conn *conn)
{
    enum way way = flags & NS_NEVER_HELD ? GOVERNED : way_of(fd, conn, size);
    if (__builtin_expect(way == AT_ONCE, 1))
        return NS_NEXT(send)(fd, data, size, flags);
    return way == AS_MORE ? send_more(fd, data, size, flags) : send_governed(fd, data, size, flags);
}

NS_EXPORT ssize_t send(int fd, const void *data, size_t size, int flags)
{
    struct ns_conn *conn = ns_fd_is_open(fd) ? ns_fd_lookup(fd) : NS_FD_UNKNOWN;
    return conn != NS_FD_UNKNOWN && passes(conn) ? NS_NEXT(send)(fd, data, size, flags)
                                                 : send_socket(fd, data, size, flags, conn);
}

NS_EXPORT ssize_t sendto(int fd, const void *data, size_t size, int flags,
                         const struct sockaddr *to, socklen_t len)
{
    ssize_t result;
    struct ns_write one = begin(fd, ns_socket_ruled(fd, true), size, flags, to != NULL);
    if (one.holds && send_held(&one, data, size, &result))
        return result;
    result = NS_REAL(sendto)(fd, data, size, flags, to, len);
    ns_out_end(&one, result);
    return result;
}

NS_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t result;
    struct ns_write one = begin(fd, ns_socket_ruled(fd, true), NS_UNKNOWN_SIZE, flags, false);
    if (one.holds && sendmsg_held(&one, message, &result))
        return result;
    result = NS_REAL(sendmsg)(fd, message, flags);
    if (one.conn)
        ns_out_end(&one, result);
    else if (result >= 0 && (uint32_t)message->msg_controllen)
        ns_rights_sent(message);
    return result;
}

/* With more than UIO_MAXIOV elements writev and sendmsg fail in different ways. */
static inline bool fits(int count)
{
    return count > 0 && count <= IOV_MAX;
}

NS_EXPORT ssize_t writev(int fd, const struct iovec *vector, int count)
{
    ssize_t result;
    if (ns_fd_is_open(fd) && passes(ns_fd_lookup(fd)))
        return NS_REAL(writev)(fd, vector, count);
    struct ns_write one = begin(fd, ns_socket_ruled(fd, false), NS_UNKNOWN_SIZE, 0, !fits(count));
    if (one.holds && writev_held(&one, vector, count, &result))
        return result;
    result = NS_REAL(writev)(fd, vector, count);
    ns_out_end(&one, result);
    return result;
}

NS_EXPORT ssize_t pwritev2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
    ssize_t result;
    int waits = flags & RWF_NOWAIT ? MSG_DONTWAIT : 0;
    struct ns_write one = begin(fd, ns_socket_ruled(fd, false), NS_UNKNOWN_SIZE, waits,
                                offset != -1 || flags || !fits(count));
    if (one.holds && writev_held(&one, vector, count, &result))
        return result;
    result = NS_REAL(pwritev2)(fd, vector, count, offset, flags);
    ns_out_end(&one, result);
    return result;
}

NS_EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    struct ns_write one = begin(fd, ns_socket_ruled(fd, true), SIZE_MAX, flags, true);
    int result = NS_REAL(sendmmsg)(fd, messages, count, flags);
    ns_out_end(&one, result);
    for (int i = 0; !one.conn && i < result; i++)
        if ((uint32_t)messages[i].msg_hdr.msg_controllen)
            ns_rights_sent(&messages[i].msg_hdr);
    return result;
}

/* --- from a file or a pipe --- */

NS_EXPORT ssize_t sendfile(int to, int from, off_t *offset, size_t size)
{
    struct ns_write one = begin(to, ns_socket_ruled(to, false), size, 0, true);
    ssize_t result = NS_REAL(sendfile)(to, from, offset, size);
    ns_out_end(&one, result);
    return result;
}

NS_EXPORT ssize_t sendfile64(int to, int from, off64_t *offset, size_t size)
{
    struct ns_write one = begin(to, ns_socket_ruled(to, false), size, 0, true);
    ssize_t result = NS_REAL(sendfile64)(to, from, offset, size);
    ns_out_end(&one, result);
    return result;
}

/* One of the two is a pipe. SPLICE_F_NONBLOCK is about the pipe (splice(2)). */
NS_EXPORT ssize_t splice(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t size,
                         unsigned flags)
{
    int more = flags & SPLICE_F_MORE ? MSG_MORE : 0;
    struct ns_conn *source = ns_socket_ruled(from, false);
    if (source && !NS_GET(source, nonblock)) {
        ns_epoch_ends();
        ns_push(from, source);
        if (ns_pending_any())
            ns_flush_unless_ready(from, POLLIN);
    }
    struct ns_write one = begin(to, ns_socket_ruled(to, false), size, more, true);
    ssize_t result = NS_REAL(splice)(from, from_offset, to, to_offset, size, flags);
    ns_out_end(&one, result);
    if (source)
        ns_in_end(from, source, result, errno, 0);
    return result;
}

/* --- formatted output, which libc writes without calling write() --- */

NS_EXPORT int vdprintf(int fd, const char *format, va_list arguments)
{
    struct ns_write one = begin(fd, ns_socket_ruled(fd, false), NS_UNKNOWN_SIZE, 0, true);
    int result = NS_REAL(vdprintf)(fd, format, arguments);
    ns_out_end(&one, result);
    return result;
}

NS_EXPORT int dprintf(int fd, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = vdprintf(fd, format, arguments);
    va_end(arguments);
    return result;
}

NS_EXPORT int __vdprintf_chk(int fd, int flag, const char *format, va_list arguments)
{
    struct ns_write one = begin(fd, ns_socket_ruled(fd, false), NS_UNKNOWN_SIZE, 0, true);
    int result = NS_REAL(__vdprintf_chk)(fd, flag, format, arguments);
    ns_out_end(&one, result);
    return result;
}

NS_EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = __vdprintf_chk(fd, flag, format, arguments);
    va_end(arguments);
    return result;
}
