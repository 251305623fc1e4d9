/* SPDX-License-Identifier: MIT */
/* What a wait does: the thread that is about to wait pushes every byte that it holds back, and
 * sends every ACK that it owes. Nothing here blocks, allocates or takes a lock; errno is unchanged;
 * all is async-signal-safe. */
#ifndef NS_SETTLE_H
#define NS_SETTLE_H

#include "hold/debts.h"

/* Settle the debts of this thread. */
void ns_settle(void);

/* Only those that are pushes. */
void ns_settle_pushes(void);

/* A look has found something, or its thread writes on and on: push only the bursts that nobody has
 * added to since the look before it, so that an answer does not lie there while an event loop is
 * busy, and a stream goes on. */
void ns_settle_quiet(void);

/* Before a call on fd that waits only if fd is not ready for events (POLLIN, POLLOUT): settle if it
 * is not. Out of line; for those who owe. */
void ns_settle_unless_ready(int fd, short events);

/* Something is owed on fd, as its connection says: have this thread's next wait settle it. Where
 * the list is full the older debts are settled now. */
static inline void ns_owe(int fd, struct ns_conn *conn)
{
    if (!ns_debts_have(conn))
        while (!ns_debts_add(fd, conn))
            ns_settle();
}

/* Push every held byte of this process, whichever thread holds it: before exec and exit. */
void ns_settle_process(void);

#endif
