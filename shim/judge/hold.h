/* SPDX-License-Identifier: MIT */
/* What one look says by itself: is this a hold by Nagle's algorithm, and if bytes wait for another
 * reason, for which. Pure. */
#ifndef NS_HOLD_H
#define NS_HOLD_H

#include "judge/verdict.h"

enum ns_held {
    NS_HELD_NOT,
    NS_HELD_UNPROVABLE, /* all that this kernel tells fits, and it does not tell the window */
    NS_HELD_BY_NAGLE,
};

/* before: the look before, for what has been retransmitted since; NULL: there is none. */
enum ns_held ns_hold_at(const struct ns_look *look, const struct ns_look *before);

/* Bytes that are sent and not acknowledged: exact but for the SYN, which may count as one more. */
uint64_t ns_hold_in_flight(const struct ns_look *look);

/* Could pacing explain that what is unsent waits for so long? */
bool ns_hold_is_paced(const struct ns_look *look, uint64_t held_ns);

/* Why the connection stands still at this look, if it is not held. */
enum ns_cause ns_hold_cause(const struct ns_look *look, const struct ns_look *before);

#endif
