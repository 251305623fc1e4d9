/* SPDX-License-Identifier: MIT */
/* Which observed connection a descriptor names. A table keeps earlier results. Between two waits, a
 * thread asks the kernel once for the socket's cookie, so the wrappers need not see how descriptors
 * are duplicated, passed on or replaced. Nothing here blocks; errno is unchanged;
 * async-signal-safe. */
#ifndef NS_DESCRIPTOR_H
#define NS_DESCRIPTOR_H

#include "observe/recorder.h"

/* fd has this role: it was accepted, or is about to connect. */
void ns_descriptor_has_role(int fd, enum ns_role role);

/* fd is about to be closed. */
void ns_descriptor_closes(int fd);

/* The observed connection of fd, which is added to the record at its first use; NULL: fd is not a
 * TCP connection, or it cannot be recorded. */
struct ns_observed *ns_descriptor_conn(int fd);

/* The recorded connection that fd named at its last use, or NULL. No system call. */
struct ns_observed *ns_descriptor_known(int fd);

/* This thread is about to wait. */
void ns_descriptor_waits(void);

#endif
