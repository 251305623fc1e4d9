/* SPDX-License-Identifier: MIT */
/* See out.h. Owns the burst of a connection, and under auto-cork the mark of what is held. */
#include "traffic/out.h"

#include "base/stats.h"
#include "conn/heal.h"
#include "hold/deadline.h"
#include "traffic/join.h"

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

/* --- adaptive --- */

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

/* --- flush-before-read --- */

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

/* --- auto-cork --- */

static bool is_to_be_held(int fd, struct ns_conn *conn, size_t size, int flags)
{
    struct ns_cork cork = ns_conn_cork(conn);
    if (NS_GET(conn, burst_epoch) != ns_thread.epoch && !NS_GET(conn, held_until))
        ns_cork_begin(&cork);
    bool small = size && size < NS_LARGE && !(flags & NS_NEVER_HELD) && ns_deadline_ready();
    if (small && !NS_GET(conn, kernel_nodelay))
        ns_enforce_nodelay(fd, conn); /* what cannot be pushed must not be held */
    bool holds = ns_cork_write(&cork, small && !NS_GET(conn, immediate));
    ns_conn_cork_put(conn, cork);
    NS_PUT(conn, burst_epoch, ns_thread.epoch);
    return holds;
}

static inline bool holding(int fd)
{
    return atomic_load_explicit(&ns_thread.holding, memory_order_relaxed) == fd + 1;
}

/* A thread's burst is over, too, where it writes to another socket: what it writes first leaves
 * first, also to different peers, which may be one program. So it holds bytes on one at most. */
static inline void turn_to(int fd)
{
    int held = atomic_load_explicit(&ns_thread.holding, memory_order_relaxed);
    if (__builtin_expect(held && held != fd + 1, 0))
        ns_push_turned(held - 1);
}

/* Bytes are about to be held: a signal handler may jump away as soon as the kernel has them, so
 * what is owed is noted first, without a time. */
static void foresee_held(int fd, struct ns_conn *conn)
{
    uint64_t none = 0;
    atomic_compare_exchange_strong(&conn->held_until, &none, NS_HELD_OVERDUE);
    ns_thread.may_push = true;
    ns_owe(fd, conn);
    ns_deadline_watch(fd);
}

/* They were not: nothing is held but what was before. */
static void forget_foreseen(struct ns_conn *conn)
{
    uint64_t overdue = NS_HELD_OVERDUE;
    atomic_compare_exchange_strong(&conn->held_until, &overdue, 0);
}

/* Bytes are held from now on, if they were not before. The deadline is stored after the call that
 * held them: see held_until. */
static void mark_held(int fd, struct ns_conn *conn)
{
    const struct ns_rule *rule = NS_GET(conn, rule);
    if (!rule || NS_GET(conn, held_until) > NS_HELD_OVERDUE)
        return;
    NS_COUNT(bursts);
    atomic_store(&conn->held_until, ns_deadline_now() + (uint64_t)rule->max_delay_us * 1000);
    if (!ns_deadline_watch(fd))
        ns_push(fd, conn);
}

void ns_out_held(const struct ns_write *one, ssize_t result)
{
    struct ns_conn *conn = one->conn;
    int fd = one->fd;
    if (__builtin_expect(!ns_fd_names(fd, conn),
                         0)) { /* closed meanwhile: whose is the push now? */
        int other = ns_fd_other(conn, fd);
        if (other >= 0)
            ns_push(other, conn);
        return;
    }
    if (result <= 0) {
        forget_foreseen(conn);
        return;
    }
    struct ns_ack_state state = ns_conn_ack(conn);
    ns_ack_wrote(&state); /* the push carries it */
    ns_conn_ack_put(conn, state);
    NS_PUT(conn, wrote, 1);
    mark_held(fd, conn);
    while (!holding(fd)) {
        turn_to(fd); /* what a signal handler has held since */
        int none = 0;
        atomic_compare_exchange_strong(&ns_thread.holding, &none, fd + 1);
    }
    ns_thread.may_push = true;
    ns_owe(fd, conn);
    if (result >= NS_LARGE)
        ns_push(fd, conn);
}

void ns_out_went_on(int fd, ssize_t result)
{
    struct ns_write one = {.fd = fd, .conn = ns_fd_conn(fd)};
    /* The deadline thread has pushed meanwhile, and perhaps before these bytes, or a signal handler
     * has turned to another socket: mark them anew. */
    if (one.conn && (atomic_load(&one.conn->held_until) <= NS_HELD_OVERDUE || !holding(fd)))
        ns_out_held(&one, result);
}

void ns_out_refused(struct ns_write *one)
{
    forget_foreseen(one->conn);
    ns_conn_heal(one->fd, one->conn);
    one->holds = false;
    if (!ns_fd_names(one->fd, one->conn))
        one->conn = NULL;
}

/* The write took nothing: what was held before it still is. */
static void put_back(int fd, struct ns_conn *conn, uint64_t mark)
{
    uint64_t now = NS_HELD_OVERDUE, none = 0;
    bool back = mark > NS_HELD_OVERDUE &&
                (atomic_compare_exchange_strong(&conn->held_until, &now, mark) ||
                 /* another's push, begun before bytes that came after it, has ended */
                 atomic_compare_exchange_strong(&conn->held_until, &none, mark));
    if (back && !ns_deadline_watch(fd))
        ns_push(fd, conn);
}

/* --- every rule --- */

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
        one->ack_state = NS_GET(conn, ack_state);
        ns_ack_wrote(&state);
        ns_conn_ack_put(conn, state);
    }
    /* Taken away, so that another thread that holds bytes during the call marks them anew. */
    if (NS_GET(conn, held_until))
        one->mark = atomic_exchange(&conn->held_until, NS_HELD_OVERDUE);
}

void ns_out_begin(struct ns_write *one)
{
    struct ns_conn *conn = one->conn;
    int fd = one->fd;
    if (conn && NS_GET(conn, send) == NS_SEND_AUTO_CORK)
        turn_to(fd);
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
            one->holds = is_to_be_held(fd, conn, one->plain ? 0 : one->size, one->flags);
    }
    if (one->holds)
        foresee_held(fd, conn);
    else
        before_plain(one);
}

/* Nothing left. */
static void failed(const struct ns_write *one)
{
    struct ns_ack_state before, now = ns_conn_ack(one->conn);
    union {
        uint32_t word;
        struct ns_ack_state state;
    } both = {.word = one->ack_state};
    before = both.state;
    if (before.owed && !now.owed) {
        NS_PUT(one->conn, ack_state, one->ack_state);
        if (ns_ack_owes(before))
            ns_owe(one->fd, one->conn);
    }
    put_back(one->fd, one->conn, one->mark);
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
    uint64_t overdue = NS_HELD_OVERDUE;
    if (one->mark) /* taken along; bytes that somebody has held since keep their mark */
        atomic_compare_exchange_strong(&conn->held_until, &overdue, 0);
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
