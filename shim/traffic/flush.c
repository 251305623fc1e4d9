/* SPDX-License-Identifier: MIT */
/* See flush.h. Owns nothing: the thread's list and the connections have the pending work. */
#include "traffic/flush.h"

#include "base/real.h"
#include "traffic/push.h"

#include <sys/syscall.h>

static void flush_one(int fd, struct ns_conn *conn)
{
    ns_push(fd, conn);
    if (ns_ack_is_pending(ns_conn_ack(conn)))
        ns_acknowledge(fd, conn);
}

void ns_flush_pending(void)
{
    int saved = errno;
    ns_thread.may_push = false; /* before the pushes, since a signal handler may set it again */
    ns_pending_drain(flush_one);
    errno = saved;
}

void ns_flush_pushes(void)
{
    int saved = errno;
    ns_thread.may_push = false;
    ns_pending_each(ns_push);
    errno = saved;
}

static void push_if_quiet(int fd, struct ns_conn *conn)
{
    bool wrote_since = NS_GET(conn, send) == NS_SEND_ADAPTIVE &&
                       ns_conn_burst(conn).probe == (uint8_t)(ns_thread.probes - 1);
    if (!wrote_since)
        ns_push(fd, conn);
}

void ns_flush_quiet(void)
{
    int saved = errno;
    ns_pending_each(push_if_quiet);
    errno = saved;
}

static void acknowledge_if_old(int fd, struct ns_conn *conn)
{
    if (ns_ack_is_old(ns_conn_ack(conn), ns_thread.epoch))
        ns_acknowledge(fd, conn);
}

void ns_flush_old_acks(void)
{
    int saved = errno;
    ns_pending_each(acknowledge_if_old);
    errno = saved;
}

void ns_flush_unless_ready(int fd, short events)
{
    if (!ns_pending_kinds())
        return;
    struct pollfd one = {.fd = fd, .events = events};
    struct timespec none = {0, 0};
    int saved = errno;
    /* By number: ppoll() is a cancellation point, and some callers (sendfile) are not. */
    long ready = NS_REAL(syscall)(SYS_ppoll, &one, 1l, &none, NULL, 0l);
    errno = saved;
    if (ready <= 0)
        ns_flush_pending();
}

static void push_any(int fd, struct ns_conn *conn, void *context)
{
    (void)context;
    ns_push(fd, conn);
}

void ns_flush_process(void)
{
    int saved = errno;
    ns_flush_pushes();
    /* other threads' bursts */
    if (atomic_load(&ns_push_any) && atomic_exchange(&ns_push_any, false))
        ns_fd_each(push_any, NULL);
    errno = saved;
}
