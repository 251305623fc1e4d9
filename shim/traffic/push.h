/* SPDX-License-Identifier: MIT */
/* The only place that makes a socket send: bytes that are held back, and pending ACKs.
 * Nothing here blocks, allocates or takes a lock; errno is unchanged; all is async-signal-safe. */
#ifndef NS_PUSH_H
#define NS_PUSH_H

#include "traffic/pending.h"

/* May any connection of this process have held or joined bytes? Set after the connection itself is
 * marked. */
extern _Atomic bool ns_push_any;

/* Is it later than until (nanoseconds of CLOCK_MONOTONIC)? Reads the coarse clock, which is cheap
 * and never ahead: true is certain, false may be wrong by a tick (4 ms at HZ=250). */
bool ns_push_is_late(uint64_t until);

/* The time in milliseconds, for ns_burst. */
uint16_t ns_push_clock(void);

/* The time in ticks of NS_ACK_TICK_MS, for ns_ack_state and ns_whole. Not the coarse clock, which
 * stands still while all processors are idle. */
unsigned ns_push_tick(void);

/* auto-cork: were bursts late on NS_UNHELD_MOST connections, so that new ones do not hold? */
bool ns_push_holds_no_more(void);

/* Set the kernel's TCP_NODELAY to the value that the connection's rule requires, unless a burst is
 * joined there. */
void ns_enforce_nodelay(int fd, struct ns_conn *conn);

/* Setting TCP_NODELAY failed with error (-errno): find out why. */
void ns_nodelay_failed(int fd, struct ns_conn *conn, int error);

/* Send the bytes that are held on fd, if any. */
void ns_push(int fd, struct ns_conn *conn);

/* The same after a pause in a joined burst, during which the thread neither waited nor read. */
void ns_push_paused(int fd, struct ns_conn *conn);

/* The same for the connection on which this thread holds a burst, because it writes elsewhere. */
void ns_push_turned(int held);

/* Send the ACK that is pending on fd, if one is. */
void ns_acknowledge(int fd, struct ns_conn *conn);

/* The application's bytes carry the pending ACK. */
void ns_push_carries_ack(struct ns_conn *conn);

/* Let the kernel acknowledge all past and later data on fd at once, until the application writes
 * again. unseen: it may have written without the library's knowledge. */
void ns_acknowledge_from_now_on(int fd, struct ns_conn *conn, bool unseen);

#endif
