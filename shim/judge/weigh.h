/* SPDX-License-Identifier: MIT */
/* Evidence that only many stalls give: do their answers keep to the release, or to when the request
 * was begun? A peer that thinks for about as long as a delayed ACK takes answers soon after the
 * release, too, by chance. Pure; nothing blocks, allocates or fails. */
#ifndef NS_WEIGH_H
#define NS_WEIGH_H

#include <stdbool.h>
#include <stdint.h>

enum { NS_WEIGH_BLOCK = 16 };

/* All zero is the beginning. */
struct ns_weigh {
    struct {
        uint32_t length_us; /* of the wait */
        float phase;        /* when the answer came: the part of the tick, 0 to 1 */
    } answers[NS_WEIGH_BLOCK];
    uint32_t n, blocks, unlike;
    uint32_t lags;
    double lag_ns;
};

/* A wait whose end is known exactly: it took length ns and ended at. The bytes leave on a tick, and
 * their answer comes shortly after it; what the peer began earlier comes anywhere within the tick,
 * but always so long after the writing. */
void ns_weigh_answer(struct ns_weigh *weigh, uint64_t at, uint64_t length, uint64_t tick_ns);

/* From outside, an answer that came so long after the release, in the middle of what the looks
 * leave open. */
void ns_weigh_lag(struct ns_weigh *weigh, double ns);

/* Do the answers seem not to depend on the release? most_ns: what one may take. */
bool ns_weigh_doubts(const struct ns_weigh *weigh, uint64_t tick_ns, uint64_t most_ns);

#endif
