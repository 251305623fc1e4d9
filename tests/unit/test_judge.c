/* SPDX-License-Identifier: MIT */
/* judge.h, with looks from inside: at waits. Each condition of the proof is taken away once, and
 * nothing is proven then. */
#include "looks.h"
#include "unit.h"

#include <math.h>

static bool about(uint64_t ns, double ms, double slack_ms)
{
    return fabs((double)ns / MS - ms) <= slack_ms;
}

/* A wait with a hold of so many ns, and an answer so long after it. */
static void stall(struct talk *talk, uint64_t held, uint64_t answer)
{
    talk_write_twice(talk);
    talk_look(talk, NS_LOOK_WAIT, 0);
    talk_pass(talk, held);
    talk_let_go(talk);
    talk_pass(talk, answer);
    talk_answer(talk);
    talk_pass(talk, 10 * US);
    talk_look(talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED);
}

static void check_stalls(void)
{
    struct talk talk;
    talk_begin(&talk);
    for (int i = 0; i < 20; i++)
        stall(&talk, 44 * MS - 90 * US, 60 * US);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_PROVEN && verdict.stalls == 20 && verdict.requests == 20,
       "two writes and a wait of 44 ms, 20 times, are 20 stalls");
    OK(verdict.certain_ns == verdict.most_ns && about(verdict.certain_ns, 880, 4),
       "which cost 44 ms each, for certain");
    OK(verdict.late_acks == 20, "made by late ACKs");
    OK(talk.hold.waited && talk.hold.certain && talk.hold.by_ack && talk.hold.slack == TICK,
       "released by an ACK, exact to a tick");
    OK(verdict.proof.look.unsent == TAIL && verdict.proof.look.unacked == 1,
       "the proof has the bytes that were held");
    OK(about(verdict.shortest_ns, 44, 4) && about(verdict.longest_ns, 44, 4), "how long each took");
    OK(verdict.waits[15] == 20 && verdict.held_waits[15] == 20 && about(verdict.waited_ns, 879, 4),
       "and all waits are told by their lengths");
}

/* The look at the wait, or what has changed when it is over. */
typedef void spoil(struct ns_look *look);

static void nodelay(struct ns_look *look)
{
    look->flags |= NS_LOOK_NODELAY;
}
static void cork(struct ns_look *look)
{
    look->flags |= NS_LOOK_CORK;
}
static void nothing_unsent(struct ns_look *look)
{
    look->unsent = 0;
}
static void whole_segment(struct ns_look *look)
{
    look->unsent = look->mss;
}
static void nothing_in_flight(struct ns_look *look)
{
    look->acked += HEAD;
    look->unacked = 0;
}
static void cwnd_is_full(struct ns_look *look)
{
    look->cwnd = 1;
}
static void window_is_shut(struct ns_look *look)
{
    look->window = HEAD + TAIL - 1;
}
static void window_is_probed(struct ns_look *look)
{
    window_is_shut(look);
    look->probes = 1;
    look->backoff = 1;
}

static void window_unknown(struct ns_look *look)
{
    look->flags &= (uint16_t)~NS_LOOK_KNOWS_WINDOW;
}
static void unsent_unknown(struct ns_look *look)
{
    look->flags &= (uint16_t)~NS_LOOK_KNOWS_UNSENT;
    look->unsent = 0;
}
static void recovers(struct ns_look *look)
{
    look->congestion = 3;
}
static void probes(struct ns_look *look)
{
    look->probes = 1;
}
static void backs_off(struct ns_look *look)
{
    look->backoff = 1;
}
static void closes(struct ns_look *look)
{
    look->state = TCP_CLOSE_WAIT;
}
static void sent_again(struct ns_look *look)
{
    look->retransmitted++;
}
static void paced(struct ns_look *look)
{
    look->pacing = 5000;
}
static void none(struct ns_look *look)
{
    (void)look;
}
static void window_just_fits(struct ns_look *look)
{
    look->window = HEAD + 1 + TAIL;
}

static struct ns_verdict spoilt(spoil *before, spoil *after)
{
    struct talk talk;
    talk_begin(&talk);
    talk_write_twice(&talk);
    struct ns_look kept = talk.now;
    before(&talk.now);
    talk_look(&talk, NS_LOOK_WAIT, 0);
    kept.retransmitted = talk.now.retransmitted;
    kept.pacing = talk.now.pacing;
    if (before == window_unknown || before == unsent_unknown)
        kept.flags = talk.now.flags;
    talk.now = kept;
    talk_pass(&talk, 44 * MS);
    talk_let_go(&talk);
    talk_pass(&talk, 60 * US);
    talk_answer(&talk);
    after(&talk.now);
    talk_look(&talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED);
    return talk_verdict(&talk);
}

static void check_conditions(void)
{
    static const struct {
        const char *what;
        spoil *before, *after;
        enum ns_delay cause;
    } rows[] = {
        {"TCP_NODELAY is on", nodelay, none, NS_DELAY_PACING},
        {"TCP_CORK is on", cork, none, NS_DELAY_CORK},
        {"nothing is unsent", nothing_unsent, none, NS_DELAY_PEER},
        {"a whole segment is unsent", whole_segment, none, NS_DELAY_PACING},
        {"nothing is in flight", nothing_in_flight, none, NS_DELAY_CORK},
        {"the congestion window is full", cwnd_is_full, none, NS_DELAY_PACING},
        {"the peer's window is shut", window_is_shut, none, NS_DELAY_WINDOW},
        {"a shut window is probed, which is no loss", window_is_probed, none, NS_DELAY_WINDOW},
        {"segments are lost", recovers, none, NS_DELAY_LOSS},
        {"the window is probed", probes, none, NS_DELAY_LOSS},
        {"the timer backs off", backs_off, none, NS_DELAY_LOSS},
        {"something was sent again meanwhile", none, sent_again, NS_DELAY_LOSS},
        {"it recovers from a loss at the end", none, recovers, NS_DELAY_LOSS},
        {"pacing is that slow", paced, none, NS_DELAY_PACING},
    };
    struct ns_verdict verdict = spoilt(none, none);
    OK(verdict.grade == NS_GRADE_PROVEN && verdict.stalls == 1, "with all of the proof it is one");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        verdict = spoilt(rows[i].before, rows[i].after);
        OK(verdict.stalls == 0 && verdict.maybe == 0 && verdict.grade == NS_GRADE_NONE,
           "no stall where %s", rows[i].what);
        OK(verdict.delays[rows[i].cause] == 1 && about(verdict.delays_ns[rows[i].cause], 44, 1),
           "which is named for what it is");
    }
    verdict = spoilt(closes, none);
    OK(verdict.stalls == 0, "no stall where the connection is being closed");
    verdict = spoilt(window_just_fits, none);
    OK(verdict.stalls == 1,
       "a window that all of it just fits into is open, and bytes count exactly");
    verdict = spoilt(window_unknown, none);
    OK(verdict.grade == NS_GRADE_CANNOT_TELL && verdict.doubt == NS_DOUBT_NO_WINDOW,
       "a kernel that does not tell the window cannot prove it");
    verdict = spoilt(unsent_unknown, none);
    OK(verdict.grade == NS_GRADE_CANNOT_TELL && verdict.doubt == NS_DOUBT_NO_UNSENT,
       "nor one that does not tell what is unsent");
}

static void check_answers(void)
{
    struct talk talk;
    talk_begin(&talk);
    stall(&talk, 44 * MS - 10 * US, 4 * MS);
    OK(talk.hold.certain, "an answer one tick after the release follows it closely");
    talk_begin(&talk);
    stall(&talk, 44 * MS - 10 * US, 8 * MS);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(talk.hold.waited && !talk.hold.certain && verdict.stalls == 0 && verdict.maybe == 1,
       "one that comes two ticks later may have waited for something else");
    OK(verdict.grade == NS_GRADE_CANNOT_TELL && verdict.doubt == NS_DOUBT_ANSWERS,
       "and with that alone it cannot be told");
    OK(verdict.certain_ns == 0 && about(verdict.most_ns, 44, 4), "it may have cost the hold");
    talk_begin(&talk);
    talk.now.min_rtt_us = 20000;
    stall(&talk, 60 * MS, 24 * MS);
    OK(talk.hold.certain && talk_verdict(&talk).late_acks == 1,
       "on a long wire it may take a round trip, and a late ACK is told from one");
    stall(&talk, 20 * MS, 20 * MS);
    OK(talk.hold.certain && talk_verdict(&talk).stalls == 2 && talk_verdict(&talk).late_acks == 1,
       "a hold of a round trip is no late ACK");
    stall(&talk, 60 * MS, 36 * MS);
    OK(talk.hold.waited && !talk.hold.certain, "and longer than that is too long there, too");
    talk_begin(&talk);
    talk.now.min_rtt_us = UINT32_MAX;
    stall(&talk, 44 * MS, 60 * US);
    verdict = talk_verdict(&talk);
    OK(verdict.stalls == 1 && verdict.rtt_us == 0, "the round trip may be missing");
    talk_begin(&talk);
    talk_write_twice(&talk);
    talk_look(&talk, NS_LOOK_WAIT, 0);
    talk_pass(&talk, 30 * MS);
    talk_receive(&talk, ANSWER); /* it acknowledges the first piece alone */
    talk_let_go(&talk);
    talk_look(&talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED);
    verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_LATE && verdict.late == 1 && verdict.early == 1 &&
           verdict.stalls + verdict.maybe == 0,
       "an answer that does not acknowledge the bytes was on its way without them");
    talk_begin(&talk);
    stall(&talk, TICK, 60 * US);
    verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_NONE && talk.holds == 0, "a tick is too short to be told");
}

/* Waits that end early: pipes that wake, timeouts. */
static void check_wakes(void)
{
    struct talk talk;
    talk_begin(&talk);
    talk_write_twice(&talk);
    talk_look(&talk, NS_LOOK_WAIT, 0);
    talk_pass(&talk, 5 * MS);
    OK(!talk_look(&talk, NS_LOOK_WOKE, 0), "a wait that something else ends does not end the hold");
    talk_pass(&talk, 39 * MS);
    talk_let_go(&talk);
    talk_pass(&talk, 60 * US);
    talk_answer(&talk);
    OK(talk_look(&talk, NS_LOOK_WRITE, 0) && talk.hold.certain && about(talk.hold.cost, 44, 4),
       "the look at the next write finds out that the answer followed");
    talk_begin(&talk);
    for (int i = 0; i < 56; i++) {
        talk_write_twice(&talk);
        talk_look(&talk, NS_LOOK_WAIT, 0);
        talk_pass(&talk, 9 * MS);
        talk_look(&talk, NS_LOOK_WOKE, 0);
        talk_look(&talk, NS_LOOK_WRITE, 0);
        talk_let_go(&talk);
        talk_ack(&talk);
    }
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.stalls + verdict.maybe == 0 && verdict.late == 56,
       "a program that writes on while it is held has not waited");
}

static void check_waits_between(void)
{
    struct talk talk;
    talk_begin(&talk);
    talk_write_twice(&talk);
    talk_look(&talk, NS_LOOK_WAIT, 0);
    talk_pass(&talk, 4 * MS);
    talk_look(&talk, NS_LOOK_WOKE, 0);
    talk_pass(&talk, 20 * MS); /* it computes */
    talk_look(&talk, NS_LOOK_WAIT, 0);
    talk_pass(&talk, 20 * MS);
    talk_let_go(&talk);
    talk_pass(&talk, 60 * US);
    talk_answer(&talk);
    talk_look(&talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED);
    OK(talk.hold.certain && about(talk.hold.cost, 24, 4),
       "what it does between two waits has not been lost");
    talk_begin(&talk);
    talk_write_twice(&talk);
    talk_look(&talk, NS_LOOK_WAIT, 0);
    talk_pass(&talk, 9 * MS);
    talk_receive(&talk, ANSWER);
    talk_look(&talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED);
    talk_look(&talk, NS_LOOK_WAIT, 0);
    talk_pass(&talk, 35 * MS);
    talk_let_go(&talk);
    talk_answer(&talk);
    talk_look(&talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.late == 1 && verdict.stalls + verdict.maybe == 0,
       "where the peer answers while bytes are held, nobody waits for them");
    talk_begin(&talk);
    talk_write_twice(&talk);
    talk_look(&talk, NS_LOOK_WAIT, NS_LOOK_TRIED | NS_LOOK_PUSHED);
    talk_pass(&talk, 44 * MS);
    talk_let_go(&talk);
    talk_answer(&talk);
    talk_look(&talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED);
    OK(talk_verdict(&talk).stalls == 0, "what the experiment pushes is not held");
}

static void check_releases(void)
{
    struct talk talk;
    talk_begin(&talk);
    talk_write_twice(&talk);
    talk_look(&talk, NS_LOOK_WAIT, 0);
    talk_pass(&talk, 20 * MS);
    talk_release(&talk); /* the kernel's probe of the tail */
    talk_pass(&talk, 60 * US);
    talk_answer(&talk);
    talk.acked_at -= 20 * MS;
    talk_look(&talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED);
    OK(talk.hold.certain && !talk.hold.by_ack, "a timer of the kernel's may end a hold, too");
    talk_begin(&talk);
    talk_write_twice(&talk);
    talk_look(&talk, NS_LOOK_WAIT, 0);
    talk_pass(&talk, 20 * MS);
    talk_release(&talk);
    talk_pass(&talk, 60 * US);
    talk_answer(&talk);
    talk.acked_at -= 20 * MS;
    talk_look(&talk, NS_LOOK_WOKE, NS_LOOK_ARRIVED | NS_LOOK_NODELAY);
    OK(talk.holds == 0, "what the program pushes itself is its own affair");
}

static void check_outstanding(void)
{
    struct talk talk;
    talk_begin(&talk);
    talk_write_twice(&talk);
    talk_look(&talk, NS_LOOK_WAIT, 0);
    talk_pass(&talk, 44 * MS);
    talk_let_go(&talk);
    talk_look(&talk, NS_LOOK_WOKE, 0);
    OK(talk_verdict(&talk).late == 0, "an answer may still come");
    talk_pass(&talk, 10 * MS);
    talk_look(&talk, NS_LOOK_SAMPLE, 0);
    struct ns_verdict verdict = talk_verdict(&talk);
    OK(verdict.grade == NS_GRADE_LATE && verdict.late == 1, "without an answer nobody waited");
    OK(talk.holds == 0, "and the hold is not judged before that is known");
    talk_begin(&talk);
    talk_write_twice(&talk);
    talk_look(&talk, NS_LOOK_WAIT, 0);
    talk_pass(&talk, 44 * MS);
    talk_let_go(&talk);
    talk_look(&talk, NS_LOOK_WOKE, 0);
    talk_pass(&talk, 60 * US);
    talk_answer(&talk);
    talk_pass(&talk, 500 * MS);
    OK(talk_look(&talk, NS_LOOK_SAMPLE, 0) && talk.hold.certain,
       "when the answer came the kernel still knows much later");
}

int main(void)
{
    check_stalls();
    check_conditions();
    check_answers();
    check_wakes();
    check_waits_between();
    check_releases();
    check_outstanding();
    return ns_unit_done();
}
