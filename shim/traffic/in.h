/* SPDX-License-Identifier: MIT */
/* What happens around a read from a connection that a rule applies to: ns_in_begin before the call,
 * one of the others after it. Nothing here makes the application's call or blocks; errno is
 * unchanged; all is async-signal-safe. */
#ifndef NS_IN_H
#define NS_IN_H

#include "conn/fds.h"

#include <sys/types.h>

/* How to make a read. */
enum ns_reading {
    NS_READ_PLAIN, /* as the application asked */
    /* First without waiting. If there is no data: ns_flush_pending, then the original call. */
    NS_READ_PROBE_FIRST,
};

/* Before a read with recv's flags. */
enum ns_reading ns_in_begin(int fd, struct ns_conn *conn, int flags);

/* After a read with recv's flags, with its result and its errno. */
void ns_in_end(int fd, struct ns_conn *conn, ssize_t result, int error, int flags);

/* The application's read has found no data. */
void ns_in_nothing(int fd, struct ns_conn *conn);

#endif
