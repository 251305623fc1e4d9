/* SPDX-License-Identifier: MIT */
/* "buffer": "user": the bytes of a burst in our own memory until one call sends them. The buffer of
 * one socket, found by its descriptor; nothing here decides what is gathered (tempo.h) or when it
 * leaves (settle.h, flusher.h). A slot whose kind is NS_FD_GATHERS may have bytes here, and no
 * other. Nothing here blocks but where it says so; errno is unchanged; all is async-signal-safe. */
#ifndef NS_GATHER_H
#define NS_GATHER_H

#include "fdtable.h"

#include <errno.h>
#include <sys/uio.h>

/* What a flush left behind. */
enum ns_gather_left {
    NS_GATHER_NOTHING,
    NS_GATHER_REST,   /* the kernel's buffer is full: the deadline thread goes on trying */
    NS_GATHER_FAILED, /* the bytes are lost; ns_gather_error says why, once */
};

/* How to flush: bits. */
enum {
    NS_GATHER_MORE = 1, /* other bytes follow at once: MSG_MORE */
    NS_GATHER_END = 2,  /* gather here no more, for good: the slot becomes NS_FD_RULED as soon as it
                           is empty and no error is to be told */
    NS_GATHER_DROP = 4, /* the descriptor is about to be closed: what is still here goes with it,
                           and the slot becomes NS_FD_OTHER */
};

/* An address that no program has: NULL, or a member of it, which is the kernel's to refuse. Any
 * other bad address of bytes that are to be gathered we meet before the kernel does. */
static inline bool ns_lies_nowhere(const void *address)
{
    return (uintptr_t)address < 4096;
}

/* Start-up: the most bytes that a rule of this process gathers on one socket. */
void ns_gather_open(uint32_t most_bytes);

/* Has this process a rule that gathers? */
bool ns_gather_wanted(void);

/* The process is about to have a signal handler, or something like it: from now on each flush has
 * all signals blocked, and those that are under way without it have ended when this returns. May
 * wait for them, a moment each. */
void ns_gather_interruptible(void);

/* The connection of a governed slot gathers from now on. Leaves it as it is where there is no
 * memory, or none that a child would find empty. */
void ns_gather_begin(int fd, struct ns_sock *slot);

/* No append works any more, in any thread: what is flushed after this is the last. For good. */
void ns_gather_stop(void);

/* Append the first size bytes of vector, whole. False: they do not fit, or it gathers no more. The
 * thread has a token. */
bool ns_gather_append(int fd, struct ns_sock *slot, const struct iovec *vector, size_t size);

/* The same for one more write of this thread's burst under way, which is marked and owed; short for
 * speed. False also where something has come in between. */
bool ns_gather_more(int fd, struct ns_sock *slot, const void *data, size_t size);

/* Bytes that are gathered, and that could be. */
uint32_t ns_gather_size(int fd);
uint32_t ns_gather_room(int fd, const struct ns_sock *slot);

/* Send what is gathered as far as the kernel takes it now. Clears the slot's mark if that is all,
 * but sets it anew for a rest. */
enum ns_gather_left ns_gather_flush(int fd, struct ns_sock *slot, unsigned how);

/* errno of the flush that failed, once; otherwise 0. */
int ns_gather_error(int fd);

/* The application is told that the connection is broken. What is gathered is lost with it, of which
 * nobody need be told again, and its next write is the kernel's to refuse. */
void ns_gather_broken(int fd, struct ns_sock *slot);

/* Does this errno of a call on a socket that gathers say so? */
static inline bool ns_gather_breaks(int error)
{
    return error == ECONNRESET || error == EPIPE || error == ETIMEDOUT || error == EHOSTUNREACH ||
           error == ENETUNREACH || error == ECONNREFUSED;
}

/* What is to be done once all has left. */
enum ns_gather_after { NS_GATHER_STAY, NS_GATHER_CLOSE, NS_GATHER_SHUT };
enum ns_gather_after ns_gather_after(int fd);
void ns_gather_then(int fd, enum ns_gather_after after);

/* Move what is gathered on fd to another descriptor of the same socket, which gathers too. */
void ns_gather_move(int fd, int to, struct ns_sock *slot);

#endif
