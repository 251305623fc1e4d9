/* SPDX-License-Identifier: MIT */
/* What to do where the kernel says that the table is wrong. */
#ifndef NS_HEAL_H
#define NS_HEAL_H

#include "conn/fds.h"

/* A call on fd, which was taken for conn, failed in a way that a TCP socket does not fail: find out
 * what fd is, and forget conn if that is something else. Does not block; errno is unchanged;
 * async-signal-safe. */
void ns_conn_heal(int fd, struct ns_conn *conn);

#endif
