/* SPDX-License-Identifier: MIT */
/* The exported reads. A read that would block is a wait: where this thread owes ACKs it is first
 * made without waiting, and only when there is nothing are they sent. Never reads ahead, never
 * keeps a byte. As async-signal-safe as the calls themselves. */
#include "interpose.h"

#include "flusher.h"

#include <limits.h>
#include <string.h>

void ns_before_wait_for(int fd, short events)
{
    if (!ns_owed())
        return;
    struct pollfd one = {.fd = fd, .events = events};
    int saved = errno;
    int ready = NS_REAL(poll)(&one, 1, 0);
    errno = saved;
    if (ready <= 0)
        ns_settle(NS_OWES_ALL);
}

enum ns_reading ns_before_read(int fd, struct ns_sock *slot, int flags)
{
    (void)fd;
    ns_epoch_ends();
    if (!ns_owes() || NS_GET(slot, nonblock) || flags & (MSG_DONTWAIT | MSG_ERRQUEUE))
        return NS_READ_PLAIN; /* does not wait: the poll that follows does */
    unsigned debts = ns_owed();
    ns_flusher_start_if_wanted();
    if (!debts)
        return NS_READ_PLAIN;
    if ((flags & MSG_WAITALL || NS_GET(slot, lowat)) && !NS_MUTANT(wait_for_all)) {
        ns_settle(NS_OWES_ALL); /* a first read without waiting would cut it short */
        return NS_READ_PLAIN;
    }
    if (debts & NS_OWES_PUSH)
        ns_settle(NS_OWES_PUSH);
    return debts & (NS_OWES_ACK | NS_OWES_LATER) ? NS_READ_PATIENT : NS_READ_PLAIN;
}

/* A read of something that is not a governed socket is a wait all the same. */
static inline void before_other_read(int fd)
{
    ns_epoch_ends();
    if (ns_owes())
        ns_before_wait_for(fd, POLLIN);
}

/* No data came: where a flush has met the connection's error, the application has not. */
__attribute__((noinline)) static ssize_t instead_of_nothing(int fd, struct ns_sock *slot,
                                                            ssize_t result)
{
    if (NS_GET(slot, kind) < NS_FD_GATHERS || (result < 0 && errno != EAGAIN))
        return result;
    int error = ns_gather_report(fd, slot);
    if (!error)
        return result;
    errno = error;
    return -1;
}

/* Returns what the application is told. */
static ssize_t after_read(int fd, struct ns_sock *slot, ssize_t result, int flags)
{
    bool tells = !(flags & MSG_PEEK) || (result < 0 && errno == EAGAIN); /* data stays unread */
    if (!(flags & MSG_ERRQUEUE) && tells && !NS_MUTANT(owe_after_read))
        ns_engine_read(fd, slot, result, errno);
    return result > 0 ? result : instead_of_nothing(fd, slot, result);
}

/* Out of line, so that what passes through stays short. */
__attribute__((noinline)) static ssize_t read_other(int fd, void *data, size_t size)
{
    before_other_read(fd);
    return NS_REAL(read)(fd, data, size);
}

NS_EXPORT ssize_t read(int fd, void *data, size_t size)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (slot && NS_GET(slot, kind) == NS_FD_OTHER && !ns_owes()) {
        ns_epoch_ends();
        return NS_NEXT(read)(fd, data, size);
    }
    slot = ns_engine_reads(fd);
    if (!slot)
        return read_other(fd, data, size);
    ssize_t result;
    /* read returns at once for no size, and refuses one that recv would cut. */
    if (size && size <= SSIZE_MAX && ns_before_read(fd, slot, 0) == NS_READ_PATIENT) {
        int saved = errno;
        result = NS_REAL(recv)(fd, data, size, MSG_DONTWAIT);
        if (ns_found_nothing(result, saved))
            result = NS_REAL(read)(fd, data, size);
    } else {
        result = NS_REAL(read)(fd, data, size);
    }
    return size ? after_read(fd, slot, result, 0) : result;
}

NS_EXPORT ssize_t recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *from,
                           socklen_t *len)
{
    struct ns_sock *slot = ns_engine_reads(fd);
    if (!slot) {
        if (!(flags & MSG_DONTWAIT))
            before_other_read(fd);
        return NS_REAL(recvfrom)(fd, data, size, flags, from, len);
    }
    ssize_t result;
    if (ns_before_read(fd, slot, flags) == NS_READ_PATIENT) {
        int saved = errno;
        result = NS_REAL(recvfrom)(fd, data, size, flags | MSG_DONTWAIT, from, len);
        if (ns_found_nothing(result, saved))
            result = NS_REAL(recvfrom)(fd, data, size, flags, from, len);
    } else {
        result = NS_REAL(recvfrom)(fd, data, size, flags, from, len);
    }
    return after_read(fd, slot, result, flags);
}

NS_EXPORT ssize_t recv(int fd, void *data, size_t size, int flags)
{
    struct ns_sock *slot = ns_engine_reads(fd);
    if (!slot) {
        if (!(flags & MSG_DONTWAIT))
            before_other_read(fd);
        return NS_REAL(recv)(fd, data, size, flags);
    }
    ssize_t result;
    if (ns_before_read(fd, slot, flags) == NS_READ_PATIENT) {
        int saved = errno;
        result = NS_REAL(recv)(fd, data, size, flags | MSG_DONTWAIT);
        if (ns_found_nothing(result, saved))
            result = NS_REAL(recv)(fd, data, size, flags);
    } else {
        result = NS_REAL(recv)(fd, data, size, flags);
    }
    return after_read(fd, slot, result, flags);
}

NS_EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    struct ns_sock *slot = ns_engine_reads(fd);
    ssize_t result;
    if (!slot) {
        if (!(flags & MSG_DONTWAIT))
            before_other_read(fd);
        result = NS_REAL(recvmsg)(fd, message, flags);
        if (result >= 0 && (uint32_t)message->msg_controllen)
            ns_rights_arrive(message);
        return result;
    }
    if (message && ns_before_read(fd, slot, flags) == NS_READ_PATIENT) {
        int saved = errno;
        struct msghdr asked = *message; /* the kernel writes into it even when there is nothing */
        result = NS_REAL(recvmsg)(fd, message, flags | MSG_DONTWAIT);
        if (ns_found_nothing(result, saved)) {
            *message = asked;
            result = NS_REAL(recvmsg)(fd, message, flags);
        }
    } else {
        result = NS_REAL(recvmsg)(fd, message, flags);
    }
    return after_read(fd, slot, result, flags);
}

NS_EXPORT ssize_t readv(int fd, const struct iovec *vector, int count)
{
    struct ns_sock *slot = ns_engine_reads(fd);
    if (!slot || (ns_owes() && !NS_GET(slot, nonblock)))
        before_other_read(fd);
    ssize_t result = NS_REAL(readv)(fd, vector, count);
    return slot ? after_read(fd, slot, result, 0) : result;
}

NS_EXPORT ssize_t preadv2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
    struct ns_sock *slot = ns_engine_reads(fd);
    if (offset == -1 && (!slot || (ns_owes() && !NS_GET(slot, nonblock))))
        before_other_read(fd);
    ssize_t result = NS_REAL(preadv2)(fd, vector, count, offset, flags);
    return slot ? after_read(fd, slot, result, 0) : result;
}

NS_EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                       struct timespec *timeout)
{
    struct ns_sock *slot = ns_engine_reads(fd);
    if (!(flags & MSG_DONTWAIT) && (!slot || (ns_owes() && !NS_GET(slot, nonblock))))
        before_other_read(fd);
    int result = NS_REAL(recvmmsg)(fd, messages, count, flags, timeout);
    if (slot)
        return (int)after_read(fd, slot, result, flags);
    else
        for (int i = 0; i < result; i++)
            if ((uint32_t)messages[i].msg_hdr.msg_controllen)
                ns_rights_arrive(&messages[i].msg_hdr);
    return result;
}

/* The fortified forms check the buffer and read. Overflowing it is the libc's to report, so the
 * libc's own form is called then; otherwise ours is. */
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
