/* SPDX-License-Identifier: MIT */
/* The exported writes. Each looks its descriptor up, asks the engine whether the bytes are to be
 * held, makes the call, and tells the engine what the kernel took. Never copies or keeps a byte. As
 * async-signal-safe as the calls themselves. */
#include "interpose.h"

#include <limits.h>
#include <netinet/in.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

enum { IOV_MOST = 1024 }; /* UIO_MAXIOV: sendmsg and writev fail differently above it */

/* An address that is none, sent along with held bytes. A connected TCP socket ignores it
 * (tcp_sendmsg never looks at msg_name); everything else that the descriptor could have become
 * behind our back, UDP above all, where MSG_MORE would merge datagrams, refuses the call before it
 * takes a byte. So the check that the descriptor is still TCP needs no call of its own (SO_COOKIE
 * would be 200 ns). */
static const sa_family_t hold_address = 0xffff;

/* A write on a socket that blocks is a wait for the other sockets of this thread. What the socket's
 * buffer has room for does not block; above BIG nobody can tell, and there the call costs more than
 * settling does. */
static void before_write(int fd, const struct ns_sock *slot, size_t size, int flags)
{
    enum { BIG = 64 * 1024 };
    if (!ns_owes() || ns_owes_only(fd) || NS_GET(slot, nonblock) || flags & MSG_DONTWAIT ||
        !ns_owed_elsewhere(fd))
        return;
    if (size >= BIG)
        ns_settle(NS_OWES_ALL);
    else
        ns_before_wait_for(fd, POLLOUT);
}

/* A write on something else: only held bytes are worth a look at whether it will block. */
static void before_other_write(int fd)
{
    if (ns_owes() && ns_owed() & NS_OWES_PUSH)
        ns_before_wait_for(fd, POLLOUT);
}

static inline ssize_t send_held(int fd, const void *data, size_t size, int flags)
{
    return NS_REAL(sendto)(fd, data, size, flags | MSG_MORE,
                           (const struct sockaddr *)(const void *)&hold_address,
                           sizeof hold_address);
}

/* Was a held write refused because fd is something else by now? Then errno is what it was before,
 * saved, and the slot is looked at anew. */
static inline bool refused(int fd, struct ns_sock *slot, ssize_t result, int saved)
{
    if (__builtin_expect(result >= 0 || !ns_engine_is_stale(errno), 1))
        return false;
    errno = saved;
    ns_engine_heal(fd, slot);
    return true;
}

/* Send one buffer with MSG_MORE. Returns false if fd turned out to be something else, and nothing
 * was sent: the caller then makes the call as the application asked. */
static bool hold(int fd, struct ns_sock *slot, const void *data, size_t size, int flags,
                 ssize_t *result)
{
    int saved = errno;
    ssize_t r = send_held(fd, data, size, flags);
    if (refused(fd, slot, r, saved))
        return false;
    ns_engine_held(fd, slot, r);
    *result = r;
    return true;
}

static bool hold_message(int fd, struct ns_sock *slot, const struct msghdr *message, int flags,
                         ssize_t *result)
{
    struct msghdr held = *message;
    sa_family_t address = hold_address;
    held.msg_name = &address;
    held.msg_namelen = sizeof address;
    int saved = errno;
    ssize_t r = NS_REAL(sendmsg)(fd, &held, flags | MSG_MORE);
    if (refused(fd, slot, r, saved))
        return false;
    ns_engine_held(fd, slot, r);
    *result = r;
    return true;
}

/* One more write of a burst. */
static inline bool continue_burst(int fd, struct ns_sock *slot, const void *data, size_t size,
                                  int flags, ssize_t *result)
{
    if (!ns_engine_bursts(fd, slot))
        return false;
    int saved = errno;
    ssize_t r = send_held(fd, data, size, flags);
    if (refused(fd, slot, r, saved))
        return false;
    ns_engine_continued(fd, slot, r);
    *result = r;
    return true;
}

/* Does a plain write on slot change nothing but the ACK it carries? Then it is two loads and a
 * store. */
static inline bool is_simple(int fd, const struct ns_sock *slot)
{
    return NS_GET(slot, send) == NS_SEND_NODELAY && !NS_GET(slot, app_corks) &&
           (!ns_owes() || ns_owes_only(fd));
}

/* Out of line, so that the paths that pass everything through stay short. */
__attribute__((noinline)) static ssize_t write_governed(int fd, struct ns_sock *slot,
                                                        const void *data, size_t size)
{
    ssize_t result;
    bool sane = size && size <= SSIZE_MAX; /* write refuses what send would cut */
    if (sane && continue_burst(fd, slot, data, size, 0, &result))
        return result;
    before_write(fd, slot, size, 0);
    if (sane && ns_engine_holds(slot, 0) && hold(fd, slot, data, size, 0, &result))
        return result;
    struct ns_plain before = ns_engine_before_plain(fd, slot, 0);
    result = NS_REAL(write)(fd, data, size);
    ns_engine_wrote(fd, slot, result, 0, before);
    return result;
}

__attribute__((noinline)) static ssize_t write_owing(int fd, const void *data, size_t size)
{
    before_other_write(fd);
    return NS_REAL(write)(fd, data, size);
}

NS_EXPORT ssize_t write(int fd, const void *data, size_t size)
{
    struct ns_sock *slot = ns_engine_ruled(fd);
    if (!slot)
        return ns_owes() ? write_owing(fd, data, size) : NS_REAL(write)(fd, data, size);
    if (!is_simple(fd, slot))
        return write_governed(fd, slot, data, size);
    bool owed = ns_engine_carry(slot);
    ssize_t result = NS_REAL(write)(fd, data, size);
    ns_engine_carried(slot, result, owed);
    return result;
}

__attribute__((noinline)) static ssize_t send_governed(int fd, struct ns_sock *slot,
                                                       const void *data, size_t size, int flags)
{
    ssize_t result;
    if (size && !(flags & NS_NEVER_HELD) && continue_burst(fd, slot, data, size, flags, &result))
        return result;
    before_write(fd, slot, size, flags);
    if (size && ns_engine_holds(slot, flags) && hold(fd, slot, data, size, flags, &result))
        return result;
    struct ns_plain before = ns_engine_before_plain(fd, slot, flags);
    result = NS_REAL(send)(fd, data, size, flags);
    ns_engine_wrote(fd, slot, result, flags, before);
    return result;
}

NS_EXPORT ssize_t send(int fd, const void *data, size_t size, int flags)
{
    struct ns_sock *slot = ns_engine_ruled(fd);
    if (!slot)
        return NS_REAL(send)(fd, data, size, flags);
    if (flags & MSG_MORE || !is_simple(fd, slot))
        return send_governed(fd, slot, data, size, flags);
    bool owed = ns_engine_carry(slot);
    ssize_t result = NS_REAL(send)(fd, data, size, flags);
    ns_engine_carried(slot, result, owed);
    return result;
}

NS_EXPORT ssize_t sendto(int fd, const void *data, size_t size, int flags,
                         const struct sockaddr *to, socklen_t len)
{
    struct ns_sock *slot;
    if (flags & MSG_FASTOPEN) /* connects; the first bytes go with the handshake */
        ns_engine_connecting(fd, to, len);
    slot = ns_engine_ruled(fd);
    if (!slot)
        return NS_REAL(sendto)(fd, data, size, flags, to, len);
    before_write(fd, slot, size, flags);
    ssize_t result;
    if (size && !to && ns_engine_holds(slot, flags) && hold(fd, slot, data, size, flags, &result))
        return result;
    struct ns_plain before = ns_engine_before_plain(fd, slot, flags);
    result = NS_REAL(sendto)(fd, data, size, flags, to, len);
    ns_engine_wrote(fd, slot, result, flags, before);
    return result;
}

/* Total length of a vector; 0 if it is not one that the kernel would take as it is. */
static size_t vector_size(const struct iovec *vector, size_t count)
{
    size_t size = 0;
    if (!vector || count > IOV_MOST)
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (vector[i].iov_len > SSIZE_MAX - size)
            return 0;
        size += vector[i].iov_len;
    }
    return size;
}

NS_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct ns_sock *slot;
    if (flags & MSG_FASTOPEN && message)
        ns_engine_connecting(fd, message->msg_name, message->msg_namelen);
    slot = ns_engine_ruled(fd);
    ssize_t result;
    if (!slot) {
        result = NS_REAL(sendmsg)(fd, message, flags);
        if (result >= 0 && (uint32_t)message->msg_controllen)
            ns_rights_leave(message);
        return result;
    }
    /* The vector is looked at only where it may be held: a bad pointer is the kernel's to refuse.
     */
    bool may_hold = message && NS_GET(slot, send) == NS_SEND_AUTO_CORK;
    size_t size = may_hold ? vector_size(message->msg_iov, (uint32_t)message->msg_iovlen) : 0;
    before_write(fd, slot, size, flags);
    if (size && !message->msg_name && !(uint32_t)message->msg_controllen &&
        ns_engine_holds(slot, flags) && hold_message(fd, slot, message, flags, &result))
        return result;
    struct ns_plain before = ns_engine_before_plain(fd, slot, flags);
    result = NS_REAL(sendmsg)(fd, message, flags);
    ns_engine_wrote(fd, slot, result, flags, before);
    return result;
}

/* writev and its kin on a governed socket; false: make the call as asked. */
static bool hold_vector(int fd, struct ns_sock *slot, const struct iovec *vector, int count,
                        ssize_t *result)
{
    bool may_hold = count > 0 && NS_GET(slot, send) == NS_SEND_AUTO_CORK;
    size_t size = may_hold ? vector_size(vector, (size_t)count) : 0;
    before_write(fd, slot, size, 0);
    if (!size || !ns_engine_holds(slot, 0))
        return false;
    /* sendmsg takes the vector without const and does not write to it. */
    union {
        const struct iovec *given;
        struct iovec *taken;
    } vectors = {.given = vector};
    struct msghdr message = {.msg_iov = vectors.taken, .msg_iovlen = (size_t)count};
    return hold_message(fd, slot, &message, 0, result);
}

NS_EXPORT ssize_t writev(int fd, const struct iovec *vector, int count)
{
    struct ns_sock *slot = ns_engine_ruled(fd);
    if (!slot) {
        if (ns_owes())
            before_other_write(fd);
        return NS_REAL(writev)(fd, vector, count);
    }
    ssize_t result;
    if (hold_vector(fd, slot, vector, count, &result))
        return result;
    struct ns_plain before = ns_engine_before_plain(fd, slot, 0);
    result = NS_REAL(writev)(fd, vector, count);
    ns_engine_wrote(fd, slot, result, 0, before);
    return result;
}

NS_EXPORT ssize_t pwritev2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
    struct ns_sock *slot = ns_engine_ruled(fd);
    if (!slot)
        return NS_REAL(pwritev2)(fd, vector, count, offset, flags);
    ssize_t result;
    if (offset == -1 && flags == 0 && hold_vector(fd, slot, vector, count, &result))
        return result;
    struct ns_plain before = ns_engine_before_plain(fd, slot, 0);
    result = NS_REAL(pwritev2)(fd, vector, count, offset, flags);
    ns_engine_wrote(fd, slot, result, 0, before);
    return result;
}

NS_EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    struct ns_sock *slot = ns_engine_ruled(fd);
    if (!slot) {
        int sent = NS_REAL(sendmmsg)(fd, messages, count, flags);
        for (int i = 0; i < sent; i++)
            if ((uint32_t)messages[i].msg_hdr.msg_controllen)
                ns_rights_leave(&messages[i].msg_hdr);
        return sent;
    }
    before_write(fd, slot, SIZE_MAX, flags);
    struct ns_plain before = ns_engine_before_plain(fd, slot, flags);
    int result = NS_REAL(sendmmsg)(fd, messages, count, flags);
    ns_engine_wrote(fd, slot, result, flags, before);
    return result;
}

/* After a transfer inside the kernel. Where less came than was asked for, kernels before 6.5 have
 * sent the last piece with MSG_MORE and nothing after it. */
static void transferred(int fd, struct ns_sock *slot, ssize_t result, size_t asked, int flags,
                        struct ns_plain before)
{
    if (result > 0 && (size_t)result < asked && ns_engine_holds(slot, flags))
        ns_engine_held(fd, slot, result);
    else
        ns_engine_wrote(fd, slot, result, flags, before);
}

NS_EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t size)
{
    struct ns_sock *slot = ns_engine_ruled(out);
    if (!slot)
        return NS_REAL(sendfile)(out, in, offset, size);
    before_write(out, slot, size, 0);
    struct ns_plain before = ns_engine_before_plain(out, slot, 0);
    ssize_t result = NS_REAL(sendfile)(out, in, offset, size);
    transferred(out, slot, result, size, 0, before);
    return result;
}

NS_EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t size)
{
    struct ns_sock *slot = ns_engine_ruled(out);
    if (!slot)
        return NS_REAL(sendfile64)(out, in, offset, size);
    before_write(out, slot, size, 0);
    struct ns_plain before = ns_engine_before_plain(out, slot, 0);
    ssize_t result = NS_REAL(sendfile64)(out, in, offset, size);
    transferred(out, slot, result, size, 0, before);
    return result;
}

NS_EXPORT ssize_t splice(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t size,
                         unsigned flags)
{
    struct ns_sock *to = ns_engine_ruled(out);
    struct ns_sock *from = to ? NULL : ns_engine_ruled(in); /* one of the two is a pipe */
    int more = flags & SPLICE_F_MORE ? MSG_MORE : 0;
    struct ns_plain before = {0, false};
    if (to) {
        before_write(out, to, size, flags & SPLICE_F_NONBLOCK ? MSG_DONTWAIT : 0);
        before = ns_engine_before_plain(out, to, more);
    } else if (ns_owes() && !(flags & SPLICE_F_NONBLOCK)) {
        ns_before_wait_for(in, POLLIN);
    }
    ssize_t result = NS_REAL(splice)(in, in_offset, out, out_offset, size, flags);
    if (to)
        ns_engine_wrote(out, to, result, more, before);
    else if (from)
        ns_engine_read(in, from, result, errno);
    return result;
}
