/* SPDX-License-Identifier: MIT */
/* verdict.c and weigh.c: verdicts from many waits. */
#include "looks.h"
#include "unit.h"

/* n waits with a hold, seen from inside: hold is its length, after the time from the release to the
 * answer. */
static struct ns_verdict waits(int n, uint64_t (*hold)(int i), uint64_t (*after)(int i))
{
    struct talk talk;
    talk_begin(&talk);
    for (int i = 0; i < n; i++) {
        talk_write_twice(&talk);
        talk_look(&talk, NS_LOOK_WAIT, 0);
        talk_pass(&talk, hold(i) - talk.now.at % TICK); /* delayed ACKs are sent on a tick */
        talk_let_go(&talk);
        talk_pass(&talk, after(i));
        talk_answer(&talk);
        talk_look(&talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED);
        talk_pass(&talk, (uint64_t)(i % 7) * 500 * US);
    }
    return talk_verdict(&talk);
}

static uint64_t eleven_ticks(int i)
{
    (void)i;
    return 11 * TICK;
}

static uint64_t at_once(int i)
{
    return (uint64_t)(60 + i % 5) * US;
}

static uint64_t within_a_tick(int i)
{
    return (uint64_t)(i * 37 % 40) * TICK / 40;
}

static uint64_t later(int i)
{
    return i == 3 ? at_once(i) : (uint64_t)(20 + i % 3) * MS;
}

/* A peer that starts with the first segment and needs 45.2 ms, whenever the second one comes. busy:
 * every third answer waits for a CPU, and so comes shortly after a tick. */
static struct ns_verdict thinks(int n, bool busy)
{
    struct talk talk;
    talk_begin(&talk);
    for (int i = 0; i < n; i++) {
        talk_write_twice(&talk);
        talk_look(&talk, NS_LOOK_WAIT, 0);
        uint64_t begin = talk.now.at, end = begin + 45200 * US;
        if (busy)
            end += (uint64_t)(i * 7 % 5) * 10 * US;
        if (busy && i % 3 == 0)
            end = (end / TICK + 1) * TICK + 150 * US;
        talk_pass(&talk, 11 * TICK - begin % TICK);
        talk_let_go(&talk);
        talk_pass(&talk, end > talk.now.at ? end - talk.now.at : 0);
        talk_answer(&talk);
        talk_look(&talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED);
        talk_pass(&talk, busy ? 20 * US : 0);
    }
    return talk_verdict(&talk);
}

CHECK(check_weighing)
{
    struct ns_verdict verdict = waits(40, eleven_ticks, within_a_tick);
    OK(verdict.grade == NS_GRADE_PROVEN && verdict.stalls == 40,
       "answers that follow the release are stalls, also if the server needs 0 to 4 ms more");
    verdict = thinks(4, false);
    OK(verdict.stalls == 0 && verdict.doubt == NS_DOUBT_ANSWERS,
       "four answers that follow the write are not");
    verdict = thinks(32, true);
    OK(verdict.certain_ns == 0 && verdict.most_ns > 0 && !verdict.proof.certain,
       "nor is a loss certain if some come on a tick");
}

/* From outside: samples every 2.07 ms, and answers that come lag(i) after a release on a tick. */
static struct ns_weigh lagging(int n, uint64_t (*lag)(int i), bool (*slow)(int i))
{
    struct ns_weigh weigh = {0};
    for (int i = 0; i < n; i++) {
        uint64_t released = (uint64_t)(100 + 12 * i) * TICK, answered = released + lag(i);
        uint64_t first = released + (uint64_t)(i * 53 % 207) * 10 * US, each = 2070 * (uint64_t)US;
        struct ns_weigh_lag one = {.low = first - each, .high = first, .slow = slow && slow(i)};
        for (; one.high < answered; one.high += each) {
            one.low = one.high;
            one.ns = (double)(one.high + each / 2 - first + each / 2);
        }
        ns_weigh_lag(&weigh, &one, TICK);
    }
    return weigh;
}

static uint64_t a_millisecond(int i)
{
    return (uint64_t)(1000 + i % 5 * 20) * US;
}

static uint64_t two_ticks(int i)
{
    return (uint64_t)(7000 + i % 5 * 20) * US;
}

static bool each_third(int i)
{
    return i % 3 == 0;
}

/* Nine of sixteen answers wait for a processor and come shortly after a tick; the other waits have
 * the same length and end at random. */
CHECK(check_busy_peer)
{
    struct ns_weigh weigh = {0};
    for (int i = 0; i < NS_WEIGH_BLOCK; i++) {
        bool late = i < 9;
        uint64_t at =
            (uint64_t)(100 + 12 * i) * TICK + (uint64_t)(late ? 150 + 10 * i : i * 530 % 4000) * US;
        struct ns_weigh_answer answer = {
            .at = at, .length = (uint64_t)(late ? 45300 + 400 * i : 45200 + i) * US};
        ns_weigh_answer(&weigh, &answer, TICK);
    }
    OK(ns_weigh_doubts(&weigh, TICK, MS),
       "answers that a busy processor delays to a tick prove nothing");
    for (int half = 0; half < 2; half++) {
        weigh = (struct ns_weigh){0};
        for (int i = 0; i < NS_WEIGH_BLOCK; i++) {
            struct ns_weigh_answer answer = {.at = (uint64_t)(112 + 12 * i) * TICK + 100 * US,
                                             .length = 12 * TICK - 50 * US,
                                             .since = half ? MS / 2 : (uint64_t)(i % 2) * TICK};
            ns_weigh_answer(&weigh, &answer, TICK);
        }
        OK(ns_weigh_doubts(&weigh, TICK, MS) == !half,
           "answers of which many come %s after the release prove %s", half ? "0.5 ms" : "a tick",
           half ? "it" : "nothing");
    }
}

CHECK(check_lags)
{
    static const struct {
        int count;
        uint64_t (*lag)(int i);
        bool (*slow)(int i);
        uint64_t slack;
        bool doubts;
        const char *what;
    } rows[] = {
        {24, a_millisecond, NULL, MS, false, "also if each takes a millisecond more"},
        {24, two_ticks, NULL, MS, true, "answers that all come much later are not"},
        {12, within_a_tick, NULL, 3 * MS, true, "nor are a few at any time within the tick"},
        {24, at_once, each_third, MS, true, "if many are too late, the others are not"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ns_weigh weigh = lagging(rows[i].count, rows[i].lag, rows[i].slow);
        OK(ns_weigh_doubts(&weigh, TICK, rows[i].slack) == rows[i].doubts, "from outside: %s",
           rows[i].what);
    }
}

static struct ns_verdict arrivals(const uint32_t phases[NS_PHASES], uint32_t rtt_us,
                                  uint64_t waited_ms)
{
    struct talk talk;
    talk_begin(&talk);
    talk.now.min_rtt_us = rtt_us;
    talk.now.received = 1;
    talk_look(&talk, NS_LOOK_SAMPLE, 0);
    talk.now.sent_segments = 1;
    talk_look(&talk, NS_LOOK_SAMPLE, 0);
    ns_verdict_arrivals(&talk.judge.verdict, phases, waited_ms * MS, talk.judge.tick_ns);
    return talk_verdict(&talk);
}

CHECK(check_arrivals)
{
    static const struct {
        uint32_t phases[NS_PHASES], rtt_us;
        uint64_t waited_ms;
        enum ns_grade grade;
        const char *what;
    } rows[] = {
        {{9, 3}, 60, 500, NS_GRADE_LIKELY, "shortly after our tick: it waits for our late ACK"},
        {{[0] = 6, [NS_PHASES - 1] = 5}, 60, 500, NS_GRADE_LIKELY, "or just before it"},
        {{[NS_PHASES - 2] = 12}, 60, 500, NS_GRADE_NONE, "but not earlier"},
        {{9, 3}, 60, 12 * 208, NS_GRADE_NONE, "208 ms: no ACK is as late as a cork of the peer"},
        {{5, 2}, 60, 500, NS_GRADE_NONE, "seven times are too few"},
        {{[1] = 4, [2] = 50}, 60, 500, NS_GRADE_NONE, "mostly 0.5 ms after it is another phase"},
        {{[8] = 12}, 22000, 500, NS_GRADE_LIKELY, "unless a round trip of 5.5 ticks explains it"},
        {{[0] = 10, [8] = 2}, 60, 500, NS_GRADE_NONE, "most of it must have our phase"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        OK(arrivals(rows[i].phases, rows[i].rtt_us, rows[i].waited_ms).grade == rows[i].grade,
           "data that arrives %s", rows[i].what);
    struct ns_verdict verdict = arrivals(rows[0].phases, 60, 500);
    OK(verdict.receiving == 12 && verdict.receiving_ns == 500 * (uint64_t)MS, "all are counted");
}

CHECK(check_unseen_waits)
{
    struct talk talk;
    talk_begin(&talk);
    uint32_t buckets[NS_WAIT_BUCKETS] = {[5] = 100, [15] = 3};
    ns_verdict_waits(&talk.judge.verdict, buckets, 135 * MS);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_NONE && verdict.requests == 103 && verdict.waits[15] == 3,
       "waits with nothing unsent are requests");
    OK(verdict.waited_ns == 135 * MS && verdict.free_ns == 135 * MS && verdict.free == 103,
       "all of them count as time waited");
}

static void add_free(struct ns_verdict *verdict, uint64_t free, uint64_t ms)
{
    verdict->calls = 1; /* seen from inside */
    for (uint64_t i = 0; i < free; i++)
        ns_verdict_wait(verdict, ms * MS, false);
}

/* The grade of twenty stalls of 44 ms, and of requests without a hold that took ms milliseconds. */
static enum ns_grade beside(uint64_t free, uint64_t ms, bool asks, uint64_t receiving)
{
    struct ns_verdict sum = waits(20, eleven_ticks, at_once),
                      other = {.asks = asks, .receiving = receiving};
    add_free(&other, free, ms);
    ns_verdict_add(&sum, &other);
    return sum.grade;
}

CHECK(check_parts)
{
    struct talk talk;
    talk_begin(&talk);
    ns_verdict_parts(&talk.judge.verdict, 20, 880 * (uint64_t)MS);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.delays[NS_DELAY_PEER] == 20 && verdict.delays_ns[NS_DELAY_PEER] / MS == 880,
       "a peer that answers in two parts counts as slow");
}

CHECK(check_no_slower)
{
    static const struct {
        uint64_t free, ms, receiving;
        bool asks;
        enum ns_grade grade;
        const char *what;
    } rows[] = {
        {4, 43, 0, true, NS_GRADE_CANNOT_TELL, "as many ms as the stalls: a hold is no stall"},
        {3, 43, 0, true, NS_GRADE_PROVEN, "too few to show anything"},
        {20, 43, 0, false, NS_GRADE_PROVEN, "of a server"},
        {80, 44, 0, false, NS_GRADE_CANNOT_TELL,
         "even there if the stalls are a small part of them"},
        {20, 43, 12, true, NS_GRADE_PROVEN, "of a peer that may wait for our ACK"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        OK(beside(rows[i].free, rows[i].ms, rows[i].asks, rows[i].receiving) == rows[i].grade,
           "requests without a hold: %s", rows[i].what);
}

/* Ten holds of 44 ms whose answers came after_ms after the release, and requests without a hold. */
static enum ns_grade behind(uint64_t after_ms, uint64_t free_ms, uint64_t free, uint64_t early)
{
    struct ns_verdict verdict = {.requests = 20, .early = early};
    const struct ns_hold hold = {.begin = 1,
                                 .end = 44 * (uint64_t)MS,
                                 .cost = 44 * (uint64_t)MS,
                                 .slack = TICK,
                                 .waited = true};
    add_free(&verdict, free, free_ms);
    for (int i = 0; i < 10; i++) {
        ns_verdict_stall(&verdict, &hold, after_ms * MS);
        ns_verdict_wait(&verdict, hold.end + after_ms * MS, true);
    }
    ns_verdict_grade(&verdict);
    return verdict.grade;
}

CHECK(check_follows_release)
{
    static const struct {
        uint64_t after_ms, free_ms, free, early;
        enum ns_grade grade;
        const char *what;
    } rows[] = {
        {10, 10, 1, 2, NS_GRADE_CANNOT_TELL, "of a peer that also sends without a request"},
        {10, 10, 1, 0, NS_GRADE_LIKELY, "as late after the release as others after the request"},
        {200, 200, 5, 0, NS_GRADE_CANNOT_TELL, "the hold is a small part of a long wait"},
        {42, 42, 40, 0, NS_GRADE_CANNOT_TELL, "of a peer whose answers take as long as a hold"},
        {40, 40, 5, 0, NS_GRADE_LIKELY,
         "that take nearly as long, and most of which wait for a hold"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        OK(behind(rows[i].after_ms, rows[i].free_ms, rows[i].free, rows[i].early) == rows[i].grade,
           "answers %s", rows[i].what);
}

CHECK(check_early)
{
    struct ns_verdict sum = waits(8, eleven_ticks, at_once), early = {.late = 1, .early = 1};
    ns_verdict_add(&sum, &early);
    OK(sum.grade == NS_GRADE_PROVEN, "a single early answer of nine does not refute them");
    ns_verdict_add(&sum, &early);
    OK(sum.grade == NS_GRADE_CANNOT_TELL && sum.stalls == 0,
       "a peer that answers early more often follows its own clock");
}

/* From outside: five times data of the peer, a pure ACK ack_ms later, and more data after_ms after
 * that. The path's round trip is known. */
static struct ns_verdict gaps(uint32_t rtt_ms, uint64_t ack_ms, uint64_t after_ms, bool answers)
{
    struct talk talk;
    talk_begin(&talk);
    talk.now.min_rtt_us = rtt_ms * US;
    talk_look(&talk, NS_LOOK_SAMPLE, 0);
    for (int i = 0; i < 5; i++) {
        talk_receive(&talk, HEAD);
        for (uint64_t ms = 0; ms <= ack_ms + after_ms; ms += 2) {
            talk.now.sent_segments += ack_ms > 0 && ms == ack_ms;
            if (answers && ms == ack_ms + 4)
                talk_send(&talk, ANSWER);
            if (ms == ack_ms + after_ms)
                talk_receive(&talk, TAIL);
            talk_pass(&talk, 2 * MS);
            talk_look(&talk, NS_LOOK_SAMPLE, 0);
        }
    }
    return talk_verdict(&talk);
}

CHECK(check_gaps)
{
    static const struct {
        uint32_t rtt_ms;
        uint64_t ack_ms, after_ms;
        bool answers, open;
        const char *what;
    } rows[] = {
        {1, 28, 0, false, false, "with an ACK that was not delayed"},
        {1, 200, 0, false, true, "with the longest delayed ACK"},
        {20, 40, 28, false, true, "a round trip after the ACK, on a path that is sometimes slower"},
        {20, 40, 60, false, false, "later than a round trip after the ACK"},
        {20, 40, 24, true, false, "a round trip after the ACK, but also after an answer of ours"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ns_verdict verdict =
            gaps(rows[i].rtt_ms, rows[i].ack_ms, rows[i].after_ms, rows[i].answers);
        OK((verdict.gaps >= 4) == rows[i].open && (verdict.gaps == 0) == !rows[i].open &&
               rows[i].open ==
                   (verdict.grade == NS_GRADE_CANNOT_TELL && verdict.doubt == NS_DOUBT_PEER),
           "data with a round trip of %u ms: %s", rows[i].rtt_ms, rows[i].what);
    }
}

/* Ten stalls with slow answers, and an end that was watched as well. */
CHECK(check_best_proof)
{
    struct ns_verdict verdict = {0};
    const struct ns_hold brief = {.begin = 1, .end = 44 * MS, .cost = 8 * MS, .certain = true},
                         usual = {.begin = 2,
                                  .end = 44 * MS,
                                  .cost = 42 * MS,
                                  .slack = 1 * MS,
                                  .certain = true},
                         doubted = {.begin = 3, .end = 44 * MS, .cost = 42 * MS};
    ns_verdict_stall(&verdict, &brief, 0);
    for (int i = 0; i < 3; i++)
        ns_verdict_stall(&verdict, &usual, 0);
    ns_verdict_stall(&verdict, &doubted, 0);
    OK(verdict.shortest_ns == 8 * MS && verdict.longest_ns == 42 * MS && verdict.stalls == 4,
       "only certain stalls have a length");
}

CHECK(check_sum)
{
    struct ns_verdict sum = {0}, stalls = waits(5, eleven_ticks, at_once),
                      slow = waits(8, eleven_ticks, later), none = {0};
    ns_verdict_add(&sum, &none);
    ns_verdict_add(&sum, &slow);
    OK(sum.grade == slow.grade && sum.doubt == slow.doubt && sum.maybe == 7,
       "the first one has its own verdict");
    ns_verdict_add(&sum, &stalls);
    OK(stalls.held_waits[15] > 0 && sum.held_waits[15] >= stalls.held_waits[15],
       "waits with a hold are added length by length");
    struct ns_verdict other_end = {.receiving = 9,
                                   .receiving_ns = 9 * 40 * (uint64_t)MS,
                                   .certain_ns = 1,
                                   .grade = NS_GRADE_LIKELY};
    OK(ns_verdict_conclude(&stalls, NULL).certain && !ns_verdict_conclude(&other_end, NULL).certain,
       "the loss at the end that holds is measured, that of the other end is a bound");
    struct ns_verdict both = stalls, maybe = {.maybe = 3};
    both.receiving = 9;
    OK(ns_verdict_conclude(&both, NULL).holds && ns_verdict_conclude(&maybe, NULL).holds &&
           !ns_verdict_conclude(&other_end, NULL).holds,
       "an end that holds bytes and receives late ones is said to hold");
    OK(sum.shortest_ns <= stalls.shortest_ns && sum.longest_ns >= stalls.longest_ns &&
           sum.proof.certain && sum.rtt_us == 60,
       "the extremes and the proof are kept");
    struct ns_verdict late = {.late = 1, .segments = 4};
    late.delays[NS_DELAY_WIRE] = 2;
    late.delays_ns[NS_DELAY_WIRE] = 30 * MS;
    sum = late;
    ns_verdict_add(&sum, &late);
    ns_verdict_add(&sum, &stalls);
    OK(stalls.watched_ns > 0 && sum.watched_ns == stalls.watched_ns,
       "the longest time watched is kept");
    OK(sum.delays[NS_DELAY_WIRE] == 4 && sum.delays_ns[NS_DELAY_WIRE] == 60 * MS,
       "other delays are added");
    const struct ns_trial helped = {NS_EXPERIMENT_PUSH, 20, 20, 0.1, 44, 1e-9};
    OK(!ns_verdict_try(&late, &helped) && late.grade != NS_GRADE_PROVEN,
       "an experiment proves nothing about a connection that held nothing to try");
    OK(ns_verdict_try(&stalls, &helped) && stalls.grade == NS_GRADE_PROVEN,
       "an experiment proves the cure of a connection that did");
    const struct ns_trial few = {NS_EXPERIMENT_PUSH, 4, 4, 0.1, 44, 1e-9},
                          fewer = {NS_EXPERIMENT_PUSH, 3, 20, 0.1, 44, 1e-9},
                          slower = {NS_EXPERIMENT_PUSH, 20, 20, 44, 0.1, 1e-9};
    OK(ns_verdict_effect(&few) == NS_EFFECT_FASTER &&
           ns_verdict_effect(&fewer) == NS_EFFECT_UNKNOWN,
       "four waits of either kind are enough for an experiment, and three are not");
    OK(!ns_verdict_try(&stalls, &slower) && stalls.grade != NS_GRADE_PROVEN && stalls.late == 5,
       "an experiment that makes the waits longer removes the proof");
}
