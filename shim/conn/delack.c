/* SPDX-License-Identifier: MIT */
/* See delack.h. Owns ns_conn.delack. */
#include "conn/delack.h"

#include "conn/kernel.h"

#include <errno.h>
#include <netinet/in.h>

/* Microseconds that a new socket has; 0: this kernel has no such option; -1: not asked yet. */
static _Atomic int delack_default = -1;

/* MPTCP returns -EOPNOTSUPP, which does not hold for other sockets. So only a TCP socket's result
 * is kept. */
void ns_delack_bound(int fd, struct ns_conn *conn)
{
    int unlimited = atomic_load_explicit(&delack_default, memory_order_relaxed);
    if (unlimited == 0 || NS_GET(conn, delack) || NS_GET(conn, ack) != NS_ACK_BEFORE_WAIT)
        return;
    if (unlimited < 0)
        unlimited = ns_kernel_get(fd, IPPROTO_TCP, NS_DELACK_OPTION);
    if (unlimited == -EOPNOTSUPP || (unlimited > 0 && unlimited <= NS_DELACK_US)) {
        /* A limit that another process has set, perhaps by the library, is not kept either. */
        NS_PUT(conn, delack, unlimited == NS_DELACK_US ? NS_DELACK_OURS : NS_DELACK_THEIRS);
        return;
    }
    int error = unlimited;
    if (unlimited > 0)
        error = ns_kernel_set(fd, IPPROTO_TCP, NS_DELACK_OPTION, NS_DELACK_US);
    if (error == -EOPNOTSUPP || error == -EBADF || error == -ENOTSOCK) /* closed unseen */
        return;
    if (error == 0)
        NS_PUT(conn, delack, NS_DELACK_OURS);
    else
        unlimited = 0; /* this kernel has no such option, or not with this value */
    atomic_store_explicit(&delack_default, unlimited, memory_order_relaxed);
}

void ns_delack_found(int fd, struct ns_conn *conn)
{
    int limit = ns_kernel_get(fd, IPPROTO_TCP, NS_DELACK_OPTION);
    if (limit == NS_DELACK_US)
        NS_PUT(conn, delack, NS_DELACK_OURS);
    else if (limit > 0 && limit != ns_delack_of_fresh())
        NS_PUT(conn, delack, NS_DELACK_THEIRS);
}

int ns_delack_of_fresh(void)
{
    enum { KERNEL_US = 200000 }; /* TCP_DELACK_MAX, include/net/tcp.h */
    int known = atomic_load_explicit(&delack_default, memory_order_relaxed);
    return known > 0 ? known : KERNEL_US;
}

void ns_delack_unbound(int fd, struct ns_conn *conn)
{
    if (!ns_delack_is_ours(conn))
        return;
    ns_kernel_set(fd, IPPROTO_TCP, NS_DELACK_OPTION, ns_delack_of_fresh());
    NS_PUT(conn, delack, NS_DELACK_UNASKED);
}
