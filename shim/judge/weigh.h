/* SPDX-License-Identifier: MIT */
/* Evidence that only many stalls give: do their answers follow the release, or the begin of the
 * request? By chance a peer that works for about 40 ms also answers soon after the release. Pure;
 * nothing blocks, allocates or fails. */
#ifndef NS_WEIGH_H
#define NS_WEIGH_H

#include <stdbool.h>
#include <stdint.h>

enum { NS_WEIGH_BLOCK = 16, NS_WEIGH_PLACES = 32 /* parts of a tick */ };

/* All zero at first. */
struct ns_weigh {
    struct {
        uint32_t length_us, place_us; /* of the wait; of its end within the tick */
    } answers[NS_WEIGH_BLOCK];
    uint32_t n, blocks, unlike;
    uint32_t lags, slow, placed;
    uint16_t places[NS_WEIGH_PLACES]; /* answers that may have come at this place of the tick */
    uint32_t all;
    double lag_ns, since_ns;
};

/* A wait whose end is known exactly: it took length ns and ended at time at, since ns after the
 * release (exact to a tick). Held bytes are sent on a tick, and their answer comes shortly after
 * it. An answer to the first bytes comes at any place within the tick, but always the same time
 * after the write. */
struct ns_weigh_answer {
    uint64_t at, length, since;
};
void ns_weigh_answer(struct ns_weigh *weigh, const struct ns_weigh_answer *answer,
                     uint64_t tick_ns);

/* Seen from outside: an answer came between low and high, about ns after the release. slow: too
 * late after it for a certain stall. */
struct ns_weigh_lag {
    uint64_t low, high;
    double ns;
    bool slow;
};
void ns_weigh_lag(struct ns_weigh *weigh, const struct ns_weigh_lag *lag, uint64_t tick_ns);

/* Do the answers seem independent of the release? most_ns: how long an answer may take after it. */
bool ns_weigh_doubts(const struct ns_weigh *weigh, uint64_t tick_ns, uint64_t most_ns);

#endif
