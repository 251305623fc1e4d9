/* SPDX-License-Identifier: MIT */
/* What calls on a socket do to the bytes that are gathered for it in user memory (gather.h): each
 * function stands before or in place of a call of the application. slot is NS_FD_GATHERS where it
 * says nothing else. */
#ifndef NS_GATHER_SOCKET_H
#define NS_GATHER_SOCKET_H

#include "engine.h"
#include "gather.h"

#define NS_UNGATHERED SIZE_MAX

/* A write of the first size bytes of vector; NS_UNGATHERED: of something that cannot be gathered,
 * or must not be. True: *result and errno are its outcome. False: make the call as asked, between
 * *before and ns_engine_wrote; all that was gathered has left. Blocks and fails as the write would,
 * at most. */
bool ns_gather_write(int fd, struct ns_sock *slot, const struct iovec *vector, size_t size,
                     int flags, ssize_t *result, struct ns_plain *before);

/* The same before a write by a duplicate that has only read, of whatever: where what is gathered
 * cannot leave first, or is lost, true. slot is NS_FD_READS. */
bool ns_gather_reader_writes(int fd, struct ns_sock *slot, int flags, ssize_t *result);

/* errno for the application, once, where a flush has failed; otherwise 0. The kernel then answers
 * by itself. Any slot. */
int ns_gather_report(int fd, struct ns_sock *slot);

/* Before a call that looks at the socket or changes it. Any slot. */
static inline void ns_gather_touch(int fd, struct ns_sock *slot)
{
    if (NS_GET(slot, kind) == NS_FD_READS)
        slot = ns_fd_original(&fd, slot);
    if (NS_GET(slot, kind) == NS_FD_GATHERS)
        ns_gather_flush(fd, slot, 0);
}

/* Before a close. Nothing is lost: where the kernel's buffer is full the rest leaves by a
 * descriptor of its own. Blocks only as SO_LINGER says, or for LEAVING_MS (gather_socket.c) where
 * there is no descriptor to be had. */
void ns_gather_closing(int fd, struct ns_sock *slot);

/* Before shutdown(how). Returns what is left of it to be done now; -1: nothing. */
int ns_gather_shutdown(int fd, struct ns_sock *slot, int how);

/* Somebody else may write to the socket from now on: send all, and gather there no more. Of a
 * duplicate that reads: its owner writes by it. Blocks where the kernel's buffer is full, for as
 * long as that moves at all. Any slot. */
void ns_gather_end(int fd, struct ns_sock *slot);

/* The same for every socket of the process. */
void ns_gather_end_all(void);

/* The process may be about to end: wait for the kernel to take what is gathered, for as long as
 * that moves at all. */
void ns_gather_drain_all(void);

/* In a child of fork: what its parent has closed, and has yet to send, is the parent's. The peer
 * must not wait for the child to end. */
void ns_gather_forked(void);

/* The process is about to end or to become another program: the same, and no socket gathers any
 * more. */
void ns_gather_stop_all(void);

#endif
