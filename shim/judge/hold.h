/* SPDX-License-Identifier: MIT */
/* The meaning of a single sample: does Nagle's algorithm hold bytes, and if not, why are bytes
 * unsent? Pure. */
#ifndef NS_HOLD_H
#define NS_HOLD_H

#include "judge/verdict.h"

enum ns_held {
    NS_HELD_NOT,
    NS_HELD_UNPROVABLE, /* everything fits, but the kernel does not report the window */
    NS_HELD_BY_NAGLE,
};

/* before: the sample before, to see what was retransmitted since; NULL: none. */
enum ns_held ns_hold_at(const struct ns_look *look, const struct ns_look *before);

/* Could pacing explain that bytes stay unsent for so long? */
bool ns_hold_is_paced(const struct ns_look *look, uint64_t held_ns);

/* Why nothing is sent at this sample, if Nagle's algorithm holds nothing. */
enum ns_delay ns_hold_delay(const struct ns_look *look, const struct ns_look *before);

#endif
