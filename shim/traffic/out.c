/* SPDX-License-Identifier: MIT */
/* See out.h. Owns the burst of a connection. */
#include "traffic/out.h"

#include "conn/kernel.h"
#include "report/stats.h"
#include "traffic/flush.h"
#include "traffic/held.h"

#include <netinet/tcp.h>
#include <poll.h>

/* A write to a blocking socket waits if the send buffer is full. Then the pending work of other
 * connections is flushed. For more than BIG bytes it is not known whether there is room, and the
 * call itself costs more than the flush. */
static void flush_others(int fd, const struct ns_conn *conn, size_t size, int flags)
{
    enum { BIG = 64 * 1024 };
    if (!ns_pending_any() || ns_pending_only(fd))
        return;
    if ((conn && NS_GET(conn, nonblock)) || flags & MSG_DONTWAIT || !ns_pending_elsewhere(conn))
        return;
    if (size >= BIG)
        ns_flush_pending();
    else
        ns_flush_unless_ready(fd, POLLOUT);
}

void ns_join_mark(int fd, struct ns_conn *conn)
{
    NS_PUT(conn, joins, 1);
    atomic_store_explicit(&ns_push_any, true, memory_order_relaxed);
    ns_thread.may_push = true;
    ns_pending_add(fd, conn);
}

/* Clear TCP_NODELAY, so that Nagle's algorithm joins the bytes of a burst into segments until the
 * thread's next wait pushes the rest. */
static void join(int fd, struct ns_conn *conn)
{
    /* Mark first: a signal handler may jump away as soon as the kernel has the option. */
    NS_PUT(conn, kernel_nodelay, 0);
    ns_join_mark(fd, conn);
    int error = ns_kernel_set(fd, IPPROTO_TCP, TCP_NODELAY, 0);
    if (!error) {
        NS_COUNT(joined);
        /* A signal handler, or a thread that reads from the connection, may have pushed meanwhile,
         * perhaps before that call. Then no push is pending any more. */
        NS_PUT(conn, kernel_nodelay, 0);
        ns_enforce_nodelay(fd, conn);
        return;
    }
    NS_PUT(conn, joins, 0);
    NS_PUT(conn, kernel_nodelay, 1);
    ns_nodelay_failed(fd, conn, error);
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
    burst.probe = ns_thread.probes;
    ns_conn_burst_put(conn, burst);
    NS_PUT(conn, burst_epoch, ns_thread.epoch);
    if (step == NS_BURST_JOIN) {
        /* Only if the library has set it. */
        if (NS_GET(conn, kernel_nodelay) && !NS_GET(conn, app_nodelay) && !NS_GET(conn, immediate))
            join(fd, conn);
    } else if (step == NS_BURST_LATE) {
        ns_push_paused(fd, conn);
    } else if (joins) {
        ns_pending_add(fd, conn); /* another thread may have begun it */
    }
}

/* flush-before-read */
static void count_flushed(int fd, struct ns_conn *conn)
{
    struct ns_burst burst = ns_conn_burst(conn);
    if (burst.writes < UINT16_MAX)
        burst.writes++;
    ns_conn_burst_put(conn, burst);
    /* A single write leaves at once if earlier data is acknowledged. Data from the peer most likely
     * carried that ACK. On a connection that only sends, nothing shows it. */
    if ((burst.writes > 1 || !NS_GET(conn, heard)) && !NS_GET(conn, app_nodelay))
        ns_join_mark(fd, conn);
}

/* TCP_NODELAY is set when it first matters: Nagle's algorithm does not delay the first write, since
 * nothing is in flight. */
static void set_nodelay_in_time(int fd, struct ns_conn *conn)
{
    if (!NS_GET(conn, kernel_nodelay) && !NS_GET(conn, joins) && NS_GET(conn, wrote))
        ns_enforce_nodelay(fd, conn);
}

static void before_plain(struct ns_write *one)
{
    struct ns_conn *conn = one->conn;
    if (one->flags & MSG_MORE) {
        ns_push(one->fd, conn); /* held bytes leave before the application's own corking begins */
    } else if (!(NS_GET(conn, app_corks) & NS_CORKS_OPTION)) {
        one->ack = ns_conn_ack(conn);
        ns_push_carries_ack(conn);
    }
    /* Exchanged, so that a thread that holds bytes during the call marks them again. */
    if (NS_GET(conn, held_until))
        one->mark = atomic_exchange(&conn->held_until, NS_HELD_PUSHING);
}

void ns_out_begin(struct ns_write *one)
{
    struct ns_conn *conn = one->conn;
    int fd = one->fd;
    if (conn && NS_GET(conn, send) == NS_SEND_AUTO_CORK)
        ns_held_turn_to(fd);
    flush_others(fd, conn, one->size, one->flags);
    if (!conn)
        return;
    if (__builtin_expect(!ns_thread.token, 0))
        ns_thread_begin();
    ns_thread.wrote = true;
    if (!NS_GET(conn, app_corks)) {
        enum ns_send send = NS_GET(conn, send);
        if (ns_send_modes[send].nodelay)
            set_nodelay_in_time(fd, conn);
        if (send == NS_SEND_ADAPTIVE && one->size) /* a write of 0 bytes is not part of a burst */
            count_adaptive(fd, conn);
        else if (ns_send_modes[send].holds)
            one->holds = ns_held_wants(fd, conn, one->plain ? 0 : one->size, one->flags);
    }
    if (one->holds)
        ns_held_expect(fd, conn);
    else
        before_plain(one);
}

/* Nothing was sent. */
static void failed(const struct ns_write *one)
{
    if (one->ack.pending && !ns_conn_ack(one->conn).pending) {
        ns_conn_ack_put(one->conn, one->ack);
        if (ns_ack_is_pending(one->ack))
            ns_pending_add(one->fd, one->conn);
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
    if (one->mark) /* sent along; bytes that were held since keep their mark */
        atomic_compare_exchange_strong(&conn->held_until, &pushing, 0);
    if (__builtin_expect(one->flags & MSG_MORE, 0)) {
        NS_PUT(conn, app_corks, NS_GET(conn, app_corks) | NS_CORKS_FLAG);
        return;
    }
    if (__builtin_expect(NS_GET(conn, app_corks), 0)) {
        uint8_t corks = NS_GET(conn, app_corks) & NS_CORKS_OPTION;
        NS_PUT(conn, app_corks, corks ? corks | NS_CORKS_BYTES : 0);
        if (corks) /* the application's own cork still holds them */
            return;
    }
    if (!NS_GET(conn, wrote))
        NS_PUT(conn, wrote, 1);
    if (NS_GET(conn, send) == NS_SEND_FLUSH_BEFORE_READ)
        count_flushed(one->fd, conn);
}
