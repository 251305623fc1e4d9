/* SPDX-License-Identifier: MIT */
/* Takes the samples around the writes, reads and waits of an observed process's connections, and
 * records them. Sets nothing on a socket, unless an experiment was asked for. Nothing here blocks,
 * allocates with malloc or takes a lock; errno is unchanged; everything but ns_observe_open is
 * async-signal-safe. */
#ifndef NS_OBSERVE_H
#define NS_OBSERVE_H

#include "observe/recorder.h"

/* Before a write to conn, and after one that wrote size bytes with send's flags. */
void ns_observe_write(int fd, struct ns_observed *conn);
void ns_observe_wrote(int fd, struct ns_observed *conn, size_t size, int flags);

/* Before a call of this thread that may wait, and after it. conn: the connection that a read waits
 * for, or that has given it data; NULL: another wait. */
void ns_observe_wait(struct ns_observed *conn);
void ns_observe_woke(const struct ns_observed *conn);

/* Data was read from conn. */
void ns_observe_read(int fd, struct ns_observed *conn);

/* The program has set TCP_NODELAY or TCP_QUICKACK on conn. */
void ns_observe_option(struct ns_observed *conn, int option, int value);

#endif
