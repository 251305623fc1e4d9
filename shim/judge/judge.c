/* SPDX-License-Identifier: MIT */
/* See judge.h. Owns the state of a connection between samples: free, held, or released and not yet
 * answered. hold.c judges a single sample, verdict.c all of them. Between two samples it assumes
 * the times that cost least, so that it never claims more than they show. */

#include "judge/judge.h"

#include <netinet/tcp.h>

enum { FREE, HELD, RELEASED };
enum { US = 1000, MS = 1000000 };
/* Milliseconds: how far apart the looks at one of many connections may be. */
enum { APART_MS = 20 };
/* A hold must be in two samples from outside: a single one may catch any segment on its way. */
enum { LOOKS_LEAST = 2 };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t ago(const struct ns_look *look, uint32_t ms)
{
    return look->at - least(look->at, (uint64_t)ms * MS);
}

static bool is_inside(const struct ns_look *look)
{
    return look->kind != NS_LOOK_SAMPLE;
}

/* The shortest hold that can be recognised: the kernel's send times are exact to a tick. */
static uint64_t shortest(const struct ns_judge *judge)
{
    return judge->tick_ns + MS;
}

/* How long an answer takes after the release if it waited for nothing else. */
static uint64_t prompt(const struct ns_judge *judge)
{
    return ns_verdict_trip(&judge->verdict) + judge->tick_ns + MS;
}

/* The end of the held bytes in the stream. */
static uint64_t end_of(const struct ns_look *held)
{
    return held->sent + held->unsent;
}

void ns_judge_begin(struct ns_judge *judge, uint64_t tick_ns)
{
    *judge = (struct ns_judge){.tick_ns = tick_ns};
}

static uint32_t saturated(uint64_t ns)
{
    return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/* Nobody waited for the hold. */
static void judge_late(struct ns_judge *judge, const struct ns_look *look, struct ns_hold *hold)
{
    judge->hold.waited = judge->hold.certain = false;
    judge->hold.cost = 0;
    *hold = judge->hold;
    judge->verdict.late++;
    judge->verdict.late_ns += hold->end - hold->begin;
    if (is_inside(look))
        ns_verdict_wait(&judge->verdict, hold->end - hold->begin, true);
    judge->state = FREE;
}

/* The evidence of this answer about all stalls that seem certain. From outside, answers that are a
 * little too late count as well: certain ones alone would always look prompt. */
static void weigh(struct ns_judge *judge, const struct ns_look *look, uint64_t since)
{
    struct ns_weigh_answer answer = {look->at, look->at - judge->wait.at, since};
    if (look->kind == NS_LOOK_WOKE && judge->hold.certain)
        ns_weigh_answer(&judge->weigh, &answer, judge->tick_ns);
    if (look->kind != NS_LOOK_SAMPLE || since > 2 * prompt(judge))
        return;
    struct ns_weigh_lag lag = {
        .low = judge->released_low, .high = look->at, .slow = !judge->hold.certain};
    if (judge->unanswered_at > 0) {
        lag.low = judge->unanswered_at;
        lag.ns = (double)(look->at + lag.low) / 2 -
                 (double)(judge->released_low + judge->released_high) / 2;
    }
    ns_weigh_lag(&judge->weigh, &lag, judge->tick_ns);
}

/* The time from the release to the answer, or more if the moment of the release is not known. */
static uint64_t gap(const struct ns_judge *judge, const struct ns_look *look)
{
    bool is_here = look->received > judge->held.received; /* not on another connection */
    uint32_t answered_ms = is_here ? look->since_received_ms : 0;
    if (look->sent != end_of(&judge->held))
        return look->at - judge->released_low;
    return look->since_sent_ms > answered_ms ? (uint64_t)(look->since_sent_ms - answered_ms) * MS
                                             : 0;
}

/* early: it answers earlier bytes. The program may wait for an answer to the held ones as well, if
 * it has several requests outstanding. */
static void judge_answer(struct ns_judge *judge, const struct ns_look *look, struct ns_hold *hold,
                         bool early)
{
    uint64_t since = early ? 0 : gap(judge, look);
    judge->hold.waited = true;
    judge->hold.certain = !early && since <= prompt(judge);
    judge->verdict.early += early;
    if (!early)
        weigh(judge, look, since);
    since = least(since, look->at - judge->hold.end); /* the hold and this are the whole wait */
    judge->hold.answered = since;
    *hold = judge->hold;
    ns_verdict_stall(&judge->verdict, hold, since);
    ns_verdict_wait(&judge->verdict, hold->end - hold->begin + since, true);
    if (is_inside(look))
        judge->verdict.requests++;
    judge->state = FREE;
}

/* The bytes were sent. Did the program wait for an answer to them? */
static bool judge_released(struct ns_judge *judge, const struct ns_look *look, struct ns_hold *hold)
{
    uint64_t end = end_of(&judge->held);
    bool arrived = look->received > judge->held.received || look->flags & NS_LOOK_ARRIVED;
    bool writes_on = look->sent > end || look->unsent > 0 || look->kind == NS_LOOK_WRITE ||
                     look->kind == NS_LOOK_WAIT;
    if (!arrived && !writes_on && look->state == TCP_ESTABLISHED) {
        judge->unanswered_at = look->at;
        return false;
    }
    /* An answer that does not acknowledge the bytes did not depend on them. */
    bool has_it = (int64_t)(look->acked - end) >= judge->ahead;
    if (!arrived || judge->hold.cost < shortest(judge)) /* it was still writing shortly before */
        judge_late(judge, look, hold);
    else
        judge_answer(judge, look, hold, judge->answered_early || !has_it);
    return true;
}

/* The program writes on. */
static void note_write(struct ns_judge *judge, uint64_t at)
{
    judge->wrote_at = at;
    judge->busy_ns = judge->paused_at = 0;
    if (judge->n_written < NS_JUDGE_WRITES)
        judge->written[judge->n_written++] = at;
}

/* Samples from outside are regular, so that they are a measure of how late writes leave: those of a
 * hold until its end, and each segment that was sent without one at once. */
static void count_lateness(struct ns_judge *judge, const struct ns_look *look, uint64_t end)
{
    uint32_t *lateness = judge->verdict.lateness;
    for (uint32_t i = 0; i < judge->n_written && !is_inside(look); i++) {
        uint64_t late = end - least(end, judge->written[i]);
        lateness[least(late / MS / NS_LATE_STEP_MS, NS_LATE_STEPS - 1)]++;
    }
    judge->n_written = 0;
}

static void begin_hold(struct ns_judge *judge, const struct ns_look *look)
{
    uint64_t begin = look->at;
    if (!is_inside(look)) {
        /* The piece before was sent then, and the held one was written later. */
        begin = ago(look, look->since_sent_ms);
        if (begin < judge->last.at)
            begin = judge->last.at;
    }
    judge->hold = (struct ns_hold){.begin = begin, .slack = saturated(look->at - begin)};
    judge->held = *look;
    judge->seen = 1;
    judge->n_written = 0;
    note_write(judge, begin);
    judge->answered_early = false;
    judge->state = HELD;
}

/* From inside, the length of the delay is known when the wait ends. */
static bool blame(struct ns_judge *judge, const struct ns_look *look, enum ns_delay delay,
                  uint64_t length)
{
    if (is_inside(look))
        judge->stuck = (uint8_t)delay;
    else
        ns_verdict_delay(&judge->verdict, delay, 1, length);
    return false;
}

/* The end of a hold shows whether it was one, or which other delay it was. */
static bool is_proven(struct ns_judge *judge, const struct ns_look *look, uint64_t length)
{
    const struct ns_look *held = &judge->held;
    if (length < shortest(judge))
        return false;
    if (look->retransmitted != held->retransmitted || look->congestion != 0)
        return blame(judge, look, NS_DELAY_LOSS, length);
    if (look->kind == NS_LOOK_SAMPLE && judge->seen < LOOKS_LEAST)
        return false;
    if (ns_hold_is_paced(held, length))
        return blame(judge, look, NS_DELAY_PACING, length);
    /* Without an ACK, a timer of the kernel or the program itself may have sent the bytes. */
    if (!judge->hold.by_ack && !is_inside(look))
        return false;
    if (!judge->hold.by_ack && look->flags & NS_LOOK_NODELAY)
        return blame(judge, look, NS_DELAY_CORK, length);
    return true;
}

static bool end_hold(struct ns_judge *judge, const struct ns_look *look, struct ns_hold *hold)
{
    struct ns_look *held = &judge->held;
    uint64_t low = held->at > judge->hold.begin ? held->at : judge->hold.begin;
    uint64_t sent_at = ago(look, look->since_sent_ms), end = low + (look->at - low) / 2;
    uint64_t slack = (look->at - low) / 2;
    bool is_last = look->sent == end_of(held); /* otherwise sent_at is that of later bytes */
    judge->state = FREE;
    if (look->sent == held->sent) /* nothing was sent: something else holds it now */
        return false;
    if (is_last) {
        end = sent_at < low ? low : sent_at;
        slack = least(judge->tick_ns, look->at - low);
    }
    uint64_t length = end - judge->hold.begin, lost = end - least(end, judge->wrote_at);
    count_lateness(judge, look, end);
    uint64_t acked_at = ago(look, look->since_ack_ms);
    judge->hold.by_ack =
        look->acked > held->acked && (!is_last || acked_at + judge->tick_ns >= sent_at);
    judge->hold.look = *held;
    if (!is_proven(judge, look, length))
        return false;
    judge->hold.end = end;
    judge->hold.cost = lost - least(lost, judge->busy_ns);
    if (judge->hold.slack < slack)
        judge->hold.slack = saturated(slack);
    judge->released_low = low;
    judge->released_high = look->at;
    judge->unanswered_at = 0;
    judge->state = RELEASED;
    return judge_released(judge, look, hold);
}

static bool continue_hold(struct ns_judge *judge, const struct ns_look *look, struct ns_hold *hold)
{
    struct ns_look *held = &judge->held;
    bool same = look->sent == held->sent && !(look->flags & NS_LOOK_PUSHED) &&
                ns_hold_why(look, &judge->last) == NS_DELAY_NAGLE;
    if (!same)
        return end_hold(judge, look, hold);
    /* It was still writing; it may wait from now on. */
    if (look->kind == NS_LOOK_WRITE || look->unsent > held->unsent)
        note_write(judge, is_inside(look) ? look->at : judge->last.at);
    if (look->received > held->received)
        judge->answered_early = true;
    if (look->kind == NS_LOOK_WOKE)
        judge->paused_at = look->at;
    if (look->kind == NS_LOOK_WAIT && judge->paused_at > 0)
        judge->busy_ns += look->at - judge->paused_at;
    judge->held = *look;
    judge->seen++;
    return false;
}

static uint32_t pure_acks(const struct ns_look *look)
{
    return look->sent_segments - look->data_segments;
}

/* From outside: did this end's data come about one round trip after a delayed ACK of this end? Then
 * the peer may have held it until that ACK came. What this end sends itself may have caused the
 * data, too. */
static void watch_ack(struct ns_judge *judge, const struct ns_look *look)
{
    const struct ns_look *last = &judge->last;
    struct ns_verdict *verdict = &judge->verdict;
    uint64_t trip = (uint64_t)verdict->rtt_us * US, since = look->at - judge->came_at;
    bool came = look->received > last->received, sent = look->sent > last->sent;
    /* What it sends has the ACK. Data in the same sample is an answer to it, and the ACK that of
     * the answer, if it had waited to be sent, or if no delayed ACK takes so long. */
    if (sent &&
        (!came || last->unsent > 0 || since > (uint64_t)NS_DELAYED_ACK_MOST_MS * MS + 2 * trip))
        judge->lone_low = judge->came_at = 0;
    else if (judge->lone_low == 0 && judge->came_at > 0 && pure_acks(look) != pure_acks(last) &&
             since >= (uint64_t)NS_DELAYED_ACK_LEAST_MS * MS) {
        judge->lone_low = last->at;
        judge->lone_high = look->at;
    }
    if (came && judge->lone_low > 0) {
        uint64_t high = look->at - judge->lone_low;
        uint64_t low = last->at > judge->lone_high ? last->at - judge->lone_high : 0;
        /* On its way, or at a busy end, it may be late. */
        bool is_gap = high >= trip && low <= trip + trip / 2 + 2 * judge->tick_ns;
        verdict->lone_acks++;
        verdict->gaps += is_gap;
        verdict->gaps_ns += is_gap ? look->at - judge->came_at : 0;
    }
    if (came) {
        judge->lone_low = 0;
        judge->came_at = last->at;
    }
}

/* From outside: how long nothing was sent or received, and why. */
static void watch_stand(struct ns_judge *judge, const struct ns_look *look)
{
    const struct ns_look *last = &judge->last;
    bool answered = look->received > last->received, wrote = look->sent > last->sent;
    /* A sample that shows both may show a request and its answer, if nothing is unacknowledged. */
    bool both = answered && wrote && look->unacked == 0, replied = answered && judge->spoke;
    uint64_t gaps = judge->verdict.gaps;
    if (last->at > 0)
        watch_ack(judge, look);
    else
        judge->stuck_at = look->at;
    if (last->at > 0 && (answered || wrote)) {
        uint64_t length = look->at - judge->stuck_at;
        /* Between looks that are far apart, several answers may have come. */
        bool counts = look->at - last->at < (uint64_t)APART_MS * MS &&
                      (judge->stuck != NS_DELAY_PEER || replied || judge->verdict.gaps > gaps);
        if (judge->state == FREE && counts && length >= shortest(judge)) {
            ns_verdict_delay(&judge->verdict, (enum ns_delay)judge->stuck, 1, length);
            /* Behind this end's delayed ACK, the peer's bytes may have been held. */
            if (replied && judge->verdict.gaps == gaps)
                ns_verdict_wait(&judge->verdict, length, false);
        }
        judge->stuck_at = look->at;
        judge->stuck = NS_DELAY_PEER;
    }
    judge->verdict.requests += replied || both;
    judge->spoke = (wrote && !both) || (judge->spoke && !answered);
}

/* The sample before, of this connection. */
static const struct ns_look *before(const struct ns_judge *judge)
{
    return judge->last.at > 0 ? &judge->last : NULL;
}

static void note_delay(struct ns_judge *judge, const struct ns_look *look)
{
    enum ns_delay delay = ns_hold_why(look, before(judge));
    if (delay != NS_DELAY_PEER && delay < NS_DELAY_COUNT && judge->stuck != NS_DELAY_WINDOW)
        judge->stuck = (uint8_t)delay;
}

static void watch_wait(struct ns_judge *judge, const struct ns_look *look, bool ended)
{
    if (look->kind == NS_LOOK_WAIT) {
        judge->wait = *look;
        judge->stuck = NS_DELAY_PEER;
        note_delay(judge, look);
    } else if (look->kind == NS_LOOK_WOKE && judge->wait.at > 0) {
        uint64_t length = look->at - judge->wait.at;
        judge->verdict.waited_ns += length;
        judge->wait.at = 0;
        if (judge->state != FREE || ended)
            return;
        /* Without a hold: why was it long? */
        note_delay(judge, look);
        ns_verdict_wait(&judge->verdict, length, false);
        judge->verdict.requests += look->received > judge->wait.received;
        if (length >= shortest(judge))
            ns_verdict_delay(&judge->verdict, (enum ns_delay)judge->stuck, 1, length);
    }
}

static void note(struct ns_judge *judge, const struct ns_look *look)
{
    struct ns_verdict *verdict = &judge->verdict;
    if (verdict->looks++ == 0)
        judge->first_at = look->at;
    if (judge->last.at > 0)
        verdict->segments += look->sent_segments - judge->last.sent_segments;
    if (judge->last.at > 0 && judge->state != HELD && !is_inside(look))
        verdict->lateness[0] += look->data_segments - judge->last.data_segments;
    if (look->min_rtt_us != UINT32_MAX && look->min_rtt_us > 0 &&
        (verdict->rtt_us == 0 || look->min_rtt_us < verdict->rtt_us))
        verdict->rtt_us = look->min_rtt_us;
    if (look->unacked == 0)
        judge->ahead = (int64_t)(look->acked - look->sent);
    verdict->watched_ns = look->at - judge->first_at;
}

/* Can this sample begin a hold? */
static bool may_begin(struct ns_judge *judge, const struct ns_look *look)
{
    if (judge->state != FREE || look->flags & NS_LOOK_PUSHED ||
        (look->kind != NS_LOOK_SAMPLE && look->kind != NS_LOOK_WAIT))
        return false;
    enum ns_delay why = ns_hold_why(look, before(judge));
    if (why == NS_DELAY_UNPROVABLE &&
        (look->sent != judge->last.sent || look->unsent != judge->last.unsent))
        judge->verdict.unprovable++;
    return why == NS_DELAY_NAGLE;
}

/* Bytes that were released and not answered are late. */
static void end_release(const struct ns_judge *judge, struct ns_verdict *verdict)
{
    if (judge->state != RELEASED || judge->last.at - judge->hold.end <= prompt(judge))
        return;
    verdict->late++;
    verdict->late_ns += judge->hold.cost;
}

bool ns_judge_is_close(const struct ns_judge *judge)
{
    uint64_t held = judge->last.at - judge->hold.begin;
    if (judge->state == HELD)
        return held >= (uint64_t)NS_DELAYED_ACK_LEAST_MS * MS &&
               held <= (uint64_t)NS_DELAYED_ACK_MOST_MS * MS;
    return judge->state == RELEASED && judge->last.at - judge->hold.end <= 2 * prompt(judge);
}

void ns_judge_next(struct ns_judge *judge)
{
    end_release(judge, &judge->verdict);
    judge->state = FREE;
    judge->last.at = judge->wait.at = judge->came_at = judge->lone_low = 0;
    judge->last.acked = judge->last.received = judge->last.sent = 0;
    judge->spoke = false;
}

bool ns_judge_look(struct ns_judge *judge, const struct ns_look *look, struct ns_hold *hold)
{
    const struct ns_look *last = &judge->last;
    bool ended = false;
    if (look->at < last->at)
        return false; /* out of order, it would be misleading */
    if (look->acked < last->acked || look->received < last->received || look->sent < last->sent)
        ns_judge_next(judge);
    note(judge, look);
    if (!is_inside(look))
        watch_stand(judge, look);
    if (judge->state == HELD)
        ended = continue_hold(judge, look, hold);
    else if (judge->state == RELEASED)
        ended = judge_released(judge, look, hold);
    if (is_inside(look))
        watch_wait(judge, look, ended);
    else
        note_delay(judge, look);
    if (may_begin(judge, look))
        begin_hold(judge, look);
    judge->last = *look;
    return ended;
}

void ns_judge_verdict(const struct ns_judge *judge, struct ns_verdict *verdict)
{
    *verdict = judge->verdict;
    end_release(judge, verdict);
    if (ns_weigh_doubts(&judge->weigh, judge->tick_ns, ns_verdict_trip(verdict) + MS))
        ns_verdict_doubt(verdict);
    ns_verdict_grade(verdict);
}

void ns_judge_take(struct ns_judge *judge, struct ns_verdict *verdict)
{
    ns_judge_verdict(judge, verdict);
    judge->verdict = (struct ns_verdict){.looks = verdict->looks, .rtt_us = verdict->rtt_us};
    judge->weigh = (struct ns_weigh){0};
}
