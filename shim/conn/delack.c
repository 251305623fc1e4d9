/* SPDX-License-Identifier: MIT */
/* See delack.h. Owns what is known of this kernel's option, and ns_conn.delack. Async-signal-safe.
 */
#include "conn/delack.h"

#include "conn/kernel.h"

#include <errno.h>
#include <netinet/in.h>

/* -1: not asked yet, 0: this kernel has no such option, otherwise what a socket has by itself. */
static _Atomic int delack_default = -1;

/* -EOPNOTSUPP is MPTCP's answer, which says nothing of the process's next socket: only what a TCP
 * socket answers is kept. */
void ns_delack_bound(int fd, struct ns_conn *conn)
{
    int by_itself = atomic_load_explicit(&delack_default, memory_order_relaxed);
    if (by_itself == 0 || NS_GET(conn, delack))
        return;
    if (by_itself < 0)
        by_itself = ns_kernel_get(fd, IPPROTO_TCP, NS_DELACK_OPTION);
    if (by_itself == -EOPNOTSUPP || (by_itself > 0 && by_itself <= NS_DELACK_US)) {
        /* Which says nothing of the next, either. A shim in the process that made it may have. */
        NS_PUT(conn, delack, by_itself == NS_DELACK_US ? NS_DELACK_OURS : NS_DELACK_THEIRS);
        return;
    }
    int error = by_itself;
    if (by_itself > 0)
        error = ns_kernel_set(fd, IPPROTO_TCP, NS_DELACK_OPTION, NS_DELACK_US);
    if (error == -EOPNOTSUPP || error == -EBADF || error == -ENOTSOCK) /* closed past us */
        return;
    if (error == 0)
        NS_PUT(conn, delack, NS_DELACK_OURS);
    else
        by_itself = 0; /* this kernel has no such option, or not with this value */
    atomic_store_explicit(&delack_default, by_itself, memory_order_relaxed);
}

bool ns_delack_is_bound(int fd, struct ns_conn *conn)
{
    if (ns_kernel_get(fd, IPPROTO_TCP, NS_DELACK_OPTION) != NS_DELACK_US)
        return false;
    NS_PUT(conn, delack, NS_DELACK_OURS);
    return true;
}

int ns_delack_of_fresh(void)
{
    enum { KERNEL_US = 200000 }; /* TCP_DELACK_MAX, include/net/tcp.h */
    int known = atomic_load_explicit(&delack_default, memory_order_relaxed);
    return known > 0 ? known : KERNEL_US;
}

void ns_delack_unbound(int fd, struct ns_conn *conn)
{
    if (NS_GET(conn, delack) != NS_DELACK_OURS)
        return;
    ns_kernel_set(fd, IPPROTO_TCP, NS_DELACK_OPTION, ns_delack_of_fresh());
    NS_PUT(conn, delack, NS_DELACK_UNASKED);
}
