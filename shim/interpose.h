/* SPDX-License-Identifier: MIT */
/* What the files of exported functions share. No policy here: guard, look up, ask the engine, call,
 * tell the engine. */
#ifndef NS_INTERPOSE_H
#define NS_INTERPOSE_H

#include "engine.h"
#include "flusher.h"
#include "gather_socket.h"
#include "real.h"

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

/* Exported: libc's name and prototype, and nothing else is. */
#define NS_EXPORT __attribute__((visibility("default")))

/* Names that only the compiler calls, under _FORTIFY_SOURCE: no header declares them otherwise. */
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
int __vdprintf_chk(int, int, const char *, va_list);
int __dprintf_chk(int, int, const char *, ...);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);

/* Before a call that will wait, whatever for. */
static inline void ns_before_wait(void)
{
    ns_epoch_ends();
    if (ns_owes())
        ns_settle(NS_OWES_ALL);
}

/* Before a call that wants a process of one thread, or changes what the kernel keeps for each
 * thread alone: end ours. Returns whether there was one; then ns_flusher_resume follows the call.
 */
bool ns_without_thread(void);

/* Before a call on fd that waits only if fd is not ready for events (POLLIN, POLLOUT): settle if
 * so. Out of line; for ns_owes() callers. */
void ns_before_wait_for(int fd, short events);

/* Before dup2 or one of its kin puts fd onto copy: forget copy, if the call is going to work. */
void ns_before_replacing(int fd, int copy);

/* Before a write. Ends the burst that this thread holds on another socket. And a write on a socket
 * that blocks is a wait for the other sockets of this thread: may this one be?
 * Above BIG nobody can tell what the socket's buffer has room for, and there the call costs more
 * than settling does: then that is done here. */
static inline bool ns_may_wait(int fd, const struct ns_sock *slot, size_t size, int flags)
{
    enum { BIG = 64 * 1024 };
    if (!ns_owes() || ns_owes_only(fd))
        return false;
    ns_engine_turns_to(fd);
    if (NS_GET(slot, nonblock) || flags & MSG_DONTWAIT || !ns_owes_elsewhere(fd))
        return false;
    if (size < BIG)
        return true;
    ns_settle(NS_OWES_ALL);
    return false;
}

/* The same for calls that cannot be made in two steps: asks first whether there is room. */
static inline void ns_before_write(int fd, const struct ns_sock *slot, size_t size, int flags)
{
    if (ns_may_wait(fd, slot, size, flags))
        ns_before_wait_for(fd, POLLOUT);
}

/* Before any write, with its flags: true if fd is a duplicate of a socket whose gathered bytes
 * cannot leave before it, and *result is its outcome. */
static inline bool ns_reader_refused(int fd, int flags, ssize_t *result)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    return __builtin_expect(slot && NS_GET(slot, kind) == NS_FD_READS, 0) &&
           ns_gather_reader_writes(fd, slot, flags, result);
}

/* Before a write that is never held, with its flags. False: *result is its outcome. */
static inline bool ns_before_plain(int fd, struct ns_sock *slot, size_t size, int flags,
                                   struct ns_plain *before, ssize_t *result)
{
    ns_before_write(fd, slot, size, flags);
    if (NS_GET(slot, kind) == NS_FD_GATHERS)
        return !ns_gather_write(fd, slot, NULL, NS_UNGATHERED, flags, result, before);
    ns_engine_count(fd, slot);
    *before = ns_engine_before_plain(fd, slot, flags);
    return true;
}

/* How a read should be made. */
enum ns_reading {
    NS_READ_PLAIN,   /* as asked */
    NS_READ_PATIENT, /* first without waiting; if there is nothing, ns_settle and as asked */
};

/* Before a read on the governed socket slot: settles what must be settled first. flags: of recv. */
enum ns_reading ns_before_read(int fd, struct ns_sock *slot, int flags);

/* The patient read found nothing. Returns whether the read is to be made again, as asked; then
 * errno is what it was before, saved. */
static inline bool ns_found_nothing(ssize_t result, int saved)
{
    if (result >= 0 || (errno != EAGAIN && errno != ENOTSOCK))
        return false;
    if (!NS_MUTANT(errno_kept))
        errno = saved;
    ns_settle(NS_OWES_ALL);
    return true;
}

/* After message was sent or received: descriptors that left (SCM_RIGHTS) are pushed and never held
 * on again; those that came in are looked at anew. */
void ns_rights_leave(const struct msghdr *message);
void ns_rights_arrive(const struct msghdr *message);

#endif
