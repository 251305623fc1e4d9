/* SPDX-License-Identifier: MIT */
/* setsockopt and getsockopt on TCP sockets: what a rule makes of them, and what the application is
 * told. errno is as the call leaves it. Async-signal-safe. */
#ifndef NS_OPTION_H
#define NS_OPTION_H

#include "conn/conn.h"

#include <sys/socket.h>

/* The two calls, for a socket that is ours. Results and errno are the kernel's own
 * wherever the kernel was asked. */
int ns_option_set(int fd, struct ns_conn *conn, int level, int option, const void *value,
                  socklen_t len);
int ns_option_get(int fd, struct ns_conn *conn, int level, int option, void *value, socklen_t *len);

#endif
