/* SPDX-License-Identifier: MIT */
/* See held.h. Owns ns_conn.held_until, which pushes clear, and ns_thread.holding. */
#include "traffic/held.h"

#include "base/clock.h"
#include "report/stats.h"
#include "conn/process.h"
#include "traffic/flush.h"

static inline bool holding(int fd)
{
    return atomic_load_explicit(&ns_thread.holding, memory_order_relaxed) == fd + 1;
}

bool ns_held_wants(int fd, struct ns_conn *conn, size_t size, int flags)
{
    uint64_t until = NS_GET(conn, held_until);
    if (until > NS_HELD_PUSHING && ns_push_is_late(until))
        ns_push(fd, conn);
    struct ns_cork cork = ns_conn_cork(conn);
    if (NS_GET(conn, burst_epoch) != ns_thread.epoch && !NS_GET(conn, held_until))
        ns_cork_begin(&cork);
    bool small = size && size < NS_LARGE && !(flags & NS_NEVER_HELD);
    if (small && ns_has_other_fds()) /* nothing would push bytes that a child of vfork holds */
        small = false;
    if (small && !NS_GET(conn, kernel_nodelay))
        ns_enforce_nodelay(fd, conn); /* what cannot be pushed must not be held */
    bool holds = ns_cork_write(&cork, small && !NS_GET(conn, immediate));
    ns_conn_cork_put(conn, cork);
    NS_PUT(conn, burst_epoch, ns_thread.epoch);
    return holds;
}

/* Marked before the call and without a time: a signal handler may jump away as soon as the kernel
 * has the bytes. */
void ns_held_expect(int fd, struct ns_conn *conn)
{
    uint64_t none = 0;
    atomic_compare_exchange_strong(&conn->held_until, &none, NS_HELD_PUSHING);
    atomic_store(&ns_push_any, true);
    ns_thread.may_push = true;
    ns_pending_add(fd, conn);
}

/* The write was not made: only the bytes that were held before are still held. */
static void forget_expected(struct ns_conn *conn)
{
    uint64_t pushing = NS_HELD_PUSHING;
    atomic_compare_exchange_strong(&conn->held_until, &pushing, 0);
}

/* Bytes are held from now on. The time is stored after the call that held them: see held_until. */
static void mark_held(struct ns_conn *conn)
{
    const struct ns_rule *rule = NS_GET(conn, rule);
    if (!rule || NS_GET(conn, held_until) > NS_HELD_PUSHING)
        return;
    NS_COUNT(bursts);
    uint64_t now = ns_clock_now(CLOCK_MONOTONIC);
    atomic_store(&conn->held_until, now + (uint64_t)rule->max_delay_us * 1000);
    atomic_store(&ns_push_any, true);
}

void ns_held_after(const struct ns_write *one, ssize_t result)
{
    struct ns_conn *conn = one->conn;
    int fd = one->fd;
    if (__builtin_expect(!ns_fd_names(fd, conn), 0)) { /* closed meanwhile: push elsewhere */
        int other = ns_fd_other(conn, fd);
        if (other >= 0)
            ns_push(other, conn);
        return;
    }
    if (result <= 0) {
        forget_expected(conn);
        return;
    }
    ns_push_carries_ack(conn);
    NS_PUT(conn, wrote, 1);
    mark_held(conn);
    while (!holding(fd)) {
        ns_held_turn_to(fd); /* push bytes that a signal handler has held since */
        int none = 0;
        atomic_compare_exchange_strong(&ns_thread.holding, &none, fd + 1);
    }
    ns_thread.may_push = true;
    ns_pending_add(fd, conn);
    if (result >= NS_LARGE)
        ns_push(fd, conn);
}

void ns_held_went_on(int fd, ssize_t result)
{
    struct ns_write one = {.fd = fd, .conn = ns_fd_conn(fd)};
    /* Another thread has pushed meanwhile, perhaps before these bytes, or a signal handler has
     * written to another socket: mark them again. */
    if (one.conn && (atomic_load(&one.conn->held_until) <= NS_HELD_PUSHING || !holding(fd)))
        ns_held_after(&one, result);
}

void ns_held_refused(struct ns_write *one)
{
    forget_expected(one->conn);
    ns_fd_refresh(one->fd, one->conn);
    one->holds = false;
    if (!ns_fd_names(one->fd, one->conn))
        one->conn = NULL;
}

void ns_held_put_back(struct ns_conn *conn, uint64_t mark)
{
    uint64_t now = NS_HELD_PUSHING, none = 0;
    if (mark > NS_HELD_PUSHING && !atomic_compare_exchange_strong(&conn->held_until, &now, mark))
        /* or the push of another thread has ended, which began before these bytes */
        atomic_compare_exchange_strong(&conn->held_until, &none, mark);
}
