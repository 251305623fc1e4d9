/* SPDX-License-Identifier: MIT */
/* Which observed connection a descriptor names. A table by descriptor keeps what was found out
 * before; every lookup asks the kernel for the socket's cookie, so the wrappers need not see how
 * descriptors are closed, duplicated or passed on. Nothing here blocks; errno is unchanged;
 * async-signal-safe. */
#ifndef NS_SOCKET_H
#define NS_SOCKET_H

#include "observe/recorder.h"

/* fd has this role: it was accepted, or is about to connect. */
void ns_socket_has_role(int fd, enum ns_role role);

/* The observed connection of fd, which is added to the record at its first use; NULL: fd is not a
 * TCP connection, or it cannot be recorded. */
struct ns_observed *ns_socket_conn(int fd);

#endif
