/* SPDX-License-Identifier: MIT */
/* What the shim has done in this process. Relaxed counters: they order nothing and guard nothing,
 * and are read for people only. */
#ifndef NS_STATS_H
#define NS_STATS_H

#include "base/relaxed.h"

#include <stdint.h>

/* NS_COUNTER(name, text): the text is its name in the report and for the doctor. */
#define NS_COUNTERS(NS_COUNTER)                                                                    \
    NS_COUNTER(sockets, "sockets")       /* TCP sockets that got a rule */                         \
    NS_COUNTER(left_alone, "left alone") /* TCP sockets that no rule matched */                    \
    NS_COUNTER(joined, "bursts joined")  /* adaptive: TCP_NODELAY was taken off */                 \
    NS_COUNTER(bursts, "bursts held") /* auto-cork: whose first bytes were sent with MSG_MORE */   \
    NS_COUNTER(pushes, "pushes")      /* before a wait */                                          \
    NS_COUNTER(late, "late pushes")   /* by the deadline thread, or after a pause */               \
    NS_COUNTER(acks, "ACKs")          /* before a wait */                                          \
    NS_COUNTER(nodelay, "TCP_NODELAY set") /* on listeners and connections, for the first time */

struct ns_stats {
#define NS_COUNTER(name, text) _Atomic uint64_t name;
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
};

extern struct ns_stats ns_stats;

#define NS_COUNT(name) NS_ADD(ns_stats.name, 1)

#endif
