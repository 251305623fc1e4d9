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

#include "judge/look.h"

#include <stdbool.h>
#include <stdint.h>

/* No delayed ACK leaves sooner: the kernel's TCP_DELACK_MIN, less a tick. Its adaptive delay seldom
 * exceeds twice that. */
enum { NS_DELAYED_ACK_LEAST_MS = 36, NS_DELAYED_ACK_MOST_MS = 80 };

/* --- verdict.c: what the judge has counted on one connection, sums of such counts, and the
 * conclusion drawn from them. The conclusion is drawn here and nowhere else: text, JSON, page and
 * policy print it. */

enum { NS_LATE_STEPS = 64, NS_LATE_STEP_MS = 2 };

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

/* A hold of the oldest byte that is not sent, whatever is written later, from the sample that first
 * saw it to its release. */
struct ns_hold {
    uint64_t begin, end; /* CLOCK_MONOTONIC ns; end: when the bytes were sent */
    uint64_t cost;       /* ns that the program lost: since the last write, at most */
    uint64_t answered;   /* ns from the release to the answer; 0: unknown, or at once */
    uint32_t slack;      /* ns: possible error of begin and of end */
    bool by_ack;         /* an ACK released it, and not a timer of the kernel */
    bool waited;         /* the program waited for an answer, which came after the release */
    bool certain;        /* the answer followed the release so closely that nothing else took the
                            time; otherwise cost is an upper bound */
    struct ns_look look; /* the sample that proves it */
};

/* Sums over connections: */
#define NS_VERDICT_SUMS(X)                                                                         \
    X(looks)         /* samples */                                                                 \
    X(requests)      /* answers after a write; from outside a lower bound */                       \
    X(stalls)        /* certain holds */                                                           \
    X(late_acks)     /* stalls whose ACK was as late as a delayed one is */                        \
    X(maybe)         /* holds whose answer came later than the release explains */                 \
    X(early)         /* those of them during which answers to earlier bytes came */                \
    X(late)          /* holds for which nobody waited */                                           \
    X(late_ns)       /* length of these */                                                         \
    X(unprovable)    /* holds for whose proof the kernel reported too little */                    \
    X(answered_ns)   /* from release to answer, of stalls and maybe */                             \
    X(prompt_ns)     /* of the stalls alone */                                                     \
    X(held_waits_ns) /* length of waits with a hold */                                             \
    X(free)          /* waits for answers without a hold */                                        \
    X(free_ns)       /* length of these */                                                         \
    X(certain_ns)    /* lost by the stalls */                                                      \
    X(most_ns)       /* upper bound: lost by stalls and maybe */                                   \
    X(waited_ns)     /* in waits for answers; from outside 0 */                                    \
    X(delivered)     /* holds after which the other end, which reads, got data */                  \
    X(receiving)     /* answers that this end's delayed ACK seems to have delayed */               \
    X(receiving_ns)  /* upper bound: what these cost */                                            \
    X(lone_acks)     /* from outside: data before which a delayed ACK of this end left */          \
    X(gaps)          /* those that came about one round trip after it */                           \
    X(gaps_ns)       /* how long after earlier data */                                             \
    X(segments)      /* sent meanwhile */                                                          \
    X(calls)         /* writes and reads of the program; from outside 0 */

struct ns_verdict {
    enum ns_grade grade;
    enum ns_doubt doubt; /* the reason for CANNOT_TELL */
    /* Sums over connections: */
#define NS_MEMBER(name) uint64_t name;
    NS_VERDICT_SUMS(NS_MEMBER)
#undef NS_MEMBER
    uint64_t delays[NS_DELAY_COUNT], delays_ns[NS_DELAY_COUNT];
    /* The extremes: */
    uint64_t watched_ns;              /* from the first sample to the last */
    uint64_t shortest_ns, longest_ns; /* of the stalls */
    bool asks;            /* seen from inside, and not a server, which waits for requests */
    uint32_t rtt_us;      /* smallest known; 0: unknown */
    uint32_t slack_ns;    /* largest slack of a hold */
    struct ns_hold proof; /* a stall (or maybe) of about their mean length; end 0: none */
    /* Waits that took 2^n to 2^(n+1) microseconds: all, and those with a hold. */
    uint32_t waits[NS_WAIT_BUCKETS], held_waits[NS_WAIT_BUCKETS];
    /* From outside: how many writes left how late, in steps of NS_LATE_STEP_MS. */
    uint32_t lateness[NS_LATE_STEPS];
};

/* Add the counts of one connection to those of a group, and grade the sum. */
void ns_verdict_add(struct ns_verdict *sum, const struct ns_verdict *one);

/* In how many ms had this part (0 to 1) of the writes left? Exact to a step; 0 if none were seen.
 */
double ns_verdict_lateness(const struct ns_verdict *verdict, double part);

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

/* The other end waited for so long in all. Holds that were seen from outside and lasted only a
 * small part of that may have delayed it by chance. */
void ns_verdict_outweigh(struct ns_verdict *verdict, uint64_t waited_ns);

/* The peer was watched and held so many times, for so long in all: no more than that waited for our
 * ACKs. The rest is a delay of the peer. */
void ns_verdict_bound_receiving(struct ns_verdict *verdict, uint64_t held, uint64_t held_ns);

/* These are all samples of a row. Beside many waits that took long without a hold, three stalls or
 * fewer may be chance: data that nobody has asked for came soon after the release. */
void ns_verdict_doubt_few(struct ns_verdict *verdict);

/* It is known that the peer does not wait for our ACKs. */
void ns_verdict_clear_gaps(struct ns_verdict *verdict);

/* Both ends were watched. If this one held bytes about as often as data reached the other behind a
 * delayed ACK of that end, and for as long, then a program that only reads waits for the hold. One
 * that was seen from inside to wait for that data may answer, too. */
void ns_verdict_meet(struct ns_verdict *verdict, const struct ns_verdict *reader);

/* Did the first end hold bytes, and for so long that this explains how long the data took that came
 * to the other end behind its delayed ACKs? */
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
void ns_verdict_stall(struct ns_verdict *verdict, const struct ns_hold *hold, uint64_t since);

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

enum { NS_JUDGE_WRITES = 24 };

/* The state of a connection, or of successive ones. Initialised by ns_judge_begin. Others may
 * read last, which is the last sample. */
struct ns_judge {
    struct ns_verdict verdict;
    struct ns_look last, held, wait; /* last of all; last with the hold; first of the wait; at 0:
                                      * none of this connection */
    struct ns_hold hold;             /* present, or released and not yet judged by its answer */
    uint64_t tick_ns, first_at;
    uint64_t busy_ns, paused_at;       /* how long the program did not wait during the hold */
    uint64_t wrote_at;                 /* the last write of the hold; until then it did not wait */
    uint64_t written[NS_JUDGE_WRITES]; /* when its writes were made, as far as they were seen */
    uint32_t n_written;
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

/* Would samples that are closer together show more? Held bytes may be released at any moment, once
 * the shortest delayed ACK may have come, and then their answer comes. */
bool ns_judge_is_close(const struct ns_judge *judge);

/* The next sample is of another connection. */
void ns_judge_next(struct ns_judge *judge);

/* The verdict so far. More samples may follow. */
void ns_judge_verdict(const struct ns_judge *judge, struct ns_verdict *verdict);

/* The verdict on what was seen since the last call, but with all samples as looks. */
void ns_judge_take(struct ns_judge *judge, struct ns_verdict *verdict);

#endif
