/* SPDX-License-Identifier: MIT */
/* The only place that makes a socket send: bytes that are held, and ACKs that are owed. (Where a
 * rule observes, and nothing is held or owed, the experiments of experiment.h do.) Nothing here
 * blocks, allocates or takes a lock; errno is unchanged; all is async-signal-safe. */
#ifndef NS_PUSH_H
#define NS_PUSH_H

#include "base/clock.h"
#include "hold/debts.h"

/* May any connection of this process have held or joined bytes? Set after the connection's own
 * mark. */
extern _Atomic bool ns_push_any;

/* Is the time until, of CLOCK_MONOTONIC in nanoseconds, over for certain? Asks the coarse clock,
 * which is cheap and behind by a tick (4 ms at HZ=250) at most, never ahead. */
static inline bool ns_push_is_late(uint64_t until)
{
    return ns_clock_now(CLOCK_MONOTONIC_COARSE) > until;
}

/* Milliseconds, for ns_burst. */
uint16_t ns_push_clock(void);

/* auto-cork: have bursts been late on so many connections that new ones do not hold? */
bool ns_push_holds_no_more(void);

/* Make the kernel's TCP_NODELAY what the connection's rule wants, unless a burst is joined there.
 */
void ns_enforce_nodelay(int fd, struct ns_conn *conn);

/* TCP_NODELAY could not be changed (-errno): find out why. */
void ns_nodelay_failed(int fd, struct ns_conn *conn, int error);

/* Send what is held on fd, if anything is. */
void ns_push(int fd, struct ns_conn *conn);

/* The same where the thread that joined it has neither waited nor been answered, but after a pause
 * writes on. */
void ns_push_paused(int fd, struct ns_conn *conn);

/* What the thread holds on fd is over since it turns to another socket. */
void ns_push_turned(int held);

/* Send the ACK that is owed on fd, if one is. */
void ns_acknowledge(int fd, struct ns_conn *conn);

/* Have the kernel acknowledge by itself what is there on fd and what comes, until the application
 * writes again. */
void ns_acknowledge_from_now_on(int fd, struct ns_conn *conn);

#endif
