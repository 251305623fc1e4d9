/* SPDX-License-Identifier: MIT */
/* What a write does to a connection that a rule governs: ns_out_begin before the call, ns_out_end
 * after it. Nothing here makes the application's call, blocks but where it says so, or keeps a
 * byte; errno is unchanged; all is async-signal-safe. */
#ifndef NS_OUT_H
#define NS_OUT_H

#include "life.h"
#include "settle.h"

#include <sys/socket.h>

/* One write of the application. */
struct ns_out {
    struct ns_sock *slot; /* NULL: to nothing that a rule governs */
    uint64_t mark; /* auto-cork: held_until before the call, which may take those bytes along */
    uint32_t ack_state; /* before the call, which may carry an ACK */
    int flags;          /* of send; 0 for the calls that have none */
    bool holds;         /* auto-cork: it is to be sent with MSG_MORE, and told by ns_out_held */
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

/* Before a write of size bytes to fd. What the thread owes elsewhere is settled if the write may
 * block. Once per write; then the call, and ns_out_end, or if holds is set ns_out_held. */
struct ns_out ns_out_begin(int fd, size_t size, int flags);

/* A write that is not to be held whatever the rule says: of what the kernel has (a file, a pipe),
 * or of several messages. */
struct ns_out ns_out_begin_plain(int fd, size_t size, int flags);

/* The held write that begin asked for cannot be made: it will be made as the application asked. */
void ns_out_refused(int fd, struct ns_out *out);

/* After the call, with its result. */
void ns_out_end(int fd, const struct ns_out *out, ssize_t result);

/* After a write that was held. size: as the application asked, or NS_UNKNOWN_SIZE. */
void ns_out_held(int fd, const struct ns_out *out, ssize_t result);

#endif
