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

#include <stdbool.h>
#include <stdint.h>

/* --- hold.c: the meaning of a single sample. Pure. */

/* Why is nothing sent at this sample? before: the sample before, to see what was retransmitted
 * since; NULL: none. */
enum ns_delay ns_hold_why(const struct ns_look *look, const struct ns_look *before);

/* Could pacing explain that bytes stay unsent for so long? */
bool ns_hold_is_paced(const struct ns_look *look, uint64_t held_ns);

/* --- weigh.c: evidence that only many stalls give: do their answers follow the release, or the
 * begin of the request? By chance a peer that works for about 40 ms also answers soon after the
 * release. Pure; nothing blocks, allocates or fails. */

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

/* --- judge.c: the state of a connection ------------------------------------------------------ */

/* The state of a connection, or of successive ones. Initialised by ns_judge_begin. Others may
 * read last, which is the last sample. */
struct ns_judge {
    struct ns_verdict verdict;
    struct ns_look last, held, wait; /* last of all; last with the hold; first of the wait; at 0:
                                      * none of this connection */
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
    uint8_t state, stuck;
    bool spoke, answered_early;
};

/* tick_ns: clock_getres(CLOCK_MONOTONIC_COARSE), the kernel's tick. */
void ns_judge_begin(struct ns_judge *judge, uint64_t tick_ns);

/* The next sample, in order of time. Returns true and fills *hold if a hold has ended. */
bool ns_judge_look(struct ns_judge *judge, const struct ns_look *look, struct ns_hold *hold);

/* The next sample is of another connection. */
void ns_judge_next(struct ns_judge *judge);

/* The verdict so far. More samples may follow. */
void ns_judge_verdict(const struct ns_judge *judge, struct ns_verdict *verdict);

#endif
