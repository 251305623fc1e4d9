/* SPDX-License-Identifier: MIT */
/* What a read does to a connection that a rule governs: ns_in_begin before the call, one of the
 * others after it. Nothing here makes the application's call or blocks; errno is unchanged; all is
 * async-signal-safe. */
#ifndef NS_IN_H
#define NS_IN_H

#include "conn/fds.h"

#include <sys/types.h>

/* How a read is to be made. */
enum ns_reading {
    NS_READ_PLAIN,   /* as asked */
    NS_READ_PATIENT, /* first without waiting; if there is nothing, ns_settle and as asked */
};

/* Before a read, with recv's flags: settles what must be settled first. */
enum ns_reading ns_in_begin(int fd, struct ns_conn *conn, int flags);

/* After a read, with recv's flags, its result and its errno. */
void ns_in_end(int fd, struct ns_conn *conn, ssize_t result, int error, int flags);

/* The application was told that there is no data. */
void ns_in_nothing(int fd, struct ns_conn *conn);

#endif
