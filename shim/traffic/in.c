/* SPDX-License-Identifier: MIT */
/* See in.h. Owns ns_conn.ack_state, which writes (out.c) and ACKs (push.c) change, too. */
#include "traffic/in.h"

#include "conn/delack.h"
#include "traffic/push.h"
#include "traffic/flush.h"

#include <errno.h>
#include <sys/socket.h>

enum ns_reading ns_in_begin(int fd, struct ns_conn *conn, int flags)
{
    if (NS_GET(conn, nonblock) || flags & (MSG_DONTWAIT | MSG_ERRQUEUE))
        return NS_READ_PLAIN; /* does not wait; a poll that follows does */
    ns_epoch_ends();
    /* The answer to held bytes cannot have arrived. */
    if (NS_GET(conn, joins) || NS_GET(conn, held_until))
        ns_push(fd, conn);
    /* A probe would make the reads short that follow. */
    if (__builtin_expect(flags & MSG_WAITALL, 0)) {
        ns_flush_pending();
        /* After a first part it waits for more inside the kernel, where only the kernel can
         * acknowledge that part. */
        ns_acknowledge_from_now_on(fd, conn);
        return NS_READ_PLAIN;
    }
    if (__builtin_expect(NS_GET(conn, lowat), 0)) {
        ns_flush_pending();
        return NS_READ_PLAIN;
    }
    return ns_pending_any() && ns_pending_kinds() ? NS_READ_PROBE_FIRST : NS_READ_PLAIN;
}

/* Lists fd if state says that an ACK is pending. */
static void list_ack(int fd, struct ns_conn *conn, struct ns_ack_state state)
{
    if (!ns_ack_is_pending(state))
        return;
    /* For ACKs before waits that the library cannot see (stdio, a futex). */
    if (!NS_GET(conn, delack))
        ns_delack_bound(fd, conn);
    ns_pending_add(fd, conn);
}

/* The application has read data. */
static void took(int fd, struct ns_conn *conn)
{
    NS_PUT(conn, heard, 1);
    NS_PUT(conn, burst_epoch, 0); /* what is written next is a new burst */
    if (NS_GET(conn, joins))
        ns_push(fd, conn);
    if (NS_GET(conn, ack) != NS_ACK_BEFORE_WAIT)
        return;
    struct ns_ack_state state = ns_conn_ack(conn);
    ns_ack_read(&state, (uint8_t)ns_thread.epoch);
    ns_conn_ack_put(conn, state);
    list_ack(fd, conn, state);
}

void ns_in_nothing(int fd, struct ns_conn *conn)
{
    /* The application looked for the answer to what is held here: the burst is over. */
    if ((NS_GET(conn, joins) || NS_GET(conn, held_until)) &&
        NS_GET(conn, listed_by) == ns_thread.token)
        ns_push(fd, conn);
    /* An event loop reads once more to find the end of the data. Two such reads are a busy poll,
     * and no wait will come that sends the ACK. */
    struct ns_ack_state state = ns_conn_ack(conn);
    if (!state.pending)
        return;
    if (state.seen) {
        ns_flush_pending();
        return;
    }
    state.seen = 1;
    ns_conn_ack_put(conn, state);
}

void ns_in_end(int fd, struct ns_conn *conn, ssize_t result, int error, int flags)
{
    if (__builtin_expect(flags & MSG_ERRQUEUE, 0) || !ns_fd_names(fd, conn))
        return;
    if (result > 0) {
        if (!(flags & MSG_PEEK)) /* no option acknowledges unread data (tcp_cleanup_rbuf) */
            took(fd, conn);
    } else if (result == 0) {
        if (!(flags & MSG_PEEK)) /* the peer has ended its stream, and waits for no ACK */
            NS_PUT(conn, ack_state, 0);
    } else if (error == EAGAIN) {
        ns_in_nothing(fd, conn);
    } else if (error == ENOTSOCK || error == EBADF) {
        ns_fd_refresh(fd, conn);
    }
}
