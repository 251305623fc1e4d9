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

/* A write on a socket that blocks is a wait for the other sockets of this thread: may this one be?
 * Above BIG nobody can tell what the socket's buffer has room for, and there the call costs more
 * than settling does: then that is done here. */
static bool may_wait(int fd, const struct ns_sock *slot, size_t size, int flags)
{
    enum { BIG = 64 * 1024 };
    if (!ns_owes() || ns_owes_only(fd) || NS_GET(slot, nonblock) || flags & MSG_DONTWAIT ||
        !ns_owed_elsewhere(fd))
        return false;
    if (size < BIG)
        return true;
    ns_settle(NS_OWES_ALL);
    return false;
}

/* The same for calls that cannot be made in two steps: asks first whether there is room. */
static void before_write(int fd, const struct ns_sock *slot, size_t size, int flags)
{
    if (may_wait(fd, slot, size, flags))
        ns_before_wait_for(fd, POLLOUT);
}

/* send, first without waiting, and only if that leaves a rest after the other sockets are settled.
 * The rest is as the kernel has it: what was taken counts, and an error is the next call's. */
static ssize_t send_trying(int fd, const void *data, size_t size, int flags)
{
    int saved = errno;
    ssize_t taken = NS_NEXT(send)(fd, data, size, flags | MSG_DONTWAIT);
    if (taken >= 0 ? (size_t)taken == size : errno != EAGAIN)
        return taken;
    ns_settle(NS_OWES_ALL);
    errno = saved;
    if (taken < 0)
        return NS_NEXT(send)(fd, data, size, flags);
    ssize_t rest =
        NS_NEXT(send)(fd, (const char *)data + taken, size - (size_t)taken, flags | MSG_NOSIGNAL);
    errno = saved;
    return rest > 0 ? taken + rest : taken;
}

/* A write on something else: only held bytes are worth a look at whether it will block. */
static void before_other_write(int fd)
{
    if (ns_owes() && ns_owed() & NS_OWES_PUSH)
        ns_before_wait_for(fd, POLLOUT);
}

static inline ssize_t send_held(int fd, const void *data, size_t size, int flags)
{
    return NS_REAL(sendto)(
        fd, data, size, flags | MSG_MORE,
        NS_MUTANT(hold_address) ? NULL : (const struct sockaddr *)(const void *)&hold_address,
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
 * was sent: the caller then makes the call as the application asked. waits: see may_wait. */
static bool hold(int fd, struct ns_sock *slot, const void *data, size_t size, int flags, bool waits,
                 ssize_t *result)
{
    int saved = errno;
    if (waits)
        ns_before_wait_for(fd, POLLOUT);
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
    held.msg_name = NS_MUTANT(hold_address) ? NULL : &address;
    held.msg_namelen = sizeof address;
    int saved = errno;
    ssize_t r = NS_REAL(sendmsg)(fd, &held, flags | MSG_MORE);
    if (refused(fd, slot, r, saved))
        return false;
    ns_engine_held(fd, slot, r);
    *result = r;
    return true;
}

/* One more write of a burst, if ns_engine_bursts allows it. Where fd has become something else the
 * write is made as asked, and errno may be changed by a call that works. */
__attribute__((noinline)) static ssize_t send_more(int fd, const void *data, size_t size, int flags)
{
    ssize_t result = NS_NEXT(send)(fd, data, size, flags | MSG_MORE);
    struct ns_sock *slot = ns_fd_slot(fd);
    if (__builtin_expect(result >= 0 && slot, 1)) {
        ns_engine_continued(fd, slot, result);
        return result;
    }
    if (!slot || !ns_engine_is_stale(errno))
        return result;
    ns_engine_heal(fd, slot);
    return flags ? send(fd, data, size, flags) : write(fd, data, size);
}

/* The paths of write and send. The exported functions themselves only tell apart what passes and
 * what does not: what passes ends in a jump, since after a system call this deep a return is
 * mispredicted. */
__attribute__((noinline)) static ssize_t write_governed(int fd, const void *data, size_t size)
{
    struct ns_sock *slot = ns_engine_ruled(fd);
    if (!slot) {
        before_other_write(fd);
        return NS_REAL(write)(fd, data, size);
    }
    ssize_t result;
    bool sane = size && size <= SSIZE_MAX; /* write refuses what send would cut */
    bool tries = sane && may_wait(fd, slot, size, 0);
    if (sane && ns_engine_holds(fd, slot, size, 0) && hold(fd, slot, data, size, 0, tries, &result))
        return result;
    struct ns_plain before = ns_engine_before_plain(fd, slot, 0);
    result = tries ? send_trying(fd, data, size, 0) : NS_NEXT(write)(fd, data, size);
    if (__builtin_expect(result < 0 && errno == ENOTSOCK,
                         0)) /* it was a socket when we last knew */
        result = NS_NEXT(write)(fd, data, size);
    ns_engine_wrote(fd, slot, result, 0, before);
    return result;
}

/* How a write is to be made. */
enum way {
    AT_ONCE,  /* with nothing to tell the engine afterwards */
    AS_MORE,  /* as one more of a burst that is being held */
    GOVERNED, /* it is not as simple as that */
};

__attribute__((always_inline)) static inline enum way way_of(int fd, size_t size)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (!slot)
        return GOVERNED;
    uint8_t kind = NS_GET(slot, kind);
    if (kind == NS_FD_OTHER)
        return ns_owes() ? GOVERNED : AT_ONCE;
    if (kind != NS_FD_RULED)
        return GOVERNED;
    if (ns_engine_bursts(fd, slot, size))
        return AS_MORE;
    return ns_engine_passes(slot) ? AT_ONCE : GOVERNED;
}

NS_EXPORT ssize_t write(int fd, const void *data, size_t size)
{
    enum way way = way_of(fd, size);
    if (__builtin_expect(way == AT_ONCE, 1))
        return NS_NEXT(write)(fd, data, size);
    return way == AS_MORE ? send_more(fd, data, size, 0) : write_governed(fd, data, size);
}

__attribute__((noinline)) static ssize_t send_governed(int fd, const void *data, size_t size,
                                                       int flags)
{
    struct ns_sock *slot = ns_engine_ruled(fd);
    if (!slot)
        return NS_REAL(send)(fd, data, size, flags);
    ssize_t result;
    bool tries = may_wait(fd, slot, size, flags);
    if (size && ns_engine_holds(fd, slot, size, flags) &&
        hold(fd, slot, data, size, flags, tries, &result))
        return result;
    struct ns_plain before = ns_engine_before_plain(fd, slot, flags);
    result = tries ? send_trying(fd, data, size, flags) : NS_NEXT(send)(fd, data, size, flags);
    ns_engine_wrote(fd, slot, result, flags, before);
    return result;
}

NS_EXPORT ssize_t send(int fd, const void *data, size_t size, int flags)
{
    enum way way = flags & NS_NEVER_HELD ? GOVERNED : way_of(fd, size);
    if (__builtin_expect(way == AT_ONCE, 1))
        return NS_NEXT(send)(fd, data, size, flags);
    return way == AS_MORE ? send_more(fd, data, size, flags) : send_governed(fd, data, size, flags);
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
    if (size && !to && ns_engine_holds(fd, slot, size, flags) &&
        hold(fd, slot, data, size, flags, false, &result))
        return result;
    struct ns_plain before = ns_engine_before_plain(fd, slot, flags);
    result = NS_REAL(sendto)(fd, data, size, flags, to, len);
    ns_engine_wrote(fd, slot, result, flags, before);
    return result;
}

/* Is a description of memory to be looked at? Only where its bytes may be held: a bad pointer is
 * the kernel's to refuse. */
static bool may_gather(const struct ns_sock *slot)
{
    struct ns_tempo tempo = ns_tempo_of(slot);
    return NS_GET(slot, send) == NS_SEND_AUTO_CORK ||
           (NS_GET(slot, send) == NS_SEND_ADAPTIVE && ns_tempo_gathers(&tempo));
}

/* A vector's length is the kernel's to find out, for the same reason: it counts as small here, and
 * is pushed if it was not. */
enum { UNKNOWN_SIZE = 1 };

static void push_if_large(int fd, struct ns_sock *slot, ssize_t result)
{
    if (result >= NS_LARGE)
        ns_engine_push(fd, slot);
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
    bool may_hold = message && may_gather(slot) && !message->msg_name &&
                    !(uint32_t)message->msg_controllen && message->msg_iovlen - 1 < IOV_MOST;
    before_write(fd, slot, UNKNOWN_SIZE, flags);
    bool holds = ns_engine_holds(fd, slot, may_hold ? UNKNOWN_SIZE : NS_LARGE, flags);
    if (holds && hold_message(fd, slot, message, flags, &result)) {
        push_if_large(fd, slot, result);
        return result;
    }
    struct ns_plain before = ns_engine_before_plain(fd, slot, flags);
    result = NS_REAL(sendmsg)(fd, message, flags);
    ns_engine_wrote(fd, slot, result, flags, before);
    return result;
}

/* writev and its kin on a governed socket; false: make the call as asked. */
static bool hold_vector(int fd, struct ns_sock *slot, const struct iovec *vector, int count,
                        ssize_t *result)
{
    bool may_hold = count > 0 && count <= IOV_MOST;
    before_write(fd, slot, UNKNOWN_SIZE, 0);
    if (!ns_engine_holds(fd, slot, may_hold ? UNKNOWN_SIZE : NS_LARGE, 0))
        return false;
    /* sendmsg takes the vector without const and does not write to it. */
    union {
        const struct iovec *given;
        struct iovec *taken;
    } vectors = {.given = vector};
    struct msghdr message = {.msg_iov = vectors.taken, .msg_iovlen = (size_t)count};
    if (!hold_message(fd, slot, &message, 0, result))
        return false;
    push_if_large(fd, slot, *result);
    return true;
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
    ns_engine_count(fd, slot);
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
    if (result > 0 && (size_t)result < asked && ns_engine_holds(fd, slot, 1, flags))
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
    ns_engine_count(out, slot);
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
    ns_engine_count(out, slot);
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
    struct ns_plain before = {0};
    if (to) {
        before_write(out, to, size, flags & SPLICE_F_NONBLOCK ? MSG_DONTWAIT : 0);
        ns_engine_count(out, to);
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
