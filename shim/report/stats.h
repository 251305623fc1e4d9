/* SPDX-License-Identifier: MIT */
/* What the library has done in this process. Relaxed counters, mostly for people to read: they
 * order nothing and guard nothing. */
#ifndef NS_STATS_H
#define NS_STATS_H

#include "base/relaxed.h"

#include <stdint.h>

/* NS_COUNTER(name, text): the text is its name in the report and for the doctor. */
#define NS_COUNTERS(NS_COUNTER)                                                                    \
    NS_COUNTER(sockets, "sockets")         /* TCP sockets that got a rule */                       \
    NS_COUNTER(left_alone, "left alone")   /* TCP sockets that no rule matched */                  \
    NS_COUNTER(joined, "bursts joined")    /* adaptive: TCP_NODELAY was cleared */                 \
    NS_COUNTER(bursts, "bursts held")      /* auto-cork: before which the socket was corked */     \
    NS_COUNTER(pushes, "pushes")           /* before a wait */                                     \
    NS_COUNTER(late, "late pushes")        /* of bytes held for too long */                        \
    NS_COUNTER(acks, "ACKs")               /* before a wait */                                     \
    NS_COUNTER(nodelay, "TCP_NODELAY set") /* on a connection, for the first time */               \
    NS_COUNTER(unheld, "stopped holding")  /* connections, since bursts were late there */

/* After this many connections have stopped holding, new ones do not hold either. */
enum { NS_UNHELD_MOST = 3 };

struct ns_stats {
#define NS_COUNTER(name, text) _Atomic uint64_t name;
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
};

extern struct ns_stats ns_stats;

#define NS_COUNT(name) NS_ADD(ns_stats.name, 1)

#endif
