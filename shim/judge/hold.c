/* SPDX-License-Identifier: MIT */
/* See judge.h. Each condition of the proof has a case in tests/unit/test_judge.c. */
#include "judge/judge.h"

#include <netinet/tcp.h>

/* The kernel's estimate of the rate changes during a hold, and a piece is paced as a whole. */
#define PACING_SLACK 2.0

/* Bytes that are sent and not acknowledged. Exact, except that a SYN may count as one more. */
static uint64_t in_flight(const struct ns_look *look)
{
    uint64_t most = (uint64_t)look->unacked * look->mss;
    uint64_t known = look->sent + 1 > look->acked ? look->sent + 1 - look->acked : 0;
    return known > 0 && known < most ? known : most;
}

bool ns_hold_is_paced(const struct ns_look *look, uint64_t held_ns)
{
    if (look->pacing == 0) /* not reported; without a limit it is UINT64_MAX */
        return false;
    double seconds = (double)in_flight(look) / (double)look->pacing;
    return (double)held_ns < PACING_SLACK * seconds * 1e9;
}

enum ns_delay ns_hold_why(const struct ns_look *look, const struct ns_look *before)
{
    bool knows_window = look->flags & NS_LOOK_KNOWS_WINDOW;
    /* The window first: a probe of a full window looks like a loss. */
    if (look->unsent > 0 && knows_window && in_flight(look) + look->unsent > look->window)
        return NS_DELAY_WINDOW;
    if (look->congestion || look->probes || look->backoff ||
        (before && look->retransmitted != before->retransmitted))
        return NS_DELAY_LOSS;
    if (look->unsent == 0)
        return NS_DELAY_PEER;
    if (look->flags & NS_LOOK_CORK)
        return NS_DELAY_CORK;
    /* Without segments in flight, there is no ACK that Nagle's algorithm could wait for. */
    if (look->state == TCP_ESTABLISHED && !(look->flags & NS_LOOK_NODELAY) &&
        look->unsent < look->mss && look->unacked > 0 && look->unacked < look->cwnd)
        return knows_window ? NS_DELAY_NAGLE : NS_DELAY_UNPROVABLE;
    if (look->unacked > 0 || look->unsent >= look->mss)
        return NS_DELAY_PACING;
    /* Nothing is in flight. A single sample may show bytes that are just about to be sent. */
    bool stays = before && before->sent == look->sent && before->unsent == look->unsent &&
                 before->unacked == 0;
    if (!stays || look->kind != NS_LOOK_SAMPLE)
        return NS_DELAY_PEER;
    /* After a loss, Linux (seen on 6.18) may leave bytes unsent until its timer for probes sends
     * them. */
    return look->retransmitted ? NS_DELAY_PACING : NS_DELAY_CORK;
}
