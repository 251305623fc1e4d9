/* SPDX-License-Identifier: MIT */
/* See settle.h. Owns nothing: what is owed stands in the thread's list and in the connections. */
#include "traffic/settle.h"

#include "base/real.h"
#include "traffic/push.h"

#include <sys/syscall.h>

static void settle_one(int fd, struct ns_conn *conn)
{
    ns_push(fd, conn);
    if (ns_ack_owes(ns_conn_ack(conn)))
        ns_acknowledge(fd, conn);
}

void ns_settle(void)
{
    int saved = errno;
    ns_thread.may_push = false; /* before, so that a signal handler may set it again */
    ns_debts_drain(settle_one);
    errno = saved;
}

void ns_settle_pushes(void)
{
    int saved = errno;
    ns_thread.may_push = false;
    ns_debts_each(ns_push);
    errno = saved;
}

/* Nothing was written there between the last look and the one before it. */
static bool is_quiet(struct ns_conn *conn)
{
    return NS_GET(conn, send) != NS_SEND_ADAPTIVE ||
           ns_conn_burst(conn).look != (uint8_t)(ns_thread.looks - 1);
}

static void push_if_quiet(int fd, struct ns_conn *conn)
{
    if (is_quiet(conn))
        ns_push(fd, conn);
}

void ns_settle_quiet(void)
{
    int saved = errno;
    ns_debts_each(push_if_quiet);
    errno = saved;
}

void ns_settle_unless_ready(int fd, short events)
{
    if (!ns_owed())
        return;
    struct pollfd one = {.fd = fd, .events = events};
    struct timespec none = {0, 0};
    int saved = errno;
    /* By number: no place to be cancelled at, which sendfile for one is not. */
    long ready = NS_REAL(syscall)(SYS_ppoll, &one, 1l, &none, NULL, 0l);
    errno = saved;
    if (ready <= 0)
        ns_settle();
}

static void push_any(int fd, struct ns_conn *conn, void *context)
{
    (void)context;
    ns_push(fd, conn);
}

void ns_settle_process(void)
{
    int saved = errno;
    ns_settle_pushes();
    if (atomic_exchange(&ns_push_any, false)) /* other threads' bursts */
        ns_fd_each(push_any, NULL);
    errno = saved;
}
