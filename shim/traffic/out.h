/* SPDX-License-Identifier: MIT */
/* What happens around a write to a connection that a rule applies to: ns_out_begin before the call,
 * ns_out_end after it. Nothing here makes the application's call. */
#ifndef NS_OUT_H
#define NS_OUT_H

#include "traffic/pending.h"

#include <sys/types.h>

/* What ns_out_end needs of one write. In registers, so that a write whose end does not matter can
 * be a jump to libc: a return is mispredicted after a system call. */
struct ns_write {
    struct ns_conn *conn;    /* NULL: ns_out_end is not needed */
    struct ns_ack_state ack; /* before the call, which may carry an ACK */
};

/* The size of a vector, which only the kernel can measure: the pointer may be bad. */
enum { NS_UNKNOWN_SIZE = 1 };

/* Does a write with flags 0 only change counts, because the kernel holds its burst or no write of
 * conn is ever held? Then it is counted here, and ns_out_begin and ns_out_end are not needed. A
 * shortcut, which takes half of their instructions. */
bool ns_out_goes_on(int fd, struct ns_conn *conn);

/* Before a write of size bytes with send's flags. conn: NULL if no rule applies to fd. Flushes what
 * is pending on other connections if the write may block. */
struct ns_write ns_out_begin(int fd, struct ns_conn *conn, size_t size, int flags);

/* After the call, if it is needed. result is what the call returned. */
void ns_out_end(struct ns_write one, int fd, int flags, ssize_t result);

/* From now on the kernel may hold bytes on fd, since TCP_NODELAY is off or TCP_CORK is on. lists:
 * this thread's next wait pushes them. */
void ns_hold_mark(int fd, struct ns_conn *conn, bool lists);

#endif
