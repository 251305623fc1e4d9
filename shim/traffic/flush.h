/* SPDX-License-Identifier: MIT */
/* What happens before a wait: the thread pushes every byte that it holds back and sends every
 * pending ACK. Nothing here blocks, allocates or takes a lock; errno is unchanged; all is
 * async-signal-safe. */
#ifndef NS_FLUSH_H
#define NS_FLUSH_H

#include "traffic/pending.h"

/* Push every byte that this thread holds back and send every pending ACK. Called before anything
 * that may block. */
void ns_flush_pending(void);

/* Only the pushes. */
void ns_flush_pushes(void);

/* After a probe that found events, or a probe between writes: push only bursts that have not grown
 * since the previous probe. A busy event loop does not delay an answer then, and a stream is not
 * interrupted. */
void ns_flush_quiet(void);

/* After a wait that found something at once: send the ACKs that have been pending for several such
 * waits. An event loop that always finds something would otherwise never send them. */
void ns_flush_old_acks(void);
static inline void ns_flush_busy(void)
{
    if (ns_thread.epoch % NS_ACK_OLD == 0)
        ns_flush_old_acks();
}

/* Before a call on fd that waits only while fd is not ready for events (POLLIN or POLLOUT): flush
 * if it is not ready. Costs a system call if anything is pending. */
void ns_flush_unless_ready(int fd, short events);

/* The connection of fd has something pending: this thread's next wait sends it. If the list is
 * full, older entries are sent now. */
static inline void ns_pending_add(int fd, struct ns_conn *conn)
{
    if (!ns_pending_has(conn))
        while (!ns_pending_try_add(fd, conn))
            ns_flush_pending();
}

/* Push every held byte of this process, whichever thread holds it: before exec and exit. */
void ns_flush_process(void);

#endif
