/* SPDX-License-Identifier: MIT */
/* judge.h, with looks from outside: by a clock, and with nobody to say when the program waits. */
#include "looks.h"
#include "unit.h"

#include <math.h>

enum { EACH = 2 * MS };

static bool about(uint64_t ns, double ms, double slack_ms)
{
    return fabs((double)ns / MS - ms) <= slack_ms;
}

/* So long nothing happens but looks. */
static void watch(struct talk *talk, uint64_t ns)
{
    for (uint64_t passed = 0; passed < ns; passed += EACH) {
        talk_pass(talk, EACH);
        talk_look(talk, NS_LOOK_SAMPLE, 0);
    }
}

/* A hold, and between two looks its end, the answer, and what the program writes next. */
static void stall(struct talk *talk, uint64_t held)
{
    watch(talk, held - EACH);
    talk_pass(talk, EACH / 2);
    talk_let_go(talk);
    talk_answer(talk);
}

static void check_stalls(void)
{
    struct talk talk;
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_write_twice(&talk);
    for (int i = 0; i < 20; i++) {
        stall(&talk, 44 * MS);
        talk_pass(&talk, EACH / 2);
        talk_write_twice(&talk);
    }
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_PROVEN && verdict.stalls == 19,
       "requests that follow one another at once are told by the looks between: %llu",
       (unsigned long long)verdict.stalls);
    OK(verdict.certain_ns == verdict.most_ns && about(verdict.certain_ns, 19 * 43, 19 * 4),
       "with what they cost: %.1f ms", (double)verdict.certain_ns / MS);
    OK(talk.hold.slack >= EACH / 2 && talk.hold.slack <= TICK, "exact as the looks are");
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_write_twice(&talk);
    stall(&talk, 44 * MS);
    watch(&talk, 100 * MS);
    verdict = talk_verdict(&talk);
    OK(verdict.stalls == 1 && verdict.late_acks == 1 && verdict.requests == 1,
       "so is one with a pause after it");
    OK(talk.hold.end - talk.hold.begin == talk.hold.cost && about(talk.hold.cost, 44, 4),
       "whose bytes left when the kernel says");
    OK(verdict.waited_ns == 0, "how long it waited cannot be known from outside");
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_write_twice(&talk);
    watch(&talk, 30 * MS);
    OK(talk_verdict(&talk).stalls == 0 && talk_verdict(&talk).late == 0,
       "a hold that is still there is not counted");
}

static void check_exact_bytes(void)
{
    struct talk talk;
    talk_begin(&talk);
    talk_write_twice(&talk);
    for (int i = 0; i < 50; i++) { /* a stream: each look sees a tail, and never the same */
        watch(&talk, EACH);
        talk_let_go(&talk);
        talk.now.unsent = TAIL;
    }
    talk_answer(&talk);
    watch(&talk, EACH);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_NONE, "tails of the same size that come and go are no hold");
    talk_begin(&talk);
    talk_write_twice(&talk);
    for (int i = 0; i < 20; i++) {
        talk.now.unsent += 7;
        watch(&talk, EACH);
    }
    talk_let_go(&talk);
    talk_answer(&talk);
    watch(&talk, EACH);
    verdict = talk_verdict(&talk);
    OK(verdict.stalls + verdict.maybe + verdict.late == 0,
       "a program that still writes does not wait");
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_write_twice(&talk);
    talk_pass(&talk, EACH);
    talk_look(&talk, NS_LOOK_SAMPLE, 0);
    talk_pass(&talk, 10 * MS);
    talk_let_go(&talk);
    talk_answer(&talk);
    watch(&talk, EACH);
    OK(talk.holds == 0, "one look alone proves nothing");
}

static void check_ends(void)
{
    struct talk talk;
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_write_twice(&talk);
    watch(&talk, 42 * MS);
    talk_let_go(&talk);
    watch(&talk, 46 * MS);
    talk_answer(&talk);
    watch(&talk, 10 * MS);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.stalls == 0 && verdict.maybe == 1 && verdict.late == 0 &&
           verdict.doubt == NS_DOUBT_ANSWERS && about(verdict.most_ns, 42, 4),
       "an answer 45 ms after the release: the hold may have cost something, at most itself");
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_write_twice(&talk);
    watch(&talk, 42 * MS);
    talk_let_go(&talk);
    watch(&talk, 20 * MS);
    talk_ack(&talk);
    talk_send(&talk, HEAD);
    watch(&talk, 20 * MS);
    verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_LATE && verdict.late == 1,
       "where the program writes on without an answer nobody waited");
}

static void check_no_holds(void)
{
    struct talk talk;
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_write_twice(&talk);
    watch(&talk, 20 * MS);
    talk_release(&talk);
    watch(&talk, 2 * MS);
    talk_answer(&talk);
    watch(&talk, 10 * MS);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(talk.holds == 0 && verdict.delays[NS_DELAY_CORK] == 1,
       "released without an ACK, it may be the program's own cork");
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_write_twice(&talk);
    watch(&talk, 20 * MS);
    talk.now.retransmitted++;
    talk_let_go(&talk);
    talk_answer(&talk);
    watch(&talk, 10 * MS);
    verdict = talk_verdict(&talk);
    OK(talk.holds == 0 && verdict.delays[NS_DELAY_LOSS] >= 1, "with a loss meanwhile it is that");
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_write_twice(&talk);
    talk.now.pacing = 10000;
    watch(&talk, 20 * MS);
    talk_let_go(&talk);
    talk_answer(&talk);
    watch(&talk, 10 * MS);
    verdict = talk_verdict(&talk);
    OK(talk.holds == 0 && verdict.delays[NS_DELAY_PACING] == 1, "and pacing is told from it");
    talk.now.pacing = 1000000;
    talk_write_twice(&talk);
    watch(&talk, 20 * MS);
    talk_let_go(&talk);
    talk_answer(&talk);
    watch(&talk, 10 * MS);
    OK(talk_verdict(&talk).stalls == 1, "pacing that is long done explains nothing");
}

static void check_causes(void)
{
    struct talk talk;
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_send(&talk, HEAD);
    talk_ack(&talk);
    watch(&talk, 44 * MS);
    talk_answer(&talk);
    watch(&talk, 300 * MS);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_NONE && verdict.delays[NS_DELAY_PEER] == 1 &&
           about(verdict.delays_ns[NS_DELAY_PEER], 44, 4),
       "a peer that takes 44 ms is called slow, and a pause after it is nobody's");
    talk_begin(&talk);
    talk.now.min_rtt_us = 50000;
    watch(&talk, 10 * MS);
    talk_send(&talk, HEAD);
    watch(&talk, 50 * MS);
    talk_answer(&talk);
    watch(&talk, 10 * MS);
    OK(talk_verdict(&talk).delays[NS_DELAY_WIRE] == 1, "a round trip is the wire's");
}

static void check_blocked(void)
{
    struct talk talk;
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_send(&talk, HEAD);
    talk_ack(&talk);
    talk.now.unsent = TAIL;
    watch(&talk, 200 * MS);
    talk_release(&talk);
    talk_answer(&talk);
    watch(&talk, 10 * MS);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_NONE && verdict.delays[NS_DELAY_CORK] == 1 &&
           about(verdict.delays_ns[NS_DELAY_CORK], 200, 4),
       "bytes that wait for 200 ms with nothing in flight are the program's own cork");
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_write_twice(&talk);
    watch(&talk, 42 * MS);
    talk_ack(&talk);
    watch(&talk, 158 * MS);
    talk_release(&talk);
    talk_answer(&talk);
    watch(&talk, 10 * MS);
    verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_NONE && verdict.delays[NS_DELAY_CORK] == 1,
       "also where it looked like a hold until the ACK came and they did not leave");
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_write_twice(&talk);
    talk.now.window = HEAD;
    watch(&talk, 20 * MS);
    talk.now.probes = 1;
    talk.now.retransmitted++;
    watch(&talk, 25 * MS);
    talk.now.probes = 0;
    talk.now.window = 65536;
    talk_let_go(&talk);
    talk_answer(&talk);
    watch(&talk, 10 * MS);
    verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_NONE && verdict.delays[NS_DELAY_WINDOW] == 1 &&
           verdict.delays[NS_DELAY_LOSS] == 0,
       "a window that is shut is no loss, although it is probed");
}

/* A peer that thinks for 45 ms from the first piece on answers 1 to 5 ms after the release. */
static void check_lags(void)
{
    struct talk talk;
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    for (unsigned i = 0; i < 12; i++) {
        talk_write_twice(&talk);
        watch(&talk, 42 * MS);
        talk_let_go(&talk);
        watch(&talk, 4 * MS);
        talk_answer(&talk);
        watch(&talk, (3 + i % 3) * EACH);
    }
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.stalls == 0 && verdict.maybe == 12 && verdict.certain_ns == 0 &&
           verdict.grade == NS_GRADE_CANNOT_TELL && verdict.doubt == NS_DOUBT_ANSWERS,
       "answers that all lag behind the release by some ms follow something else");
}

static void check_odd_looks(void)
{
    struct talk talk;
    talk_begin(&talk);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_CANNOT_TELL && verdict.doubt == NS_DOUBT_NO_LOOKS,
       "nothing can be told without a look");
    watch(&talk, 100 * MS);
    OK(talk_verdict(&talk).doubt == NS_DOUBT_NO_LOOKS, "nor while nothing is on its way");
    talk_write_twice(&talk);
    watch(&talk, 30 * MS);
    talk.now.at -= 20 * MS;
    talk_let_go(&talk);
    talk_answer(&talk);
    OK(!talk_look(&talk, NS_LOOK_SAMPLE, 0), "a look out of order is not looked at");
    talk_begin(&talk);
    watch(&talk, 10 * MS);
    talk_receive(&talk, ANSWER);
    talk_write_twice(&talk);
    watch(&talk, 30 * MS);
    talk.now.received = 0;
    talk.now.unsent = 0;
    talk_send(&talk, 5000);
    talk_ack(&talk);
    watch(&talk, 10 * MS);
    verdict = talk_verdict(&talk);
    OK(talk.holds == 0 && verdict.late == 0, "a hold does not go on into another connection");
}

int main(void)
{
    check_stalls();
    check_exact_bytes();
    check_ends();
    check_no_holds();
    check_causes();
    check_blocked();
    check_lags();
    check_odd_looks();
    return ns_unit_done();
}
