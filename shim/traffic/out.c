/* SPDX-License-Identifier: MIT */
/* See out.h. Owns the burst of a connection. */
#include "traffic/out.h"

#include "traffic/held.h"
#include "traffic/join.h"
#include "traffic/settle.h"

#include <poll.h>

/* A write on a socket that blocks is a wait for what this thread owes elsewhere, if there is no
 * room for it. With more than BIG bytes nobody can tell, and there the call costs more than
 * settling. */
static void before_other_debts(int fd, const struct ns_conn *conn, size_t size, int flags)
{
    enum { BIG = 64 * 1024 };
    if (!ns_owes() || ns_owes_only(fd))
        return;
    if ((conn && NS_GET(conn, nonblock)) || flags & MSG_DONTWAIT || !ns_owes_elsewhere(conn))
        return;
    if (size >= BIG)
        ns_settle();
    else
        ns_settle_unless_ready(fd, POLLOUT);
}

/* adaptive */
static void count_adaptive(int fd, struct ns_conn *conn)
{
    struct ns_burst burst = ns_conn_burst(conn);
    bool joins = NS_GET(conn, joins);
    if (!joins && NS_GET(conn, burst_epoch) != ns_thread.epoch)
        ns_burst_begin(&burst);
    uint16_t now = ns_burst_is_timed(&burst, joins) ? ns_push_clock() : 0;
    enum ns_burst_step step = ns_burst_write(&burst, joins, now);
    burst.look = ns_thread.looks;
    ns_conn_burst_put(conn, burst);
    NS_PUT(conn, burst_epoch, ns_thread.epoch);
    if (step == NS_BURST_JOIN) {
        /* Only what is ours is taken off. */
        if (NS_GET(conn, kernel_nodelay) && !NS_GET(conn, app_nodelay) && !NS_GET(conn, immediate))
            ns_join(fd, conn);
    } else if (step == NS_BURST_LATE) {
        ns_push_paused(fd, conn);
    } else if (joins) {
        ns_owe(fd, conn); /* another thread may have begun it */
    }
}

/* flush-before-read */
static void count_flushed(int fd, struct ns_conn *conn)
{
    struct ns_burst burst = ns_conn_burst(conn);
    if (burst.writes < UINT16_MAX)
        burst.writes++;
    ns_conn_burst_put(conn, burst);
    /* A single write leaves at once if what came before it is acknowledged, and data from the peer
     * has most likely carried that ACK. On a connection that only ever sends (the two-connection
     * quote client) nothing says so. */
    if ((burst.writes > 1 || !NS_GET(conn, heard)) && !NS_GET(conn, app_nodelay))
        ns_join_owed(fd, conn);
}

/* TCP_NODELAY is not set before it matters: what a connection writes first finds nothing in flight
 * that Nagle could wait for. */
static void set_nodelay_in_time(int fd, struct ns_conn *conn)
{
    if (!NS_GET(conn, kernel_nodelay) && !NS_GET(conn, joins) && NS_GET(conn, wrote))
        ns_enforce_nodelay(fd, conn);
}

static void before_plain(struct ns_write *one)
{
    struct ns_conn *conn = one->conn;
    if (one->flags & MSG_MORE) {
        ns_push(one->fd, conn); /* what we hold leaves first, so that the two are not mixed up */
    } else if (!(NS_GET(conn, app_corks) & NS_CORKS_OPTION)) {
        struct ns_ack_state state = ns_conn_ack(conn);
        one->ack = state;
        ns_ack_wrote(&state);
        ns_conn_ack_put(conn, state);
    }
    /* Taken away, so that another thread that holds bytes during the call marks them anew. */
    if (NS_GET(conn, held_until))
        one->mark = atomic_exchange(&conn->held_until, NS_HELD_PUSHING);
}

void ns_out_begin(struct ns_write *one)
{
    struct ns_conn *conn = one->conn;
    int fd = one->fd;
    if (conn && NS_GET(conn, send) == NS_SEND_AUTO_CORK)
        ns_held_turn_to(fd);
    before_other_debts(fd, conn, one->size, one->flags);
    if (!conn)
        return;
    if (__builtin_expect(!ns_thread.token, 0))
        ns_thread_begin();
    ns_thread.wrote = true;
    if (!NS_GET(conn, app_corks)) {
        enum ns_send send = NS_GET(conn, send);
        if (ns_send_modes[send].nodelay)
            set_nodelay_in_time(fd, conn);
        if (send == NS_SEND_ADAPTIVE && one->size) /* what has no bytes is no piece of anything */
            count_adaptive(fd, conn);
        else if (ns_send_modes[send].holds)
            one->holds = ns_held_wants(fd, conn, one->plain ? 0 : one->size, one->flags);
    }
    if (one->holds)
        ns_held_foresee(fd, conn);
    else
        before_plain(one);
}

/* Nothing left. */
static void failed(const struct ns_write *one)
{
    if (one->ack.owed && !ns_conn_ack(one->conn).owed) {
        ns_conn_ack_put(one->conn, one->ack);
        if (ns_ack_owes(one->ack))
            ns_owe(one->fd, one->conn);
    }
    ns_held_put_back(one->conn, one->mark);
}

void ns_out_end(const struct ns_write *one, ssize_t result)
{
    struct ns_conn *conn = one->conn;
    if (!conn || !ns_fd_names(one->fd, conn))
        return;
    if (__builtin_expect(result <= 0, 0)) {
        failed(one);
        return;
    }
    uint64_t pushing = NS_HELD_PUSHING;
    if (one->mark) /* taken along; bytes that somebody has held since keep their mark */
        atomic_compare_exchange_strong(&conn->held_until, &pushing, 0);
    if (__builtin_expect(one->flags & MSG_MORE, 0)) {
        NS_PUT(conn, app_corks, NS_GET(conn, app_corks) | NS_CORKS_FLAG);
        return;
    }
    if (__builtin_expect(NS_GET(conn, app_corks), 0)) {
        uint8_t corks = NS_GET(conn, app_corks) & NS_CORKS_OPTION;
        NS_PUT(conn, app_corks, corks ? corks | NS_CORKS_BYTES : 0);
        if (corks) /* its bytes are still in its own cork */
            return;
    }
    if (!NS_GET(conn, wrote))
        NS_PUT(conn, wrote, 1);
    if (NS_GET(conn, send) == NS_SEND_FLUSH_BEFORE_READ)
        count_flushed(one->fd, conn);
}
