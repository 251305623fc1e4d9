/* SPDX-License-Identifier: MIT */
/* Evidence that only many stalls give: do their answers keep to the release, or to when the request
 * was begun? A peer that thinks for about as long as a delayed ACK takes answers soon after the
 * release, too, by chance. Pure; nothing blocks, allocates or fails. */
#ifndef NS_WEIGH_H
#define NS_WEIGH_H

#include <stdbool.h>
#include <stdint.h>

/* Parts of a tick in which answers are counted. */
enum { NS_WEIGH_BLOCK = 16, NS_WEIGH_PLACES = 32 };

/* All zero is the beginning. */
struct ns_weigh {
    struct {
        uint32_t length_us, place_us; /* of the wait; of its end within the tick */
    } answers[NS_WEIGH_BLOCK];
    uint32_t n, blocks, unlike;
    uint32_t lags, slow, placed;
    uint16_t places[NS_WEIGH_PLACES]; /* how many answers may have come there */
    uint32_t all;
    double lag_ns, since_ns;
};

/* A wait whose end is known exactly: it took length ns and ended at, since ns after the release, to
 * a tick. The bytes leave on a tick, and their answer comes shortly after it; what the peer began
 * earlier comes anywhere within the tick, but always so long after the writing. */
struct ns_weigh_answer {
    uint64_t at, length, since;
};
void ns_weigh_answer(struct ns_weigh *weigh, const struct ns_weigh_answer *answer,
                     uint64_t tick_ns);

/* From outside, an answer that came after low and not after high, and so long after the release, in
 * the middle of what the looks leave open; slow: too long after it to be certain. */
struct ns_weigh_lag {
    uint64_t low, high;
    double ns;
    bool slow;
};
void ns_weigh_lag(struct ns_weigh *weigh, const struct ns_weigh_lag *lag, uint64_t tick_ns);

/* Do the answers seem not to depend on the release? most_ns: what one may take. */
bool ns_weigh_doubts(const struct ns_weigh *weigh, uint64_t tick_ns, uint64_t most_ns);

#endif
