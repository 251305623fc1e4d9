/* SPDX-License-Identifier: MIT */
/* What happens around a read from a connection that a rule applies to: ns_in_begin before the call,
 * one of the others after it. Nothing here makes the application's call. */
#ifndef NS_IN_H
#define NS_IN_H

#include "conn/fds.h"

#include <sys/types.h>

/* Before a read with recv's flags. may_try: it can be made without waiting. Must it first be made
 * so? If there is no data then, ns_in_waits and the call as the application asked follow. */
bool ns_in_begin(int fd, struct ns_conn *conn, int flags, bool may_try);
void ns_in_waits(int fd, struct ns_conn *conn);

/* After a read with recv's flags, with its result and its errno. */
void ns_in_end(int fd, struct ns_conn *conn, ssize_t result, int error, int flags);

/* Before and after a read that waits inside the kernel or libc for all of its data, with
 * MSG_WAITALL or in stdio, where only the kernel can acknowledge a first part. */
void ns_in_begin_whole(int fd, struct ns_conn *conn);
void ns_in_end_whole(int fd, struct ns_conn *conn);

/* The application's read has found no data. */
void ns_in_nothing(int fd, struct ns_conn *conn);

#endif
