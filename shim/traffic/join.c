/* SPDX-License-Identifier: MIT */
/* See join.h. Owns nothing: the mark that it sets, ns_conn.joins, is push.c's. */
#include "traffic/join.h"

#include "report/stats.h"
#include "conn/kernel.h"
#include "traffic/push.h"
#include "traffic/settle.h"

#include <netinet/tcp.h>

void ns_join_owed(int fd, struct ns_conn *conn)
{
    NS_PUT(conn, joins, 1);
    atomic_store_explicit(&ns_push_any, true, memory_order_relaxed);
    ns_thread.may_push = true;
    ns_owe(fd, conn);
}

void ns_join(int fd, struct ns_conn *conn)
{
    /* First what is owed: a signal handler may jump away as soon as the kernel has it. */
    NS_PUT(conn, kernel_nodelay, 0);
    ns_join_owed(fd, conn);
    int error = ns_kernel_set(fd, IPPROTO_TCP, TCP_NODELAY, 0);
    if (!error) {
        NS_COUNT(joined);
        /* Where a signal handler, or another thread that reads from the connection, has pushed
         * meanwhile, perhaps before that call, nobody owes a push any more. */
        NS_PUT(conn, kernel_nodelay, 0);
        ns_enforce_nodelay(fd, conn);
        return;
    }
    NS_PUT(conn, joins, 0);
    NS_PUT(conn, kernel_nodelay, 1);
    ns_nodelay_failed(fd, conn, error);
}
