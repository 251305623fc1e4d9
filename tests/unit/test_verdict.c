/* SPDX-License-Identifier: MIT */
/* verdict.h and weigh.h: what many waits come to. */
#include "looks.h"
#include "unit.h"

#include <stdlib.h>

/* n waits from inside with a hold: the answer comes so long after the release, the writing begins
 * so long after a tick. */
static struct ns_verdict waits(int n, uint64_t (*hold)(int i), uint64_t (*after)(int i))
{
    struct talk talk;
    talk_begin(&talk);
    for (int i = 0; i < n; i++) {
        talk_write_twice(&talk);
        talk_look(&talk, NS_LOOK_WAIT, 0);
        talk_pass(&talk, hold(i) - talk.now.at % TICK); /* delayed ACKs leave on the tick */
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

/* A peer that began with the first piece, and is done 45.2 ms later, whenever the tail came. */
static struct ns_verdict thinks(int n)
{
    struct talk talk;
    talk_begin(&talk);
    for (int i = 0; i < n; i++) {
        talk_write_twice(&talk);
        talk_look(&talk, NS_LOOK_WAIT, 0);
        uint64_t begin = talk.now.at, held = 11 * TICK - begin % TICK;
        talk_pass(&talk, held);
        talk_let_go(&talk);
        talk_pass(&talk, 45200 * US - held);
        talk_answer(&talk);
        talk_look(&talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED);
    }
    return talk_verdict(&talk);
}

/* A peer that thinks on the header, where others use the processor: each third answer is late, and
 * then it comes on a tick, as what has waited for a processor does. */
static struct ns_verdict thinks_on_busy(int n)
{
    struct talk talk;
    talk_begin(&talk);
    for (int i = 0; i < n; i++) {
        talk_write_twice(&talk);
        talk_look(&talk, NS_LOOK_WAIT, 0);
        uint64_t begin = talk.now.at, held = 11 * TICK - begin % TICK;
        uint64_t end = begin + 45200 * US + (uint64_t)(i * 7 % 5) * 10 * US;
        if (i % 3 == 0)
            end = (end / TICK + 1) * TICK + 150 * US;
        talk_pass(&talk, held);
        talk_let_go(&talk);
        talk_pass(&talk, end > talk.now.at ? end - talk.now.at : 0);
        talk_answer(&talk);
        talk_look(&talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED);
        talk_pass(&talk, 20 * US);
    }
    return talk_verdict(&talk);
}

static void check_weighing(void)
{
    struct ns_verdict verdict = waits(40, eleven_ticks, at_once);
    OK(verdict.grade == NS_GRADE_PROVEN && verdict.stalls == 40,
       "answers that keep to the release");
    verdict = waits(40, eleven_ticks, within_a_tick);
    OK(verdict.grade == NS_GRADE_PROVEN && verdict.stalls == 40,
       "a server that takes 0 to 4 ms more makes them no less so");
    verdict = thinks(40);
    OK(verdict.stalls == 0 && verdict.maybe > 30 && verdict.doubt == NS_DOUBT_ANSWERS,
       "answers that keep to the writing do not depend on the tail");
    verdict = thinks(10);
    OK(verdict.stalls == 0 && verdict.doubt == NS_DOUBT_ANSWERS, "nor do fewer of them");
    verdict = thinks_on_busy(32);
    OK(verdict.stalls == 0 && verdict.maybe > 20, "nor where some come on a tick");
    OK(verdict.certain_ns == 0 && verdict.most_ns > 0 && !verdict.proof.certain,
       "and nothing is lost for certain");
    verdict = waits(20, eleven_ticks, later);
    OK(verdict.stalls == 1 && verdict.maybe == 19 && verdict.grade == NS_GRADE_CANNOT_TELL,
       "one of twenty may follow closely by chance");
}

/* From outside: looks every 2.07 ms, an answer so long after a release that is on a tick. */
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

/* Nine of sixteen answers wait for a processor until shortly after a tick; the other waits are
 * alike, and end anywhere. */
static void check_busy_peer(void)
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
       "answers that a busy processor puts on a tick prove nothing");
    weigh = (struct ns_weigh){0};
    for (int i = 0; i < NS_WEIGH_BLOCK; i++) {
        struct ns_weigh_answer answer = {.at = (uint64_t)(112 + 12 * i) * TICK + 100 * US,
                                         .length = 12 * TICK - 50 * US,
                                         .since = i % 2 ? TICK : 0};
        ns_weigh_answer(&weigh, &answer, TICK);
    }
    OK(ns_weigh_doubts(&weigh, TICK, MS),
       "nor do those of which many come a tick after the release");
}

static void check_lags(void)
{
    struct ns_weigh weigh = lagging(24, at_once, NULL);
    OK(!ns_weigh_doubts(&weigh, TICK, MS), "from outside answers behind the release are certain");
    weigh = lagging(24, a_millisecond, NULL);
    OK(!ns_weigh_doubts(&weigh, TICK, MS), "also where each takes a millisecond more");
    weigh = lagging(24, within_a_tick, NULL);
    OK(ns_weigh_doubts(&weigh, TICK, MS), "those that come at any time within the tick are not");
    weigh = lagging(24, two_ticks, NULL);
    OK(ns_weigh_doubts(&weigh, TICK, MS), "nor are those that all come much later");
    weigh = lagging(8, at_once, NULL);
    OK(!ns_weigh_doubts(&weigh, TICK, MS), "a few at once are certain");
    weigh = lagging(8, a_millisecond, NULL);
    OK(ns_weigh_doubts(&weigh, TICK, MS / 2), "a few that are later than may be are not");
    weigh = lagging(24, at_once, each_third);
    OK(ns_weigh_doubts(&weigh, TICK, MS), "nor those among which many are too late");
}

static struct ns_verdict arrivals_of(const uint32_t phases[NS_PHASES], uint32_t rtt_us,
                                     uint64_t waited_ns)
{
    struct talk talk;
    talk_begin(&talk);
    talk.now.min_rtt_us = rtt_us;
    talk.now.received = 1;
    talk_look(&talk, NS_LOOK_SAMPLE, 0);
    talk.now.sent_segments = 1;
    talk_look(&talk, NS_LOOK_SAMPLE, 0);
    ns_judge_arrivals(&talk.judge, phases, waited_ns);
    return talk_verdict(&talk);
}

static struct ns_verdict arrivals(const uint32_t phases[NS_PHASES], uint32_t rtt_us)
{
    return arrivals_of(phases, rtt_us, 500 * (uint64_t)MS);
}

static void check_arrivals(void)
{
    static const uint32_t on_tick[NS_PHASES] = {9, 3}, few[NS_PHASES] = {5, 2},
                          spread[NS_PHASES] = {3, 1, 2, 2, 1, 3, 2, 1, 2, 2, 3, 1, 2, 1, 2, 2},
                          own_timer[NS_PHASES] = {[8] = 12},
                          early[NS_PHASES] = {[0] = 6, [NS_PHASES - 1] = 5},
                          sooner[NS_PHASES] = {[NS_PHASES - 2] = 12},
                          beside[NS_PHASES] = {[2] = 4, [3] = 50},
                          two_places[NS_PHASES] = {[0] = 10, [8] = 2};
    struct ns_verdict verdict = arrivals(on_tick, 60);
    OK(verdict.grade == NS_GRADE_LIKELY && verdict.receiving == 12 &&
           verdict.receiving_ns == 500 * (uint64_t)MS,
       "data that comes shortly after our tick seems to wait for our late ACK");
    OK(arrivals(early, 60).grade == NS_GRADE_LIKELY,
       "so does what comes just before, when another processor moves the clock on");
    OK(arrivals(sooner, 60).grade == NS_GRADE_NONE, "but no sooner");
    OK(arrivals_of(on_tick, 60, 12 * 208 * (uint64_t)MS).grade == NS_GRADE_NONE,
       "no ACK of ours is as late as the peer's own cork");
    OK(arrivals(few, 60).grade == NS_GRADE_NONE, "seven times say nothing");
    OK(arrivals(spread, 60).grade == NS_GRADE_NONE, "nor does data that comes at any time");
    OK(arrivals(own_timer, 60).grade == NS_GRADE_NONE,
       "a timer of the peer's keeps to a tick, but not to the place of ours");
    OK(arrivals(beside, 60).grade == NS_GRADE_NONE, "and 0.7 ms behind it is not its place");
    OK(arrivals(own_timer, 22000).grade == NS_GRADE_LIKELY,
       "unless a round trip of 5.5 ticks puts it there");
    OK(arrivals(two_places, 60).grade == NS_GRADE_NONE, "and most of it has to be there");
}

static void check_unseen_waits(void)
{
    struct talk talk;
    talk_begin(&talk);
    uint32_t buckets[NS_VERDICT_BUCKETS] = {[5] = 100, [15] = 3};
    ns_judge_waits(&talk.judge, buckets, 135 * MS);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_NONE && verdict.requests == 103 && verdict.waits[15] == 3,
       "waits without anything unsent are requests");
    OK(verdict.delays[NS_DELAY_PEER] == 3 && verdict.delays_ns[NS_DELAY_PEER] / MS == 130,
       "and the peer's affair where they are long, as long as they were");
    OK(verdict.waited_ns == 135 * MS, "and all of them are what the program has waited");
    talk_begin(&talk);
    talk.now.min_rtt_us = 50000;
    talk_look(&talk, NS_LOOK_WAIT, 0);
    ns_judge_waits(&talk.judge, buckets, 135 * MS);
    OK(talk_verdict(&talk).delays[NS_DELAY_WIRE] == 3, "or the wire's");
}

/* Twenty stalls of 44 ms, and so many requests of which nothing was held, that took so long. */
static enum ns_grade beside(uint64_t free, uint64_t ms, bool asks, uint64_t receiving)
{
    struct ns_verdict sum = waits(20, eleven_ticks, at_once),
                      other = {.free = free, .asks = asks, .receiving = receiving};
    other.free_ns = free * ms * MS;
    ns_verdict_add(&sum, &other);
    return sum.grade;
}

static void check_parts(void)
{
    static const uint32_t on_tick[NS_PHASES] = {9, 3};
    struct talk talk;
    talk_begin(&talk);
    ns_judge_parts(&talk.judge, 20, 880 * (uint64_t)MS);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.delays[NS_DELAY_PEER] == 20 && verdict.delays_ns[NS_DELAY_PEER] / MS == 880,
       "a peer that answers in two parts has taken its time");
    talk_begin(&talk);
    ns_judge_arrivals(&talk.judge, on_tick, 500 * (uint64_t)MS);
    ns_judge_parts(&talk.judge, 12, 500 * (uint64_t)MS);
    OK(talk_verdict(&talk).delays[NS_DELAY_PEER] == 0, "unless our late ACKs have held it back");
}

static void check_no_slower(void)
{
    OK(beside(5, 43, true, 0) == NS_GRADE_CANNOT_TELL,
       "where requests of which nothing was held take as long, the hold is no stall");
    OK(beside(4, 43, true, 0) == NS_GRADE_PROVEN, "a few such requests say nothing");
    OK(beside(20, 36, true, 0) == NS_GRADE_PROVEN && beside(20, 52, true, 0) == NS_GRADE_PROVEN,
       "nor do those that take another time");
    OK(beside(60, 37, true, 0) == NS_GRADE_CANNOT_TELL &&
           beside(60, 34, true, 0) == NS_GRADE_PROVEN,
       "which is judged less strictly where they are more than the others");
    OK(beside(20, 43, false, 0) == NS_GRADE_PROVEN,
       "nor what a server waits for, or what only looks from outside have seen");
    OK(beside(20, 43, true, 12) == NS_GRADE_PROVEN, "nor where the peer may be held, too");
}

/* Holds whose answers came so long after the release, beside requests that took so long. */
static enum ns_grade behind_early(uint64_t after_ms, uint64_t free_ms, uint64_t free,
                                  uint64_t early)
{
    struct ns_verdict verdict = {.requests = 20, .calls = 40, .free = free, .early = early};
    const struct ns_hold hold = {
        .begin = 1, .end = 44 * (uint64_t)MS, .cost = 44 * (uint64_t)MS, .waited = true};
    verdict.free_ns = free * free_ms * MS;
    for (int i = 0; i < 10; i++)
        ns_verdict_stall(&verdict, &hold, after_ms * MS, TICK);
    ns_verdict_grade(&verdict);
    return verdict.grade;
}

static enum ns_grade behind(uint64_t after_ms, uint64_t free_ms, uint64_t free)
{
    return behind_early(after_ms, free_ms, free, 0);
}

static void check_follows_release(void)
{
    OK(behind_early(10, 10, 1, 2) == NS_GRADE_CANNOT_TELL,
       "of a peer that speaks unasked nobody knows");
    OK(behind(10, 10, 1) == NS_GRADE_LIKELY && behind(10, 8, 5) == NS_GRADE_LIKELY,
       "answers that take as long after the release as others seem to have waited for it");
    OK(behind(10, 10, 0) == NS_GRADE_CANNOT_TELL, "where there are no others nobody knows");
    OK(behind(10, 54, 5) == NS_GRADE_CANNOT_TELL, "a peer that thinks takes as long as ever");
    OK(behind(10, 1, 5) == NS_GRADE_CANNOT_TELL, "and what takes another time is no measure");
    OK(behind(200, 200, 5) == NS_GRADE_CANNOT_TELL, "nor can a small part of a long wait be told");
}

static void check_early(void)
{
    struct ns_verdict inside = {.calls = 10, .late = 60, .early = 60};
    struct ns_verdict sum = waits(5, eleven_ticks, at_once), early = {.late = 6, .early = 6},
                      as_many = {.late = 5, .early = 5};
    OK(sum.grade == NS_GRADE_PROVEN && sum.early == 0, "answers that wait for what is held");
    ns_verdict_add(&sum, &as_many);
    OK(sum.grade == NS_GRADE_PROVEN, "are not refuted by as many that do not");
    sum = waits(5, eleven_ticks, at_once);
    ns_verdict_add(&sum, &early);
    OK(sum.grade == NS_GRADE_CANNOT_TELL && sum.stalls == 0,
       "but a peer that mostly speaks before it has got it keeps to a clock of its own");
    sum = waits(5, eleven_ticks, at_once);
    ns_verdict_add(&sum, &inside);
    OK(sum.grade == NS_GRADE_PROVEN, "which is judged otherwise from inside");
}

static void check_best_proof(void)
{
    struct ns_verdict verdict = {0};
    const struct ns_hold vague = {.begin = 1, .end = 44 * MS, .slack = 30 * MS, .certain = true},
                         clear = {.begin = 2, .end = 44 * MS, .slack = 1 * MS, .certain = true},
                         doubted = {.begin = 3, .end = 44 * MS, .slack = 0};
    ns_verdict_stall(&verdict, &vague, 0, TICK);
    ns_verdict_stall(&verdict, &clear, 0, TICK);
    ns_verdict_stall(&verdict, &doubted, 0, TICK);
    OK(verdict.proof.begin == 2, "the proof is the stall whose times are known best");
}

static void check_sum(void)
{
    struct ns_verdict sum = {0}, stalls = waits(5, eleven_ticks, at_once),
                      slow = waits(8, eleven_ticks, later), none = {0};
    ns_verdict_add(&sum, &none);
    OK(sum.grade == NS_GRADE_CANNOT_TELL && sum.doubt == NS_DOUBT_NO_LOOKS,
       "nothing and nothing cannot be told");
    ns_verdict_add(&sum, &slow);
    OK(sum.grade == slow.grade && sum.doubt == slow.doubt && sum.maybe == 7,
       "the first has its own verdict");
    ns_verdict_add(&sum, &stalls);
    OK(sum.grade == NS_GRADE_PROVEN && sum.stalls == 6 && sum.maybe == 7 && sum.requests == 13,
       "and stalls of another make it proven");
    OK(sum.certain_ns == stalls.certain_ns + slow.certain_ns &&
           sum.most_ns == stalls.most_ns + slow.most_ns,
       "losses are added");
    OK(sum.shortest_ns <= stalls.shortest_ns && sum.longest_ns >= stalls.longest_ns &&
           sum.proof.certain && sum.rtt_us == 60,
       "extremes and a proof are kept");
    struct ns_verdict late = {.late = 1, .segments = 4};
    sum = (struct ns_verdict){0};
    ns_verdict_add(&sum, &late);
    OK(sum.grade == NS_GRADE_LATE, "late is less than that");
    OK(strcmp(ns_grade_name(NS_GRADE_LATE), "late but nobody waited") == 0 &&
           strcmp(ns_grade_name(NS_GRADE_PROVEN), "proven") == 0 &&
           strcmp(ns_grade_name(NS_GRADE_LIKELY), "likely") == 0 &&
           strcmp(ns_grade_name(NS_GRADE_NONE), "none") == 0 &&
           strcmp(ns_grade_name(NS_GRADE_CANNOT_TELL), "cannot tell") == 0,
       "grades have their names");
}

int main(void)
{
    check_weighing();
    check_busy_peer();
    check_lags();
    check_arrivals();
    check_unseen_waits();
    check_parts();
    check_no_slower();
    check_follows_release();
    check_early();
    check_best_proof();
    check_sum();
    return ns_unit_done();
}
