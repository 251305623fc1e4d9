/* SPDX-License-Identifier: MIT */
/* See in.h. Owns ns_conn.ack_state, which a write (out.c) and an ACK (push.c) change, too. */
#include "traffic/in.h"

#include "conn/delack.h"
#include "conn/heal.h"
#include "traffic/push.h"
#include "traffic/settle.h"

#include <errno.h>
#include <sys/socket.h>

enum ns_reading ns_in_begin(int fd, struct ns_conn *conn, int flags)
{
    if (NS_GET(conn, nonblock) || flags & (MSG_DONTWAIT | MSG_ERRQUEUE))
        return NS_READ_PLAIN; /* does not wait: the poll that follows does */
    ns_epoch_ends();
    /* The answer to what was written here cannot be there yet. */
    if (NS_GET(conn, joins) || NS_GET(conn, held_until))
        ns_push(fd, conn);
    /* A first read without waiting would cut these short. */
    if (__builtin_expect(flags & MSG_WAITALL, 0)) {
        ns_settle();
        /* It waits inside the kernel until there is more than a first piece, which nobody but the
         * kernel could acknowledge meanwhile. */
        ns_acknowledge_from_now_on(fd, conn);
        return NS_READ_PLAIN;
    }
    if (__builtin_expect(NS_GET(conn, lowat), 0)) {
        ns_settle();
        return NS_READ_PLAIN;
    }
    return ns_owes() && ns_owed() ? NS_READ_PATIENT : NS_READ_PLAIN;
}

/* This thread owes an ACK here, as state says. */
static void owe(int fd, struct ns_conn *conn, struct ns_ack_state state)
{
    if (!ns_ack_owes(state))
        return;
    /* For the ACKs whose wait nobody sees (stdio, a futex). */
    if (!NS_GET(conn, delack))
        ns_delack_bound(fd, conn);
    ns_owe(fd, conn);
}

static void took(int fd, struct ns_conn *conn)
{
    NS_PUT(conn, heard, 1);
    NS_PUT(conn, burst_epoch, 0); /* this is the answer to the burst, or what it was one to */
    if (NS_GET(conn, joins))
        ns_push(fd, conn);
    if (NS_GET(conn, ack) != NS_ACK_BEFORE_WAIT)
        return;
    struct ns_ack_state state = ns_conn_ack(conn);
    ns_ack_read(&state, (uint8_t)ns_thread.epoch);
    ns_conn_ack_put(conn, state);
    owe(fd, conn, state);
}

void ns_in_nothing(int fd, struct ns_conn *conn)
{
    /* It looked for the answer to what is held here: that burst is over. */
    if ((NS_GET(conn, joins) || NS_GET(conn, held_until)) &&
        NS_GET(conn, listed_by) == ns_thread.token)
        ns_push(fd, conn);
    /* For an ACK, once is how an event loop finds the end of what is there. Twice is a busy poll,
     * and the wait that would settle this never comes. */
    struct ns_ack_state state = ns_conn_ack(conn);
    if (!state.owed)
        return;
    if (state.seen) {
        ns_settle();
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
        if (!(flags & MSG_PEEK)) /* no option acknowledges what lies unread (tcp_cleanup_rbuf) */
            took(fd, conn);
    } else if (result == 0) {
        if (!(flags & MSG_PEEK)) /* the peer has ended its stream: nothing of it is held back */
            NS_PUT(conn, ack_state, 0);
    } else if (error == EAGAIN) {
        ns_in_nothing(fd, conn);
    } else if (error == ENOTSOCK || error == EBADF) {
        ns_conn_heal(fd, conn);
    }
}
