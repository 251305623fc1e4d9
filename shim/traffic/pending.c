/* SPDX-License-Identifier: MIT */
/* See pending.h. Owns ns_thread. */
#include "traffic/pending.h"

#include "base/real.h"
#include "conn/kernel.h"
#include "traffic/push.h"

#include <sys/syscall.h>

_Thread_local struct ns_thread ns_thread;
_Static_assert(sizeof(struct ns_thread) <= 1024,
               "static TLS is scarce in processes that dlopen us");

static _Atomic uint32_t threads;

void ns_thread_begin(void)
{
    uint32_t id;
    do
        id = atomic_fetch_add(&threads, 1) + 1;
    while (id == 0); /* 0 means none; only after 4 294 967 295 threads */
    ns_thread.id = id;
    ns_thread.list = id << 16 | 1; /* two threads hardly ever have the same; never 0 */
}

/* May the list be changed? False in a signal handler that has interrupted a change. After STALE
 * times it was not that, but a handler that has jumped out of it. */
static bool begin_change(void)
{
    enum { STALE = 8 };
    if (ns_thread.busy && ++ns_thread.busy <= STALE)
        return false;
    ns_thread.busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

static void end_change(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    ns_thread.busy = 0;
}

static void send_one(int fd, struct ns_conn *conn)
{
    if (NS_GET(conn, listed) == ns_thread.list)
        NS_PUT(conn, listed, 0); /* first: what a signal handler does from now on is listed again */
    ns_push(fd, conn);
    if (ns_ack_is_pending(ns_conn_ack(conn)))
        ns_acknowledge(fd, conn);
}

/* Drops entries that are done until one is pending on another connection than conn. all: goes on
 * then. Returns whether one was. */
static bool drop_done(const struct ns_conn *conn, bool all)
{
    if (!begin_change())
        return false;
    unsigned at = ns_thread.pending;
    bool found = false;
    while (at-- > 0 && (all || !found)) {
        struct ns_conn *other = ns_fd_conn(ns_thread.fds[at]);
        if (other && ns_conn_is_pending(other)) {
            found |= other != conn;
            continue;
        }
        if (other)
            NS_PUT(other, listed, 0);
        ns_thread.fds[at] = ns_thread.fds[--ns_thread.pending];
    }
    end_change();
    return found;
}

bool ns_pending_beside(const struct ns_conn *conn)
{
    return drop_done(conn, false);
}

bool ns_pending_is_full(void)
{
    if (ns_thread.pending == NS_PENDING_MOST)
        drop_done(NULL, true);
    return ns_thread.pending == NS_PENDING_MOST;
}

void ns_pending_list(int fd, struct ns_conn *conn)
{
    if (!ns_thread.id)
        ns_thread_begin();
    if (ns_pending_is_full() || !begin_change()) {
        send_one(fd, conn);
        return;
    }
    if (!ns_thread.pending) {
        ns_thread.ready = 0;
        ns_thread.corked = false;
    }
    ns_thread.fds[ns_thread.pending++] = fd;
    NS_PUT(conn, listed, ns_thread.list);
    end_change();
    /* The number may name another connection by now: see ns_fd_set. */
    if (__builtin_expect(!ns_fd_names(fd, conn), 0))
        NS_PUT(conn, listed, 0);
}

/* Calls send for each entry. */
static void each(void (*send)(int fd, struct ns_conn *conn))
{
    int saved = errno;
    for (unsigned i = 0; i < ns_thread.pending; i++) {
        struct ns_conn *conn = ns_fd_conn(ns_thread.fds[i]);
        if (conn)
            send(ns_thread.fds[i], conn);
    }
    errno = saved;
}

void ns_flush_pending(void)
{
    if (!begin_change())
        return;
    each(send_one);
    if (++ns_thread.list == 0) /* 0 means none */
        ns_thread.list = 1;
    ns_thread.pending = 0;
    end_change();
}

void ns_flush_pushes(void)
{
    each(ns_push);
}

static void push_unless_stream(int fd, struct ns_conn *conn)
{
    if (!ns_conn_burst(conn).crossing)
        ns_push(fd, conn);
}

bool ns_pending_before_wait(void)
{
    each(push_unless_stream);
    return ns_pending_beside(NULL);
}

static void send_if_old(int fd, struct ns_conn *conn)
{
    struct ns_burst burst = ns_conn_burst(conn);
    struct ns_ack_state ack = ns_conn_ack(conn);
    if (ns_burst_waits(&burst, (uint8_t)ns_thread.waits) >= NS_PENDING_WAITS)
        ns_push(fd, conn);
    if (ns_ack_is_pending(ack) && ns_ack_waits(ack, ns_thread.waits) >= NS_PENDING_WAITS)
        ns_acknowledge(fd, conn);
}

void ns_flush_old(void)
{
    each(send_if_old);
}

/* Is fd ready for events, or a file, so that a call does not wait? */
static bool is_ready(int fd, short events)
{
    if (!ns_fd_conn(fd) && ns_kernel_is_file(fd))
        return true;
    struct pollfd one = {.fd = fd, .events = events};
    struct timespec none = {0, 0};
    int saved = errno;
    /* By number: ppoll() is a cancellation point, and some callers (sendfile) are not. */
    long ready = events ? NS_REAL(syscall)(SYS_ppoll, &one, 1l, &none, NULL, 0l) : 0;
    errno = saved;
    return ready > 0;
}

void ns_flush_unless_ready(int fd, const struct ns_conn *conn, short events)
{
    if (!ns_pending_any() || ns_pending_skips() || !ns_pending_beside(conn))
        return;
    if (!is_ready(fd, events))
        ns_flush_pending();
    else
        ns_thread.ready =
            ns_thread.ready < NS_PENDING_READY ? ns_thread.ready + 1 : NS_PENDING_READY;
}

static void push_any(int fd, struct ns_conn *conn, void *context)
{
    (void)context;
    ns_push(fd, conn);
}

void ns_flush_process(void)
{
    int saved = errno;
    if (atomic_load(&ns_push_any) && atomic_exchange(&ns_push_any, false))
        ns_fd_each(push_any, NULL);
    errno = saved;
}
