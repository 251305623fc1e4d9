/* SPDX-License-Identifier: MIT */
/* What the judge has counted on one connection, sums of such counts, and the conclusion drawn from
 * them. The conclusion is drawn here and nowhere else: text, JSON, page and policy print it.
 * Pure; nothing blocks, allocates or fails. Not async-signal-safe. */
#ifndef NS_VERDICT_H
#define NS_VERDICT_H

#include "judge/look.h"

#include <stdbool.h>

/* From the weakest claim to the strongest; CANNOT_TELL claims nothing. */
enum ns_grade {
    NS_GRADE_CANNOT_TELL, /* see enum ns_doubt */
    NS_GRADE_NONE,
    NS_GRADE_LATE,   /* bytes were held, but no answer depended on them */
    NS_GRADE_LIKELY, /* signs, but no proof: the peer seems to wait for this end's delayed ACK, or
                        bytes were held and their answers took as long after the release as others
                        take */
    NS_GRADE_PROVEN,
};

/* Other reasons why a wait took long or bytes stayed unsent. */
enum ns_delay {
    NS_DELAY_PEER,   /* nothing was unsent: the peer, or something that it waits for, was slow */
    NS_DELAY_WINDOW, /* the peer's receive window was full */
    NS_DELAY_LOSS,   /* segments were lost and retransmitted */
    NS_DELAY_WIRE,   /* no longer than the round trip */
    NS_DELAY_CORK,   /* the program's own TCP_CORK or MSG_MORE, for up to 200 ms */
    NS_DELAY_PACING, /* congestion control or pacing */
    NS_DELAY_COUNT,
    /* Only of a single sample: */
    NS_DELAY_NAGLE = NS_DELAY_COUNT, /* Nagle's algorithm holds bytes */
    NS_DELAY_UNPROVABLE, /* everything fits, but the kernel does not report the window */
};

enum ns_doubt {
    NS_DOUBT_NOTHING,
    NS_DOUBT_NO_LOOKS,  /* too few samples, or none while data was in flight */
    NS_DOUBT_NO_WINDOW, /* the kernel does not report tcpi_snd_wnd: a full window looks the same */
    NS_DOUBT_ANSWERS,   /* bytes were held, and answers came earlier or later than the release
                           explains */
    NS_DOUBT_PEER,      /* data came as if the peer had waited for this end's delayed ACK */
};

/* A hold, from the sample that first saw it to its release. */
struct ns_hold {
    uint64_t begin, end; /* CLOCK_MONOTONIC ns; end: when the bytes were sent */
    uint64_t cost;       /* ns that the program lost */
    uint64_t answered;   /* ns from the release to the answer; 0: unknown, or at once */
    uint32_t slack;      /* ns: possible error of begin and of end */
    bool by_ack;         /* an ACK released it, and not a timer of the kernel */
    bool waited;         /* the program waited for an answer, which came after the release */
    bool certain;        /* the answer followed the release so closely that nothing else took the
                            time; otherwise cost is an upper bound */
    struct ns_look look; /* the sample that proves it */
};

struct ns_verdict {
    enum ns_grade grade;
    enum ns_doubt doubt; /* the reason for CANNOT_TELL */
    /* Sums over connections, from looks to calls: */
    uint64_t looks;         /* samples */
    uint64_t requests;      /* answers after a write; from outside a lower bound */
    uint64_t stalls;        /* certain holds */
    uint64_t late_acks;     /* stalls longer than a round trip: the peer's ACK was late */
    uint64_t maybe;         /* holds whose answer came later than the release explains */
    uint64_t early;         /* those of them during which answers to earlier bytes came */
    uint64_t late;          /* holds for which nobody waited */
    uint64_t late_ns;       /* length of these */
    uint64_t unprovable;    /* holds for whose proof the kernel reported too little */
    uint64_t answered_ns;   /* from release to answer, of stalls and maybe */
    uint64_t prompt_ns;     /* of the stalls alone */
    uint64_t held_waits_ns; /* length of waits with a hold */
    uint64_t free;          /* waits for answers without a hold */
    uint64_t free_ns;       /* length of these */
    uint64_t certain_ns;    /* lost by the stalls */
    uint64_t most_ns;       /* upper bound: lost by stalls and maybe */
    uint64_t waited_ns;     /* in waits for answers; from outside 0 */
    uint64_t delivered;     /* holds after which the other end, which reads, got data: it was
                               sampled, too */
    uint64_t receiving;     /* answers that this end's delayed ACK seems to have delayed */
    uint64_t receiving_ns;  /* upper bound: what these cost */
    uint64_t lone_acks;     /* from outside: data before which a delayed ACK of this end left */
    uint64_t gaps;          /* those that came about one round trip after it */
    uint64_t gaps_ns;       /* how long after earlier data */
    uint64_t delays[NS_DELAY_COUNT], delays_ns[NS_DELAY_COUNT];
    uint64_t segments; /* sent meanwhile */
    uint64_t calls;    /* writes and reads of the program; from outside 0 */
    /* The extremes: */
    uint64_t watched_ns;              /* from the first sample to the last */
    uint64_t shortest_ns, longest_ns; /* of the stalls */
    bool asks;            /* seen from inside, and not a server, which waits for requests */
    uint32_t rtt_us;      /* smallest known; 0: unknown */
    uint32_t slack_ns;    /* largest slack of a hold */
    struct ns_hold proof; /* a stall (or maybe) of about their mean length; end 0: none */
    /* Waits that took 2^n to 2^(n+1) microseconds: all, and those with a hold. */
    uint32_t waits[NS_WAIT_BUCKETS], held_waits[NS_WAIT_BUCKETS];
};

/* Add the counts of one connection to those of a group, and grade the sum. */
void ns_verdict_add(struct ns_verdict *sum, const struct ns_verdict *one);

/* "proven", "likely", "late but nobody waited", "none", "cannot tell". */
const char *ns_grade_name(enum ns_grade grade);

/* An experiment: answer times after waits before which the library pushed (or acknowledged), and
 * after the other waits. */
struct ns_trial {
    enum ns_experiment what;
    size_t done, left;       /* waits with and without */
    double done_ms, left_ms; /* medians; 0 if there were none */
    double p;                /* probability that chance makes such a difference */
};

enum ns_effect {
    NS_EFFECT_UNKNOWN, /* too few waits */
    NS_EFFECT_CHANCE,  /* the difference may be chance */
    NS_EFFECT_NO_GAIN, /* it makes no difference: the hold or the ACK is not the delay */
    NS_EFFECT_FASTER,
    NS_EFFECT_SLOWER,
};
enum ns_effect ns_verdict_effect(const struct ns_trial *trial);

/* Correct the verdict by an experiment on these connections. Returns true if the experiment proves
 * the cure. */
bool ns_verdict_try(struct ns_verdict *verdict, const struct ns_trial *trial);

/* The peer was seen to hold nothing for which it waited: our ACKs delay nothing. */
void ns_verdict_clear_receiving(struct ns_verdict *verdict);

/* Both ends were watched. If this one held bytes about as often as data reached the other behind a
 * delayed ACK of that end, and for as long, then a program that only reads waits for the hold. One
 * that was seen from inside to wait for that data may answer, too. */
void ns_verdict_meet(struct ns_verdict *verdict, const struct ns_verdict *reader);

/* Are the holds of the first end, of which there is one at least, many or long enough for the data
 * that came to the other end behind its delayed ACKs? */
bool ns_verdict_may_explain(const struct ns_verdict *holder, const struct ns_verdict *reader);

/* Everything that the reports say about a verdict. */
struct ns_conclusion {
    bool stalls;      /* proven or likely */
    bool holds;       /* this end holds the bytes; otherwise the peer does, until our ACK */
    bool certain;     /* lost_ms is a measurement, not an upper bound */
    uint64_t stalled; /* requests that stalled, or seem to have */
    double lost_ms;   /* by these */
};

/* cure: an experiment for which ns_verdict_try returned true, or NULL. */
struct ns_conclusion ns_verdict_conclude(const struct ns_verdict *verdict,
                                         const struct ns_trial *cure);

/* The functions below are for the judge. */

/* Count a hold for which the program waited; since: ns from its release to the answer. */
void ns_verdict_stall(struct ns_verdict *verdict, const struct ns_hold *hold, uint64_t since,
                      uint64_t tick_ns);

/* Count a wait for an answer. */
void ns_verdict_wait(struct ns_verdict *verdict, uint64_t ns, bool held);

/* Count n other delays, with their total length. Those of the peer that are no longer than a round
 * trip are the wire's. */
void ns_verdict_delay(struct ns_verdict *verdict, enum ns_delay delay, uint64_t n, uint64_t ns);

/* The three functions below add counts from inside to the verdict of a judge, before
 * ns_judge_verdict is called; in this order.
 *
 * Waits with nothing unsent leave no sample: their number by powers of two of microseconds, and
 * their total length. */
void ns_verdict_waits(struct ns_verdict *verdict, const uint32_t buckets[NS_WAIT_BUCKETS],
                      uint64_t waited_ns);

/* Evidence that this end's delayed ACK delays the peer. It consists of waits of at least 30 ms that
 * began with a pending ACK for the peer, ended with data, and were answered before the next wait.
 * phases[i] counts those whose data came in the i-th sixteenth of the tick; waited_ns is their
 * total length. A delayed ACK is sent on a tick of this kernel, so the data that it releases comes
 * a round trip after a tick. The phase is CLOCK_MONOTONIC modulo the tick. */
void ns_verdict_arrivals(struct ns_verdict *verdict, const uint32_t phases[NS_PHASES],
                         uint64_t waited_ns, uint64_t tick_ns);

/* For a client: parts of an answer that came late, with no write since the part before. Their
 * number and total length. */
void ns_verdict_parts(struct ns_verdict *verdict, uint64_t n, uint64_t ns);

/* Downgrade every stall from certain to possible. */
void ns_verdict_doubt(struct ns_verdict *verdict);

/* Set grade and doubt from the counts. Stalls that the other counts contradict become doubtful. */
void ns_verdict_grade(struct ns_verdict *verdict);

/* A round trip and a quarter of it for jitter, in ns. */
uint64_t ns_verdict_trip(const struct ns_verdict *verdict);

#endif
