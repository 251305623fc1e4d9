/* SPDX-License-Identifier: MIT */
/* "send": "observe": what is looked at around the writes, reads and waits of connections under such
 * a rule, and what is recorded of it. Sets nothing on a socket, unless an experiment was asked for.
 * Nothing here blocks, allocates with malloc or takes a lock; errno is unchanged; all is
 * async-signal-safe. */
#ifndef NS_OBSERVE_H
#define NS_OBSERVE_H

#include "conn/fds.h"
#include "conn/process.h"

#include <sys/types.h>

/* The connection of fd if it is observed. */
static inline struct ns_conn *ns_observed(int fd)
{
    struct ns_conn *conn = ns_fd_conn(fd);
    if (!conn || NS_GET(conn, kind) != NS_CONN_RULED || NS_GET(conn, send) != NS_SEND_OBSERVE)
        return NULL;
    return ns_process_is_disabled() || ns_has_other_fds() ? NULL : conn;
}

/* Before a write on conn, and after one that moved size bytes. */
void ns_observe_write(int fd, struct ns_conn *conn);
void ns_observe_wrote(int fd, struct ns_conn *conn, size_t size);

/* Before a call of this thread that may wait, and after it. conn: the observed connection that it
 * waits for in a read, whichever thread has written there, or that has given it data; NULL: another
 * wait. */
void ns_observe_wait(struct ns_conn *conn);
void ns_observe_woke(const struct ns_conn *conn);

/* This thread ends: what it would have looked at is any other thread's. */
void ns_observe_thread_exits(void);

/* Data was read from conn. */
void ns_observe_read(int fd, struct ns_conn *conn);

#endif
