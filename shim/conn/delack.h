/* SPDX-License-Identifier: MIT */
/* The bound on the kernel's own delayed ACK, where it has one (TCP_DELACK_MAX_US, Linux 6.17 or
 * so): for the ACKs whose wait we do not see (stdio, a futex). Nothing here blocks; errno is
 * unchanged; async-signal-safe. */
#ifndef NS_DELACK_H
#define NS_DELACK_H

#include "conn/conn.h"

enum {
    NS_DELACK_OPTION = 46, /* TCP_DELACK_MAX_US, linux/tcp.h of recent kernels */
    /* The least that a kernel with HZ=250 takes, two ticks; others round up or refuse. */
    NS_DELACK_US = 8000,
};

/* Set the bound, unless the socket has one. */
void ns_delack_bound(int fd, struct ns_conn *conn);

/* Has fd our bound already? Remembers it. */
bool ns_delack_is_bound(int fd, struct ns_conn *conn);

/* Take our bound off. */
void ns_delack_unbound(int fd, struct ns_conn *conn);

/* Microseconds that a socket has by itself, as far as is known. */
int ns_delack_of_fresh(void);

#endif
