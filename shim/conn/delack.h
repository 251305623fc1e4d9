/* SPDX-License-Identifier: MIT */
/* The limit of the kernel's delayed ACK (TCP_DELACK_MAX_US, since Linux 6.15), for ACKs
 * before waits that the library cannot see (stdio, a futex). Without the option these functions do
 * nothing. */
#ifndef NS_DELACK_H
#define NS_DELACK_H

#include "conn/conn.h"

enum {
    NS_DELACK_OPTION = 46, /* TCP_DELACK_MAX_US, linux/tcp.h of recent kernels */
    /* Two ticks at HZ=250, the lowest that such a kernel accepts. Others round up or refuse. */
    NS_DELACK_US = 8000,
};

/* Has the library limited the delay? */
static inline bool ns_delack_is_ours(const struct ns_conn *conn)
{
    return NS_GET(conn, delack) == NS_DELACK_OURS;
}

/* Set the limit, unless the socket has one, or its rule leaves ACKs alone. */
void ns_delack_bound(int fd, struct ns_conn *conn);

/* The socket came from outside: a limit that is neither the kernel's nor the library's stays. */
void ns_delack_found(int fd, struct ns_conn *conn);

/* Remove the library's limit. */
void ns_delack_unbound(int fd, struct ns_conn *conn);

/* The limit in microseconds that a new socket has, or the kernel's default if it is not known. */
int ns_delack_of_fresh(void);

#endif
