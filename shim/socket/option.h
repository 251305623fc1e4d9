/* SPDX-License-Identifier: MIT */
/* The application's setsockopt and getsockopt on TCP sockets. Async-signal-safe. */
#ifndef NS_OPTION_H
#define NS_OPTION_H

#include "conn/conn.h"

#include <sys/socket.h>

/* The two calls for conn, which fd names. Result and errno are those that the application gets: the
 * kernel's, or those that the kernel would have given for a value that a rule has changed. */
int ns_option_set(int fd, struct ns_conn *conn, int level, int option, const void *value,
                  socklen_t len);
int ns_option_get(int fd, struct ns_conn *conn, int level, int option, void *value, socklen_t *len);

/* After a successful getsockopt for conn: replaces a value that the application is not to see. */
void ns_option_answer(const struct ns_conn *conn, int level, int option, void *value,
                      const socklen_t *len);

#endif
