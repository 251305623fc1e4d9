/* SPDX-License-Identifier: MIT */
/* auto-cork: bytes held with MSG_MORE, from the write that holds them to the push that sends them.
 * Nothing here makes the application's call, blocks or keeps a byte; errno is unchanged; all is
 * async-signal-safe. */
#ifndef NS_HELD_H
#define NS_HELD_H

#include "traffic/push.h"

#include <sys/socket.h>

/* One write of the application. The caller sets the first five members. */
struct ns_write {
    int fd;
    int flags;            /* of send; 0 for calls without flags */
    size_t size;          /* bytes to write, or NS_UNKNOWN_SIZE */
    struct ns_conn *conn; /* NULL: no rule governs fd */
    /* Never hold it: several messages, or data already in the kernel (a file, a pipe). */
    bool plain;
    bool holds;              /* auto-cork: send it with MSG_MORE, then call ns_held_after */
    struct ns_ack_state ack; /* before the call, which may carry an ACK */
    uint64_t mark; /* auto-cork: held_until before the call, which may send those bytes, too */
};

enum {
    /* A write of this size or more is not small: joining it with others saves nothing. */
    NS_LARGE = 16 * 1024,
    /* The size of a vector, which only the kernel can measure: the pointer may be bad. */
    NS_UNKNOWN_SIZE = 1,
    /* Writes with these flags are not held: the application itself corks, or the bytes must not be
     * merged with others. */
    NS_NEVER_HELD = MSG_MORE | MSG_OOB | MSG_EOR | MSG_FASTOPEN | MSG_ZEROCOPY,
};

/* Counts one more write of size bytes with send's flags. Returns whether to hold it. */
bool ns_held_wants(int fd, struct ns_conn *conn, size_t size, int flags);

/* Before a write that will be held: lists fd, so that the next wait pushes. */
void ns_held_expect(int fd, struct ns_conn *conn);

/* After a write that was held. result is what the call returned. */
void ns_held_after(const struct ns_write *one, ssize_t result);

/* The held form of the write failed because fd is not a connected TCP socket. Sets holds to false;
 * the caller makes the write as the application asked. */
void ns_held_refused(struct ns_write *one);

/* A plain write should have sent the held bytes along, but failed: they are still held. mark:
 * held_until before the write. */
void ns_held_put_back(struct ns_conn *conn, uint64_t mark);

/* A write to fd ends this thread's burst on any other connection, so a thread holds bytes on one
 * connection at most. Bytes to different peers, which may be one program, therefore leave in the
 * order in which they were written. */
static inline void ns_held_turn_to(int fd)
{
    int held = atomic_load_explicit(&ns_thread.holding, memory_order_relaxed);
    if (__builtin_expect(held && held != fd + 1, 0))
        ns_push_turned(held - 1);
}

/* Is this thread inside a held burst on fd, and may one more write of size bytes be held? Then it
 * is counted here, and the caller sends it with MSG_MORE and calls ns_held_went_on. fd is not
 * checked again: every libc call that replaces a descriptor ends the burst. A replacement by a raw
 * system call or io_uring is not noticed. A shortcut of ns_held_wants; ns_out_passes has its
 * savings. */
static inline bool ns_held_goes_on(int fd, struct ns_conn *conn, size_t size)
{
    if (NS_GET(conn, send) != NS_SEND_AUTO_CORK || NS_GET(conn, burst_epoch) != ns_thread.epoch ||
        NS_GET(conn, app_corks) || !ns_pending_only(fd) || size - 1 >= NS_LARGE - 1)
        return false;
    uint64_t until = NS_GET(conn, held_until);
    struct ns_cork cork = ns_conn_cork(conn);
    if (until <= NS_HELD_PUSHING || cork.writes + 1 == cork.expected || ns_push_is_late(until))
        return false;
    if (cork.writes < NS_CORK_MANY)
        cork.writes++;
    ns_thread.wrote = true;
    ns_conn_cork_put(conn, cork);
    return true;
}

/* After a write that ns_held_goes_on has allowed, which returned result. */
void ns_held_went_on(int fd, ssize_t result);

#endif
