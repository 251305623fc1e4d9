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

#include "conn/look.h"

#include <stdbool.h>
#include <stddef.h>

/* In the order of how much is claimed, but for CANNOT_TELL. */
enum ns_grade {
    NS_GRADE_CANNOT_TELL, /* see enum ns_doubt */
    NS_GRADE_NONE,
    NS_GRADE_LATE,   /* late, but nobody waited: bytes were held, and no answer depended on them */
    NS_GRADE_LIKELY, /* signs, and no proof: the peer seems to be held by our late ACK */
    NS_GRADE_PROVEN,
};

/* What else made a wait long, or held bytes. */
enum ns_cause {
    NS_CAUSE_PEER,   /* nothing was unsent: the peer, or what it waits for, took its time */
    NS_CAUSE_WINDOW, /* the peer's window was shut: it does not read */
    NS_CAUSE_LOSS,   /* segments were lost and sent again */
    NS_CAUSE_WIRE,   /* no longer than the round trip */
    NS_CAUSE_CORK,   /* the program's own TCP_CORK or MSG_MORE, until the kernel's 200 ms */
    NS_CAUSE_PACING, /* congestion control or pacing had its reasons */
    NS_CAUSE_COUNT
};

enum ns_doubt {
    NS_DOUBT_NOTHING,
    NS_DOUBT_NO_LOOKS,  /* too few, or none while data was on its way */
    NS_DOUBT_NO_UNSENT, /* a kernel without tcpi_notsent_bytes */
    NS_DOUBT_NO_WINDOW, /* a kernel without tcpi_snd_wnd: a shut window looks the same */
    NS_DOUBT_ANSWERS,   /* bytes were held, and their answers came later than the release explains:
                           whether they would have come sooner only the experiment tells */
};

/* A hold, from the look that first saw it to its release. */
struct ns_hold {
    uint64_t begin, end; /* CLOCK_MONOTONIC ns; end: when the bytes left */
    uint64_t cost;       /* ns that the program lost */
    uint32_t slack;      /* ns: begin and end may be wrong by so much each */
    bool waited;         /* the program waited for an answer that came after it */
    bool certain; /* the answer followed the release so closely that nothing else took the time;
                     otherwise cost is what was lost at most */
    struct ns_look look; /* that proves it */
};

enum { NS_VERDICT_BUCKETS = 32, NS_PHASES = 16 };

struct ns_verdict {
    enum ns_grade grade;
    enum ns_doubt doubt; /* why, for CANNOT_TELL */
    uint64_t looks;
    uint64_t requests; /* answers that followed something written; from outside at least so many */
    uint64_t stalls; /* holds that the program waited for, and whose answer followed the release */
    uint64_t late_acks;  /* stalls that lasted longer than a round trip: the peer's ACK was late */
    uint64_t maybe;      /* holds before an answer that came later than the release explains */
    uint64_t late;       /* holds that nobody waited for */
    uint64_t unprovable; /* what would be a hold, had the kernel told all that proves it */
    uint64_t certain_ns; /* lost for certain: by the stalls */
    uint64_t most_ns;    /* lost at most: by the stalls and by those that may be */
    uint64_t watched_ns; /* from the first look to the last */
    uint64_t waited_ns;  /* in waits for answers; from outside: 0 */
    uint64_t shortest_ns, longest_ns, held_ns; /* of the stalls; held_ns: their sum */
    uint64_t receiving;    /* answers of the peer that our late ACK seems to have held back */
    uint64_t receiving_ns; /* what they cost at most */
    uint64_t causes[NS_CAUSE_COUNT], causes_ns[NS_CAUSE_COUNT]; /* what else: how often, how long */
    uint64_t segments;                                          /* sent meanwhile */
    uint32_t rtt_us;      /* the smallest known; 0: not known */
    uint32_t slack_ns;    /* of one hold, the largest */
    struct ns_hold proof; /* the first stall, else the first that may be; end 0: there is none */
    /* How many waits took from 2^n to 2^(n+1) microseconds: all, and those with a hold. */
    uint32_t waits[NS_VERDICT_BUCKETS], held_waits[NS_VERDICT_BUCKETS];
};

/* Unit vectors of times within the tick, added up: how much the times concentrate. */
struct ns_judge_circle {
    double x, y;
};

/* What is kept of one connection. All zero is the beginning. */
struct ns_judge {
    struct ns_verdict verdict;       /* not to be read but by ns_judge_verdict */
    struct ns_look last, held, wait; /* the last of all; the last with the hold; the wait */
    struct ns_hold hold;             /* that is seen, or that has ended and is not judged yet */
    uint64_t tick_ns, first_at;
    uint64_t busy_ns, paused_at; /* while it was held the program did something else so long */
    uint64_t released_low, unanswered_at;
    uint64_t stuck_at;
    uint32_t seen;  /* looks with the hold */
    uint32_t tried; /* stalls whose answer's time within the tick is in the circles */
    struct ns_judge_circle answers, lengths;
    double lag_ns;
    uint32_t lags;
    uint8_t state, syn, stuck;
    bool spoke, answered_early;
};

/* tick_ns: clock_getres(CLOCK_MONOTONIC_COARSE), the kernel's tick. */
void ns_judge_begin(struct ns_judge *judge, uint64_t tick_ns);

/* The next look, in the order of time. If a hold has ended by it, *hold is filled and true is
 * returned. */
bool ns_judge_look(struct ns_judge *judge, const struct ns_look *look, struct ns_hold *hold);

/* From inside, where waits without anything unsent leave no look: so many of them, and how long
 * they took by powers of two of microseconds. */
void ns_judge_waits(struct ns_judge *judge, const uint32_t buckets[NS_VERDICT_BUCKETS]);

/* From inside: waits of 30 ms or more, before which this end had received data and not answered, so
 * that it owed an ACK, and which ended with further data that it then answered: when that came, in
 * sixteenths of the tick since the tick (CLOCK_MONOTONIC less CLOCK_MONOTONIC_COARSE), how many
 * in each; waited_ns: how long they were, all together. Our late ACK leaves on our tick, so what
 * it has set free comes a round trip after one. */
void ns_judge_arrivals(struct ns_judge *judge, const uint32_t phases[NS_PHASES],
                       uint64_t waited_ns);

/* What can be said by now. May be called again after further looks. */
void ns_judge_verdict(const struct ns_judge *judge, struct ns_verdict *verdict);

/* Add what was found of one connection to that of a group of them. */
void ns_verdict_add(struct ns_verdict *sum, const struct ns_verdict *one);

/* "proven", "likely", "late but nobody waited", "none", "cannot tell". */
const char *ns_grade_name(enum ns_grade grade);

#endif
