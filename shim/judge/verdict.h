/* SPDX-License-Identifier: MIT */
/* What the judge finds of a connection, and the sums of it: counted as it is found, graded when it
 * is asked for. Pure; nothing blocks, allocates or fails. Not async-signal-safe. */
#ifndef NS_VERDICT_H
#define NS_VERDICT_H

#include "judge/look.h"

#include <stdbool.h>

/* In the order of how much is claimed, but for CANNOT_TELL. */
enum ns_grade {
    NS_GRADE_CANNOT_TELL, /* see enum ns_doubt */
    NS_GRADE_NONE,
    NS_GRADE_LATE,   /* late, but nobody waited: bytes were held, and no answer depended on them */
    NS_GRADE_LIKELY, /* signs, and no proof: the peer seems to be held by our late ACK, or bytes
                        were held and their answers took as long after the release as others take */
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
    bool by_ack;         /* released when an ACK came; otherwise by a timer of the kernel's */
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
    uint64_t late_acks;   /* stalls that lasted longer than a round trip: the peer's ACK was late */
    uint64_t maybe;       /* holds before an answer that came later than the release explains */
    uint64_t late;        /* holds that nobody waited for */
    uint64_t early;       /* of these, before whose release the peer spoke all the same */
    uint64_t unprovable;  /* what would be a hold, had the kernel told all that proves it */
    uint64_t answered_ns; /* from release to answer: of the stalls, and of those that may be */
    uint64_t held_waits_ns; /* in waits with a hold */
    uint64_t free;          /* waits for answers before which nothing was held */
    uint64_t free_ns;       /* in these */
    uint64_t certain_ns;    /* lost for certain: by the stalls */
    uint64_t most_ns;       /* lost at most: by the stalls and by those that may be */
    uint64_t watched_ns;    /* from the first look to the last */
    uint64_t waited_ns;     /* in waits for answers; from outside: 0 */
    uint64_t shortest_ns, longest_ns, held_ns; /* of the stalls; held_ns: their sum */
    uint64_t receiving;    /* answers of the peer that our late ACK seems to have held back */
    uint64_t receiving_ns; /* what they cost at most */
    uint64_t causes[NS_CAUSE_COUNT], causes_ns[NS_CAUSE_COUNT]; /* what else: how often, how long */
    uint64_t segments;                                          /* sent meanwhile */
    uint64_t calls;    /* writes and reads of the program; from outside: 0 */
    bool asks;         /* seen from inside, and no server, whose waits are for the next request */
    uint32_t rtt_us;   /* the smallest known; 0: not known */
    uint32_t slack_ns; /* of one hold, the largest */
    struct ns_hold proof; /* the stall, else what may be one, whose times are known best; end 0:
                             there is none */
    /* How many waits took from 2^n to 2^(n+1) microseconds: all, and those with a hold. */
    uint32_t waits[NS_VERDICT_BUCKETS], held_waits[NS_VERDICT_BUCKETS];
};

/* Add what was found of one connection to that of a group of them. */
void ns_verdict_add(struct ns_verdict *sum, const struct ns_verdict *one);

/* "proven", "likely", "late but nobody waited", "none", "cannot tell". */
const char *ns_grade_name(enum ns_grade grade);

/* The rest is for the judge. */

/* A hold that was waited for, certain or not, and how long after it the answer came. */
void ns_verdict_stall(struct ns_verdict *verdict, const struct ns_hold *hold, uint64_t since,
                      uint64_t tick_ns);

/* A wait for an answer. */
void ns_verdict_wait(struct ns_verdict *verdict, uint64_t ns, bool held);

/* Something else took so long. The peer's time is the wire's if it is no longer than a round trip.
 */
void ns_verdict_cause(struct ns_verdict *verdict, enum ns_cause cause, uint64_t ns);

/* Waits for answers in which nothing was unsent, as ns_judge_waits takes them. Those below least_ns
 * were not long. */
void ns_verdict_waits(struct ns_verdict *verdict, const uint32_t buckets[NS_VERDICT_BUCKETS],
                      uint64_t waited_ns, uint64_t least_ns);

/* Parts of answers, as ns_judge_parts takes them. After the arrivals. */
void ns_verdict_parts(struct ns_verdict *verdict, uint64_t n, uint64_t ns);

/* Arrivals, as ns_judge_arrivals takes them. */
void ns_verdict_arrivals(struct ns_verdict *verdict, const uint32_t phases[NS_PHASES],
                         uint64_t waited_ns, uint64_t tick_ns);

/* The stalls may be none. */
void ns_verdict_doubt(struct ns_verdict *verdict);

/* Set grade and doubt by what has been counted, taking back what the whole of it speaks against. */
void ns_verdict_grade(struct ns_verdict *verdict);

/* A round trip, and a quarter of one for its variation, in ns. */
uint64_t ns_verdict_trip(const struct ns_verdict *verdict);

#endif
