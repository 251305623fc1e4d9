/* SPDX-License-Identifier: MIT */
/* The only place that makes a socket send: bytes that the kernel holds, and pending ACKs. */
#ifndef NS_PUSH_H
#define NS_PUSH_H

#include "conn/fds.h"
#include "traffic/ack.h"
#include "traffic/burst.h"

/* May the kernel hold bytes on any connection of this process? Set after the connection itself is
 * marked. */
extern _Atomic bool ns_push_any;

/* The time in milliseconds, for ns_burst. The coarse clock, which is cheap and never ahead: it may
 * be late by a tick (4 ms at HZ=250). */
uint16_t ns_push_clock(void);

/* The time in microseconds, for ns_ack_state. coarse: by that clock, which may also stand still
 * while all processors are idle. */
uint32_t ns_push_time(bool coarse);

/* From now on all is by the coarse clock: a thread may not read the processor's counter
 * (PR_SET_TSC, prctl(2)). Another thread's permission says nothing about this one. */
void ns_push_without_tsc(void);

/* The milliseconds after which a held write of conn is late, by its rule: see burst.h. */
static inline unsigned ns_push_pause(const struct ns_conn *conn, const struct ns_send_mode *mode)
{
    enum { TICK = 5 }; /* the coarse clock's error, rounded up */
    const struct ns_rule *rule = mode->option == TCP_CORK ? NS_GET(conn, rule) : NULL;
    if (rule) /* not if another thread passes it on */
        return rule->max_delay_us / 1000 + TICK;
    return mode->nodelay ? NS_BURST_PAUSE : NS_BURST_NEVER;
}

/* ns_conn.full counts the waits before writes. After NS_FULL_SOON of them it becomes NS_FULL_ASK:
 * the kernel is asked whether the line is full. A late write, which may have waited for room in the
 * send buffer, sets it to NS_FULL_SOON, so that the next write asks. If the line is full, the
 * writes are left to Nagle's algorithm until NS_FULL_END, where a read counts as NS_FULL_SOON
 * waits; and then the count goes on from NS_FULL_AGAIN. */
enum { NS_FULL_AGAIN = 48, NS_FULL_SOON = 64, NS_FULL_ASK, NS_FULL_END = NS_FULL_ASK + 4096 };

/* Are the writes of conn left to Nagle's algorithm, since its line is full? Then what it holds
 * leaves with the next ACK, and is pushed only by a read that blocks. */
static inline bool ns_push_is_left(const struct ns_conn *conn)
{
    return NS_GET(conn, full) >= NS_FULL_ASK && NS_GET(conn, held);
}

/* Set the kernel's TCP_NODELAY to the value that the connection's rule requires, unless a burst is
 * held there. */
void ns_enforce_nodelay(int fd, struct ns_conn *conn);

/* Setting an option that holds or pushes has failed with error (-errno): find out why. */
void ns_push_failed(int fd, struct ns_conn *conn, int error);

/* Send the bytes that the kernel holds on fd, if any. */
void ns_push_held(int fd, struct ns_conn *conn);
static inline void ns_push(int fd, struct ns_conn *conn)
{
    if (NS_GET(conn, held))
        ns_push_held(fd, conn);
}

/* Send the ACK that is pending on fd, if one is. */
void ns_acknowledge(int fd, struct ns_conn *conn);

/* The application's bytes carry the pending ACK. */
void ns_push_carries_ack(struct ns_conn *conn);

#endif
