/* SPDX-License-Identifier: MIT */
/* What a write does to a connection that a rule governs: ns_out_begin before the call, ns_out_end
 * or ns_out_held after it. Nothing here makes the application's call, blocks but where it says so,
 * or keeps a byte; errno is unchanged; all is async-signal-safe. */
#ifndef NS_OUT_H
#define NS_OUT_H

#include "traffic/push.h"
#include "traffic/settle.h"

#include <sys/socket.h>

/* One write of the application: the first five members are the caller's to fill in. */
struct ns_write {
    int fd;
    int flags;            /* of send; 0 for the calls that have none */
    size_t size;          /* as asked, or NS_UNKNOWN_SIZE */
    struct ns_conn *conn; /* NULL: no rule governs fd */
    /* Not to be held whatever the rule says: of what the kernel has (a file, a pipe), or of several
     * messages. */
    bool plain;
    bool holds;         /* auto-cork: it is to be sent with MSG_MORE, and told by ns_out_held */
    uint32_t ack_state; /* before the call, which may carry an ACK */
    uint64_t mark; /* auto-cork: held_until before the call, which may take those bytes along */
};

enum {
    /* A write of this size and more is not small: merging it with others saves nothing. */
    NS_LARGE = 16 * 1024,
    /* The size of what only the kernel can measure: a vector at a pointer that may be bad. */
    NS_UNKNOWN_SIZE = 1,
    /* Flags that say that a write is not to be held: the application corks by itself, or the bytes
     * are not for merging. */
    NS_NEVER_HELD = MSG_MORE | MSG_OOB | MSG_EOR | MSG_FASTOPEN | MSG_ZEROCOPY,
};

/* Before a write. What the thread owes elsewhere is settled if the write may block. Once per write;
 * then the call, and ns_out_end, or if holds is set ns_out_held. */
void ns_out_begin(struct ns_write *one);

/* Does a write change nothing but counts, so that it may be made at once, and nothing be told after
 * it? It counts it then. For a burst that goes on, and for nodelay: what begins a burst is not as
 * simple as that. */
__attribute__((always_inline)) static inline bool ns_out_passes(int fd, struct ns_conn *conn)
{
    struct ns_ack_state ack = ns_conn_ack(conn);
    if (NS_GET(conn, app_corks) || ack.heard || ack.owed || ack.sent)
        return false;
    if (NS_GET(conn, send) == NS_SEND_NODELAY) {
        ns_thread.wrote = true;
        return NS_GET(conn, kernel_nodelay) && NS_GET(conn, wrote) && !ns_owes();
    }
    if (NS_GET(conn, send) != NS_SEND_ADAPTIVE || NS_GET(conn, burst_epoch) != ns_thread.epoch)
        return false;
    struct ns_burst burst = ns_conn_burst(conn);
    if (NS_GET(conn, joins)) {
        uint16_t now = ns_push_clock();
        if (!ns_owes_only(fd) || ns_burst_paused(&burst, now, NS_BURST_PAUSE))
            return false;
        burst.at = now;
    } else if (ns_owes() || ns_burst_is_timed(&burst, false) || !NS_GET(conn, kernel_nodelay)) {
        return false;
    }
    if (burst.writes < UINT16_MAX)
        burst.writes++;
    burst.look = ns_thread.looks;
    ns_thread.wrote = true;
    ns_conn_burst_put(conn, burst);
    return true;
}

/* auto-cork: is this thread inside a burst on fd that is being held, and may one more write of it
 * be? Then it may be sent with MSG_MORE and nothing else: without a look at what fd is, since every
 * way to replace a descriptor that libc sees ends the burst. What is left is a program that does it
 * by bare system calls, or by io_uring, between two such writes. It counts it then. */
static inline bool ns_out_goes_on(int fd, struct ns_conn *conn, size_t size)
{
    if (NS_GET(conn, send) != NS_SEND_AUTO_CORK || NS_GET(conn, burst_epoch) != ns_thread.epoch ||
        NS_GET(conn, app_corks) || NS_GET(conn, held_until) <= NS_HELD_OVERDUE ||
        !ns_owes_only(fd) || size - 1 >= NS_LARGE - 1)
        return false;
    struct ns_cork cork = ns_conn_cork(conn);
    if (cork.writes == NS_CORK_MANY || cork.writes + 1 == cork.expected)
        return false;
    cork.writes++;
    ns_thread.wrote = true;
    ns_conn_cork_put(conn, cork);
    return true;
}

/* After a write that ns_out_goes_on has allowed. */
void ns_out_went_on(int fd, ssize_t result);

/* The held write that begin asked for cannot be made: it will be made as the application asked. */
void ns_out_refused(struct ns_write *one);

/* After the call, with its result. */
void ns_out_end(const struct ns_write *one, ssize_t result);

/* After a write that was held. */
void ns_out_held(const struct ns_write *one, ssize_t result);

#endif
