/* SPDX-License-Identifier: MIT */
/* Leaving the bytes of a burst to Nagle, which joins them into segments, until the next wait of the
 * thread pushes the rest. Nothing here blocks; errno is unchanged; all is async-signal-safe. */
#ifndef NS_JOIN_H
#define NS_JOIN_H

#include "conn/conn.h"

/* Take TCP_NODELAY off. For a connection whose TCP_NODELAY is ours. */
void ns_join(int fd, struct ns_conn *conn);

/* Nagle may hold bytes here from now on, since TCP_NODELAY is off already (flush-before-read). */
void ns_join_owed(int fd, struct ns_conn *conn);

#endif
