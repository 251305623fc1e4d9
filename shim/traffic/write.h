/* SPDX-License-Identifier: MIT */
/* What the shim needs to know of a write. */
#ifndef NS_WRITE_H
#define NS_WRITE_H

#include "conn/conn.h"

#include <sys/socket.h>

/* One write of the application: the first five members are the caller's to fill in. */
struct ns_write {
    int fd;
    int flags;            /* of send; 0 for the calls that have none */
    size_t size;          /* as asked, or NS_UNKNOWN_SIZE */
    struct ns_conn *conn; /* NULL: no rule governs fd */
    /* Not to be held whatever the rule says: of what the kernel has (a file, a pipe), or of several
     * messages. */
    bool plain;
    bool holds; /* auto-cork: it is to be sent with MSG_MORE, and told by ns_held_after */
    struct ns_ack_state ack; /* before the call, which may carry an ACK */
    uint64_t mark; /* auto-cork: held_until before the call, which may take those bytes along */
};

enum {
    /* A write of this size and more is not small: merging it with others saves nothing. */
    NS_LARGE = 16 * 1024,
    /* The size of what only the kernel can measure: a vector at a pointer that may be bad. */
    NS_UNKNOWN_SIZE = 1,
    /* Flags that say that a write is not to be held: the application corks by itself, or the bytes
     * are not for merging. */
    NS_NEVER_HELD = MSG_MORE | MSG_OOB | MSG_EOR | MSG_FASTOPEN | MSG_ZEROCOPY,
};

#endif
