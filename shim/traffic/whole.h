/* SPDX-License-Identifier: MIT */
/* Reads with MSG_WAITALL wait inside the kernel after a first part, where only the kernel can
 * acknowledge that part. It does so at once after TCP_QUICKACK=1. This costs one or two segments
 * for each read, so it is done only if such reads were late: pure functions on a value of one byte.
 */
#ifndef NS_WHOLE_H
#define NS_WHOLE_H

#include <stdbool.h>
#include <stdint.h>

struct ns_whole {
    uint8_t step : 2;
    uint8_t tries : 2; /* late reads in a row, although the kernel acknowledges at once */
    uint8_t count : 4; /* reads in time since then */
};
_Static_assert(sizeof(struct ns_whole) == 1, "loaded and stored as one byte");

enum ns_whole_step {
    NS_WHOLE_UNKNOWN,
    NS_WHOLE_ON,     /* the kernel acknowledges at once; it is not known yet if this helps */
    NS_WHOLE_NEEDED, /* it does */
    NS_WHOLE_OFF,    /* it does not: the peer takes its time */
};

enum {
    NS_WHOLE_TRIES = 3,
    NS_WHOLE_COUNT = 15,
    /* Milliseconds, besides two round trips (of the request and the answer, and of the ACK and the
     * rest of the answer): the time of a read that has waited for a delayed ACK. */
    NS_WHOLE_LATE = 8,
    NS_WHOLE_LATEST = 60,
};

/* Before such a read: should the kernel acknowledge at once? After NS_WHOLE_COUNT reads in time
 * this is skipped once, as a test. */
static inline bool ns_whole_begins(struct ns_whole whole)
{
    return whole.step == NS_WHOLE_NEEDED ||
           (whole.step == NS_WHOLE_ON && whole.count < NS_WHOLE_COUNT);
}

/* After such a read, which took ms milliseconds over a line with this round trip. */
static inline void ns_whole_ended(struct ns_whole *whole, unsigned ms, unsigned rtt)
{
    bool late = ms >= 2 * rtt + NS_WHOLE_LATE && ms <= 2 * rtt + NS_WHOLE_LATEST;
    if (whole->step == NS_WHOLE_UNKNOWN && late) {
        *whole = (struct ns_whole){.step = NS_WHOLE_ON};
    } else if (whole->step == NS_WHOLE_ON) {
        if (whole->count == NS_WHOLE_COUNT)
            *whole = (struct ns_whole){.step = late ? NS_WHOLE_NEEDED : NS_WHOLE_UNKNOWN};
        else if (!late)
            whole->count++;
        else if (!whole->count && ++whole->tries == NS_WHOLE_TRIES)
            whole->step = NS_WHOLE_OFF;
    }
}

#endif
