/* SPDX-License-Identifier: MIT */
/* The judge: a sequence of looks at a connection in, a verdict out. Pure: it asks no kernel, knows
 * no socket and no clock, so that unit tests and a fuzzer can give it any sequence. Nothing here
 * blocks, allocates or fails. Not async-signal-safe.
 *
 * What is called a stall: bytes that could leave (the window and the congestion window are open,
 * nothing is being retransmitted or paced), that are less than a segment, that wait because earlier
 * bytes are not acknowledged yet, with TCP_NODELAY and TCP_CORK off, while the program waits for an
 * answer, which comes at once when they have left. That is Nagle's algorithm (RFC 896), and the
 * peer's delayed ACK ends it. */
#ifndef NS_JUDGE_H
#define NS_JUDGE_H

#include "judge/verdict.h"
#include "judge/weigh.h"

/* What is kept of one connection. All zero is the beginning. Only the judge's own files look into
 * it. */
struct ns_judge {
    struct ns_verdict verdict;
    struct ns_look last, held, wait; /* the last of all; the last with the hold; the wait's first */
    struct ns_hold hold; /* that is there, or has ended and waits for an answer to be judged by */
    uint64_t tick_ns, first_at;
    uint64_t busy_ns, paused_at;          /* while it was held the program did not wait so long */
    uint64_t released_low, released_high; /* between these the bytes left */
    uint64_t unanswered_at;               /* by then there was no answer; 0: not looked */
    uint64_t stuck_at;                    /* from outside: since then nothing was sent or came */
    int64_t ahead;                        /* acked counts so much more than sent: the SYN */
    struct ns_weigh weigh;
    uint32_t seen; /* looks with the hold */
    uint32_t first_segments;
    uint8_t state, stuck;
    bool outstanding; /* there is a hold that has ended and is not judged */
    bool spoke, answered_early;
};

/* tick_ns: clock_getres(CLOCK_MONOTONIC_COARSE), the kernel's tick. */
void ns_judge_begin(struct ns_judge *judge, uint64_t tick_ns);

/* The next look, in the order of time. If a hold has ended by it, *hold is filled and true is
 * returned. */
bool ns_judge_look(struct ns_judge *judge, const struct ns_look *look, struct ns_hold *hold);

/* From inside, where waits without anything unsent leave no look: so many of them, how long they
 * took by powers of two of microseconds, and all together. */
void ns_judge_waits(struct ns_judge *judge, const uint32_t buckets[NS_VERDICT_BUCKETS],
                    uint64_t waited_ns);

/* From inside: waits of 30 ms or more, before which this end had received data and not answered, so
 * that it owed an ACK, and which ended with further data, after which it answered before it waited
 * again: in which sixteenth of the tick that data came, how many in each; waited_ns: how long those
 * waits were, all together. The sixteenth is that of (CLOCK_MONOTONIC less CLOCK_MONOTONIC_COARSE)
 * modulo the tick: an idle kernel leaves the coarse clock several ticks behind. Our late ACK leaves
 * on our tick, so what it has set free comes a round trip after one. */
void ns_judge_arrivals(struct ns_judge *judge, const uint32_t phases[NS_PHASES],
                       uint64_t waited_ns);

/* From inside, for a client: further data that came late, with nothing written after the data
 * before it: how often, and how long it took, all together. After the arrivals. */
void ns_judge_parts(struct ns_judge *judge, uint64_t n, uint64_t ns);

/* What can be said by now. May be called again after further looks. */
void ns_judge_verdict(const struct ns_judge *judge, struct ns_verdict *verdict);

#endif
