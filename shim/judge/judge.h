/* SPDX-License-Identifier: MIT */
/* Turns samples of a connection into a verdict. Pure: it uses no kernel, sockets or clocks, so that
 * unit tests and a fuzzer can feed it any sequence. Nothing here blocks, allocates or fails. Not
 * async-signal-safe.
 *
 * A stall is a hold by Nagle's algorithm (RFC 896) for which the program waits. Bytes are unsent
 * although the window and the congestion window are open and nothing is retransmitted or paced.
 * They are less than a segment and wait because earlier bytes are not acknowledged, with
 * TCP_NODELAY and TCP_CORK off. Meanwhile the program waits for an answer, which comes at once when
 * the bytes have been sent. The peer's delayed ACK ends the hold. */
#ifndef NS_JUDGE_H
#define NS_JUDGE_H

#include "judge/verdict.h"
#include "judge/weigh.h"

/* The state of one connection. Initialised by ns_judge_begin; private to the judge. */
struct ns_judge {
    struct ns_verdict verdict;
    struct ns_look last, held, wait; /* last of all; last with the hold; first of the wait */
    struct ns_hold hold;             /* present, or released and not yet judged by its answer */
    uint64_t tick_ns, first_at;
    uint64_t busy_ns, paused_at;          /* how long the program did not wait during the hold */
    uint64_t released_low, released_high; /* the bytes were sent between these times */
    uint64_t unanswered_at;               /* until then no answer had come; 0: not sampled */
    uint64_t stuck_at;                    /* from outside: since then nothing was sent or came */
    uint64_t came_at;                     /* the last data came after this time */
    uint64_t lone_low, lone_high; /* then a delayed ACK left, between these times; 0: none */
    int64_t ahead;                /* acked - sent: acked counts the SYN */
    struct ns_weigh weigh;
    uint32_t seen; /* samples with the hold */
    uint32_t first_segments;
    uint8_t state, stuck;
    bool spoke, answered_early;
};

/* tick_ns: clock_getres(CLOCK_MONOTONIC_COARSE), the kernel's tick. */
void ns_judge_begin(struct ns_judge *judge, uint64_t tick_ns);

/* The next sample, in order of time. Returns true and fills *hold if a hold has ended. */
bool ns_judge_look(struct ns_judge *judge, const struct ns_look *look, struct ns_hold *hold);

/* The verdict so far. More samples may follow. */
void ns_judge_verdict(const struct ns_judge *judge, struct ns_verdict *verdict);

#endif
