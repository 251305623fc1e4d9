/* SPDX-License-Identifier: MIT */
/* The exported writes. Each looks its descriptor up, asks the engine whether the bytes are to be
 * held, makes the call, and tells the engine what the kernel took. Never copies or keeps a byte. As
 * async-signal-safe as the calls themselves. */
#include "interpose.h"

#include <limits.h>
#include <netinet/in.h>
#include <sys/uio.h>

enum { IOV_MOST = 1024 }; /* UIO_MAXIOV: sendmsg and writev fail differently above it */

/* An address that is none, sent along with held bytes. A connected TCP socket ignores it
 * (tcp_sendmsg never looks at msg_name); everything else that the descriptor could have become
 * behind our back, UDP above all, where MSG_MORE would merge datagrams, refuses the call before it
 * takes a byte. So the check that the descriptor is still TCP needs no call of its own (SO_COOKIE
 * would be 200 ns). */
static const sa_family_t hold_address = 0xffff;

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

/* send or send_held, first without waiting, and only if that leaves a rest after the other sockets
 * are settled. The rest is as the kernel has it: what was taken counts, and an error is the next
 * call's. */
static ssize_t send_trying(int fd, const void *data, size_t size, int flags, bool held)
{
    ssize_t (*try)(int, const void *, size_t, int) = held ? send_held : ns_real.send;
    int saved = errno;
    ssize_t taken = try(fd, data, size, flags | MSG_DONTWAIT);
    if (taken >= 0 ? (size_t)taken == size : errno != EAGAIN)
        return taken;
    ns_settle(NS_OWES_ALL);
    errno = saved;
    if (taken < 0)
        return try(fd, data, size, flags);
    ssize_t rest = try(fd, (const char *)data + taken, size - (size_t)taken, flags | MSG_NOSIGNAL);
    errno = saved;
    return rest > 0 ? taken + rest : taken;
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
 * was sent: the caller then makes the call as the application asked. waits: see ns_may_wait. */
static bool hold(int fd, struct ns_sock *slot, const void *data, size_t size, int flags, bool waits,
                 ssize_t *result)
{
    int saved = errno;
    ssize_t r = waits ? send_trying(fd, data, size, flags, true) : send_held(fd, data, size, flags);
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

static inline struct iovec memory_at(const void *data, size_t size)
{
    union {
        const void *given;
        void *taken; /* an iovec has no const */
    } both = {.given = data};
    return (struct iovec){.iov_base = both.taken, .iov_len = size};
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
    ssize_t result;
    if (ns_reader_refused(fd, 0, &result))
        return result;
    struct ns_sock *slot = ns_engine_ruled(fd);
    if (!slot) {
        before_other_write(fd);
        return NS_REAL(write)(fd, data, size);
    }
    bool sane = size && size <= SSIZE_MAX; /* write refuses what send would cut */
    bool tries = sane && ns_may_wait(fd, slot, size, 0);
    if (sane && ns_engine_holds(fd, slot, size, 0) && hold(fd, slot, data, size, 0, tries, &result))
        return result;
    struct ns_plain before = ns_engine_before_plain(fd, slot, 0);
    if (tries)
        result = send_trying(fd, data, size, 0, false);
    if (!tries || (result < 0 && errno == ENOTSOCK)) /* it was a socket when we last knew */
        result = NS_NEXT(write)(fd, data, size);
    ns_engine_wrote(fd, slot, result, 0, before);
    return result;
}

/* A write to something that gathers in user memory. */
__attribute__((noinline)) static ssize_t write_gathering(int fd, const void *data, size_t size,
                                                         struct ns_sock *slot)
{
    struct iovec one = memory_at(data, size);
    ssize_t result;
    struct ns_plain before;
    if (ns_gather_write(fd, slot, &one, size, 0, &result, &before))
        return result;
    ns_before_write(fd, slot, size, 0);
    result = NS_REAL(write)(fd, data, size);
    ns_engine_wrote(fd, slot, result, 0, before);
    return result;
}

/* The same, or one to what is no ordinary connection yet. */
__attribute__((noinline)) static ssize_t write_unruled(int fd, const void *data, size_t size,
                                                       struct ns_sock *slot)
{
    if (NS_GET(slot, kind) != NS_FD_GATHERS)
        return write_governed(fd, data, size);
    if (ns_engine_bursts(fd, slot, size, true) && ns_gather_more(fd, slot, data, size))
        return (ssize_t)size;
    return write_gathering(fd, data, size, slot);
}

/* How a write is to be made. */
enum way {
    AT_ONCE,  /* with nothing to tell the engine afterwards */
    AS_MORE,  /* as one more of a burst that is being held */
    GOVERNED, /* it is not as simple as that */
    UNRULED,  /* nor is fd an ordinary connection */
};

__attribute__((always_inline)) static inline enum way way_of(int fd, struct ns_sock *slot,
                                                             size_t size)
{
    if (!slot)
        return GOVERNED;
    uint8_t kind = NS_GET(slot, kind);
    if (kind == NS_FD_OTHER)
        return ns_owes() ? GOVERNED : AT_ONCE;
    if (kind != NS_FD_RULED)
        return UNRULED;
    if (ns_engine_bursts(fd, slot, size, false))
        return AS_MORE;
    return ns_engine_passes(slot, size) ? AT_ONCE : GOVERNED;
}

NS_EXPORT ssize_t write(int fd, const void *data, size_t size)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    enum way way = way_of(fd, slot, size);
    if (__builtin_expect(way == AT_ONCE, 1))
        return NS_NEXT(write)(fd, data, size);
    if (way == UNRULED)
        return write_unruled(fd, data, size, slot);
    return way == AS_MORE ? send_more(fd, data, size, 0) : write_governed(fd, data, size);
}

/* send and sendto on a socket that gathers. */
static ssize_t sendto_gathering(int fd, struct ns_sock *slot, const struct iovec *one, int flags,
                                const struct sockaddr *to, socklen_t len)
{
    ssize_t result;
    struct ns_plain before;
    if (ns_gather_write(fd, slot, one, to ? NS_UNGATHERED : one->iov_len, flags, &result, &before))
        return result;
    ns_before_write(fd, slot, one->iov_len, flags);
    result = NS_REAL(sendto)(fd, one->iov_base, one->iov_len, flags, to, len);
    ns_engine_wrote(fd, slot, result, flags, before);
    return result;
}

__attribute__((noinline)) static ssize_t send_governed(int fd, const void *data, size_t size,
                                                       int flags)
{
    ssize_t result;
    if (ns_reader_refused(fd, flags, &result))
        return result;
    struct ns_sock *slot = ns_engine_ruled(fd);
    if (!slot)
        return NS_REAL(send)(fd, data, size, flags);
    if (NS_GET(slot, kind) == NS_FD_GATHERS) {
        struct iovec one = memory_at(data, size);
        return sendto_gathering(fd, slot, &one, flags, NULL, 0);
    }
    bool tries = ns_may_wait(fd, slot, size, flags);
    if (size && ns_engine_holds(fd, slot, size, flags) &&
        hold(fd, slot, data, size, flags, tries, &result))
        return result;
    struct ns_plain before = ns_engine_before_plain(fd, slot, flags);
    result =
        tries ? send_trying(fd, data, size, flags, false) : NS_NEXT(send)(fd, data, size, flags);
    ns_engine_wrote(fd, slot, result, flags, before);
    return result;
}

__attribute__((noinline)) static ssize_t send_unruled(int fd, const void *data, size_t size,
                                                      int flags, struct ns_sock *slot)
{
    if (NS_GET(slot, kind) != NS_FD_GATHERS)
        return send_governed(fd, data, size, flags);
    if (!(flags & ~MSG_NOSIGNAL) && ns_engine_bursts(fd, slot, size, true) &&
        ns_gather_more(fd, slot, data, size))
        return (ssize_t)size;
    struct iovec one = memory_at(data, size);
    return sendto_gathering(fd, slot, &one, flags, NULL, 0);
}

NS_EXPORT ssize_t send(int fd, const void *data, size_t size, int flags)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    enum way way = flags & NS_NEVER_HELD ? GOVERNED : way_of(fd, slot, size);
    if (__builtin_expect(way == AT_ONCE, 1))
        return NS_NEXT(send)(fd, data, size, flags);
    if (way == UNRULED)
        return send_unruled(fd, data, size, flags, slot);
    return way == AS_MORE ? send_more(fd, data, size, flags) : send_governed(fd, data, size, flags);
}

NS_EXPORT ssize_t sendto(int fd, const void *data, size_t size, int flags,
                         const struct sockaddr *to, socklen_t len)
{
    struct ns_sock *slot;
    if (flags & MSG_FASTOPEN) /* connects; the first bytes go with the handshake */
        ns_engine_connecting(fd, to, len);
    ssize_t result;
    if (ns_reader_refused(fd, flags, &result))
        return result;
    slot = ns_engine_ruled(fd);
    if (!slot)
        return NS_REAL(sendto)(fd, data, size, flags, to, len);
    if (NS_GET(slot, kind) == NS_FD_GATHERS) {
        struct iovec one = memory_at(data, size);
        return sendto_gathering(fd, slot, &one, flags, to, len);
    }
    ns_before_write(fd, slot, size, flags);
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

/* How many bytes a vector has; NS_UNGATHERED: so many that the kernel is to say what it thinks. */
static size_t vector_size(const struct iovec *vector, size_t count)
{
    size_t size = 0;
    if (count > IOV_MOST || (count && ns_lies_nowhere(vector)))
        return NS_UNGATHERED;
    for (size_t i = 0; i < count; i++) {
        if (vector[i].iov_len > NS_LARGE || size > NS_LARGE)
            return NS_UNGATHERED;
        size += vector[i].iov_len;
    }
    return size;
}

static ssize_t sendmsg_gathering(int fd, struct ns_sock *slot, const struct msghdr *message,
                                 int flags)
{
    ssize_t result;
    struct ns_plain before;
    bool may_join =
        !ns_lies_nowhere(message) && !message->msg_name && !(uint32_t)message->msg_controllen;
    const struct iovec *vector = may_join ? message->msg_iov : NULL;
    size_t size = may_join ? vector_size(vector, message->msg_iovlen) : NS_UNGATHERED;
    if (ns_gather_write(fd, slot, vector, size, flags, &result, &before))
        return result;
    ns_before_write(fd, slot, UNKNOWN_SIZE, flags);
    result = NS_REAL(sendmsg)(fd, message, flags);
    ns_engine_wrote(fd, slot, result, flags, before);
    return result;
}

/* writev, and with an offset pwritev2. */
static ssize_t writev_gathering(int fd, struct ns_sock *slot, const struct iovec *vector, int count)
{
    ssize_t result;
    struct ns_plain before;
    size_t size = count >= 0 ? vector_size(vector, (size_t)count) : NS_UNGATHERED;
    if (ns_gather_write(fd, slot, vector, size, 0, &result, &before))
        return result;
    ns_before_write(fd, slot, UNKNOWN_SIZE, 0);
    result = NS_REAL(writev)(fd, vector, count);
    ns_engine_wrote(fd, slot, result, 0, before);
    return result;
}

NS_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct ns_sock *slot;
    if (flags & MSG_FASTOPEN && message)
        ns_engine_connecting(fd, message->msg_name, message->msg_namelen);
    ssize_t result;
    if (ns_reader_refused(fd, flags, &result))
        return result;
    slot = ns_engine_ruled(fd);
    if (!slot) {
        if (ns_gather_wanted() && !ns_lies_nowhere(message) && (uint32_t)message->msg_controllen)
            ns_rights_leave(message); /* before the other process has them, too */
        result = NS_REAL(sendmsg)(fd, message, flags);
        if (result >= 0 && (uint32_t)message->msg_controllen)
            ns_rights_leave(message);
        return result;
    }
    if (NS_GET(slot, kind) == NS_FD_GATHERS)
        return sendmsg_gathering(fd, slot, message, flags);
    bool may_hold = message && may_gather(slot) && !message->msg_name &&
                    !(uint32_t)message->msg_controllen && message->msg_iovlen - 1 < IOV_MOST;
    ns_before_write(fd, slot, UNKNOWN_SIZE, flags);
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
    ns_before_write(fd, slot, UNKNOWN_SIZE, 0);
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
    ssize_t result;
    if (ns_reader_refused(fd, 0, &result))
        return result;
    struct ns_sock *slot = ns_engine_ruled(fd);
    if (!slot) {
        if (ns_owes())
            before_other_write(fd);
        return NS_REAL(writev)(fd, vector, count);
    }
    if (NS_GET(slot, kind) == NS_FD_GATHERS)
        return writev_gathering(fd, slot, vector, count);
    if (hold_vector(fd, slot, vector, count, &result))
        return result;
    struct ns_plain before = ns_engine_before_plain(fd, slot, 0);
    result = NS_REAL(writev)(fd, vector, count);
    ns_engine_wrote(fd, slot, result, 0, before);
    return result;
}

NS_EXPORT ssize_t pwritev2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
    ssize_t result;
    if (ns_reader_refused(fd, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0, &result))
        return result;
    struct ns_sock *slot = ns_engine_ruled(fd);
    if (!slot)
        return NS_REAL(pwritev2)(fd, vector, count, offset, flags);
    if (NS_GET(slot, kind) == NS_FD_GATHERS && offset == -1 && flags == 0)
        return writev_gathering(fd, slot, vector, count);
    struct ns_plain before;
    ns_engine_turns_to(fd);
    if (offset == -1 && flags == 0 && hold_vector(fd, slot, vector, count, &result))
        return result;
    if (NS_GET(slot, kind) == NS_FD_GATHERS) {
        if (ns_gather_write(fd, slot, NULL, NS_UNGATHERED, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0,
                            &result, &before))
            return result;
    } else {
        before = ns_engine_before_plain(fd, slot, 0);
    }
    result = NS_REAL(pwritev2)(fd, vector, count, offset, flags);
    ns_engine_wrote(fd, slot, result, 0, before);
    return result;
}

NS_EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    ssize_t instead;
    if (ns_reader_refused(fd, flags, &instead))
        return (int)instead;
    struct ns_sock *slot = ns_engine_ruled(fd);
    if (!slot) {
        for (unsigned i = 0; ns_gather_wanted() && !ns_lies_nowhere(messages) && i < count; i++)
            if ((uint32_t)messages[i].msg_hdr.msg_controllen)
                ns_rights_leave(&messages[i].msg_hdr);
        int sent = NS_REAL(sendmmsg)(fd, messages, count, flags);
        for (int i = 0; i < sent; i++)
            if ((uint32_t)messages[i].msg_hdr.msg_controllen)
                ns_rights_leave(&messages[i].msg_hdr);
        return sent;
    }
    struct ns_plain before;
    if (!ns_before_plain(fd, slot, SIZE_MAX, flags, &before, &instead))
        return (int)instead;
    int result = NS_REAL(sendmmsg)(fd, messages, count, flags);
    ns_engine_wrote(fd, slot, result, flags, before);
    return result;
}
