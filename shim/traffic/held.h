/* SPDX-License-Identifier: MIT */
/* auto-cork: what is held with MSG_MORE, from the write that holds it to the push that sends it.
 * Nothing here makes the application's call, blocks or keeps a byte; errno is unchanged; all is
 * async-signal-safe. */
#ifndef NS_HELD_H
#define NS_HELD_H

#include "traffic/push.h"
#include "traffic/write.h"

/* Is one more write to be held? Counts it. */
bool ns_held_wants(int fd, struct ns_conn *conn, size_t size, int flags);

/* Bytes are about to be held on fd: whoever waits from now on pushes them. */
void ns_held_foresee(int fd, struct ns_conn *conn);

/* After a write that was held, with its result. */
void ns_held_after(const struct ns_write *one, ssize_t result);

/* It cannot be made: it will be made as the application asked. */
void ns_held_refused(struct ns_write *one);

/* A plain write was to take along what was held, and took nothing: it still is. mark: held_until
 * before. */
void ns_held_put_back(struct ns_conn *conn, uint64_t mark);

/* A thread's burst is over, too, where it writes to another socket: what it writes first leaves
 * first, also to different peers, which may be one program. So it holds bytes on one at most. */
static inline void ns_held_turn_to(int fd)
{
    int held = atomic_load_explicit(&ns_thread.holding, memory_order_relaxed);
    if (__builtin_expect(held && held != fd + 1, 0))
        ns_push_turned(held - 1);
}

/* auto-cork: is this thread inside a burst on fd that is being held, and may one more write of it
 * be? Then it may be sent with MSG_MORE and nothing else: without a look at what fd is, since every
 * way to replace a descriptor that libc sees ends the burst. What is left is a program that does it
 * by bare system calls, or by io_uring, between two such writes. It counts it then. */
static inline bool ns_held_goes_on(int fd, struct ns_conn *conn, size_t size)
{
    if (NS_GET(conn, send) != NS_SEND_AUTO_CORK || NS_GET(conn, burst_epoch) != ns_thread.epoch ||
        NS_GET(conn, app_corks) || !ns_owes_only(fd) || size - 1 >= NS_LARGE - 1)
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

/* After a write that ns_held_goes_on has allowed. */
void ns_held_went_on(int fd, ssize_t result);

#endif
