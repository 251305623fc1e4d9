/* SPDX-License-Identifier: MIT */
/* See judge.h. Owns the sums and what may be claimed from them; never sees a single sample. */
#include "judge/judge.h"

#include "judge/statistics.h"

#include <math.h>

enum { US = 1000, MS = 1000000 };
/* By chance an answer follows a release closely now and then. With fewer stalls than this part of
 * the possible ones, all of them may be chance; and with more early answers than this part of them,
 * too. */
enum { CHANCE = 8 };
/* Arrivals within the tick; fewer say nothing. Measured at 250 ticks a second, their concentration
 * is 0.98 to 1.00 behind a delayed ACK and 0.02 to 0.27 behind slow peers. Between the tick and the
 * arrival, softirqs and the program take no longer than this. */
enum { ARRIVALS_LEAST = 8, BEHIND_TICK_US = 300 };
/* Fewer waits without a hold, or less than this part of the number with one, are no reference: they
 * may be slow for other reasons. */
enum { FREE_LEAST = 4, FREE_PART = 8, FREE_PART_OUTSIDE = 4, FEW = 4 };
/* Phases before the tick that count as behind it: one processor advances the coarse clock, and the
 * timers of another may fire shortly before. */
enum { BEFORE_TICK = 1 };
static const double concentrated = 0.8;
/* Means of two kinds of waits count as equal up to this factor. */
#define ALIKE 1.5
/* An experiment needs this many waits of either kind. Answers that take more than this part of
 * the time, and not so much less or more, are no gain. */
enum { TRIED_LEAST = 4, GAIN_LEAST_MS = 5 };
#define NO_GAIN 0.9

/* By chance data may come this often, and for less than this part of the delayed ACKs, as if the
 * peer had waited for the ACK. */
enum { GAPS_LEAST = 3, GAPS_PART = 4 };

uint64_t ns_verdict_trip(const struct ns_verdict *verdict)
{
    return (uint64_t)verdict->rtt_us * US * 5 / 4;
}

static size_t bucket(uint64_t ns)
{
    size_t n = 0;
    for (uint64_t us = ns / US; us > 1 && n < NS_WAIT_BUCKETS - 1; us /= 2)
        n++;
    return n;
}

void ns_verdict_wait(struct ns_verdict *verdict, uint64_t ns, bool held)
{
    verdict->waits[bucket(ns)]++;
    verdict->held_waits[bucket(ns)] += held;
    verdict->held_waits_ns += held ? ns : 0;
    verdict->free += !held;
    verdict->free_ns += held ? 0 : ns;
}

void ns_verdict_delay(struct ns_verdict *verdict, enum ns_delay delay, uint64_t n, uint64_t ns)
{
    if (delay == NS_DELAY_PEER && ns <= n * ns_verdict_trip(verdict))
        delay = NS_DELAY_WIRE;
    verdict->delays[delay] += n;
    verdict->delays_ns[delay] += ns;
}

/* Did its ACK take as long, after the piece before it was sent, as a delayed one takes? */
static bool is_delayed(const struct ns_hold *hold, uint32_t rtt_us)
{
    uint64_t took = hold->end - hold->look.at + (uint64_t)hold->look.since_sent_ms * MS;
    return took >= (uint64_t)rtt_us * US + (uint64_t)NS_DELAYED_ACK_LEAST_MS * MS;
}

void ns_verdict_stall(struct ns_verdict *verdict, const struct ns_hold *hold, uint64_t since)
{
    const struct ns_hold *proof = &verdict->proof;
    verdict->most_ns += hold->cost;
    double mean = (double)verdict->most_ns / (double)(verdict->stalls + verdict->maybe + 1);
    bool better = hold->certain != proof->certain
                      ? hold->certain
                      : fabs((double)hold->cost - mean) < fabs((double)proof->cost - mean);
    if (proof->end == 0 || better)
        verdict->proof = *hold;
    if (verdict->slack_ns < hold->slack)
        verdict->slack_ns = hold->slack;
    verdict->answered_ns += since;
    if (!hold->certain) {
        verdict->maybe++;
        return;
    }
    if (verdict->stalls == 0 || hold->cost < verdict->shortest_ns)
        verdict->shortest_ns = hold->cost;
    if (hold->cost > verdict->longest_ns)
        verdict->longest_ns = hold->cost;
    verdict->stalls++;
    verdict->certain_ns += hold->cost;
    verdict->prompt_ns += since;
    verdict->late_acks += is_delayed(hold, verdict->rtt_us);
}

void ns_verdict_waits(struct ns_verdict *verdict, const uint32_t buckets[NS_WAIT_BUCKETS],
                      uint64_t waited_ns)
{
    verdict->waited_ns += waited_ns;
    verdict->free_ns += waited_ns;
    for (size_t n = 0; n < NS_WAIT_BUCKETS; n++) {
        verdict->waits[n] += buckets[n];
        verdict->requests += buckets[n];
        verdict->free += buckets[n];
    }
}

void ns_verdict_arrivals(struct ns_verdict *verdict, const uint32_t phases[NS_PHASES],
                         uint64_t waited_ns, uint64_t tick_ns)
{
    uint64_t all = 0, behind = 0;
    uint64_t tick = tick_ns ? tick_ns : 1;
    size_t most = (size_t)((uint64_t)BEHIND_TICK_US * US * NS_PHASES / tick);
    size_t trip = (size_t)((uint64_t)verdict->rtt_us * US % tick * NS_PHASES / tick);
    for (size_t i = 0; i < NS_PHASES; i++) {
        all += phases[i];
        if ((i + NS_PHASES + BEFORE_TICK - trip) % NS_PHASES <= most + BEFORE_TICK)
            behind += phases[i];
    }
    if (all < ARRIVALS_LEAST || ns_statistics_resultant(phases, NS_PHASES) < concentrated)
        return;
    /* This end's delayed ACK never takes longer; the peer's own cork does, for 200 ms. */
    if (waited_ns / all > (uint64_t)NS_DELAYED_ACK_MOST_MS * MS + ns_verdict_trip(verdict))
        return;
    /* A timer of the peer may follow a tick, too, but not the phase of this kernel's tick. */
    if ((double)behind < concentrated * (double)all)
        return;
    verdict->receiving += all;
    verdict->receiving_ns += waited_ns;
}

void ns_verdict_parts(struct ns_verdict *verdict, uint64_t n, uint64_t ns)
{
    if (verdict->receiving == 0) /* otherwise the delayed ACK explains them */
        ns_verdict_delay(verdict, NS_DELAY_PEER, n, ns);
}

void ns_verdict_doubt(struct ns_verdict *verdict)
{
    verdict->maybe += verdict->stalls;
    verdict->stalls = verdict->late_acks = 0;
    verdict->certain_ns = verdict->prompt_ns = verdict->shortest_ns = verdict->longest_ns = 0;
    verdict->proof.certain = false;
}

/* Do waits without a hold take as long as most of those with one? Then the hold makes no
 * difference: the peer needs that long, or follows its own clock, as a feed with a period of 42 ms
 * does. Of a busy machine, some waits of either kind are longer. */
static bool is_no_slower(const struct ns_verdict *verdict)
{
    uint64_t held = 0, shorter = 0;
    size_t usual = 0;
    for (size_t n = 0; n < NS_WAIT_BUCKETS; n++) {
        held += verdict->held_waits[n];
        if (verdict->held_waits[n] > verdict->held_waits[usual])
            usual = n;
    }
    for (size_t n = 0; n < usual; n++)
        shorter += verdict->waits[n] - verdict->held_waits[n];
    uint64_t alike = verdict->waits[usual] - verdict->held_waits[usual];
    if (held == 0 || alike < FREE_LEAST || alike <= shorter)
        return false;
    /* The buckets are coarse: a delayed ACK of 44 ms and an answer that takes 60 are in one. */
    uint64_t slow = verdict->delays[NS_DELAY_PEER];
    double as_held = (double)verdict->held_waits_ns / (double)held;
    double as_slow = slow ? (double)verdict->delays_ns[NS_DELAY_PEER] / (double)slow : as_held;
    if (alike < held && fabs(as_slow - as_held) > as_held / 5)
        return false;
    if (verdict->calls == 0) /* from outside, such a wait may have an unseen hold */
        return alike * FREE_PART_OUTSIDE >= held;
    /* A server waits for requests, which may come at any time. */
    return verdict->asks ? verdict->receiving == 0 && alike * FREE_PART >= held
                         : alike >= held * FEW;
}

/* Do answers take as long after the release as they take for requests without a hold? Then they
 * seem to have waited for it: a peer that works on the first piece would take its usual time from
 * the first write on. */
static bool follows_release(const struct ns_verdict *verdict)
{
    /* From outside, a wait without a hold may be one whose hold was not sampled. */
    uint64_t n = verdict->maybe + verdict->stalls;
    if (verdict->maybe == 0 || verdict->free == 0 || verdict->early > 0 || is_no_slower(verdict) ||
        (verdict->calls == 0 &&
         (verdict->free < FREE_LEAST || verdict->free * FREE_PART_OUTSIDE < n)))
        return false;
    double answered = (double)verdict->answered_ns / (double)n;
    double held = (double)verdict->most_ns / (double)n;
    double free = (double)verdict->free_ns / (double)verdict->free;
    double most = answered * ALIKE + verdict->slack_ns; /* release times are exact to a tick */
    /* A feed with a period of about a hold sometimes waits for the next one. */
    if (verdict->free >= n * FEW && free * 2 > held)
        return false;
    return free > answered / ALIKE && free < most && free < (answered + held) / 2;
}

static bool is_behind_acks(const struct ns_verdict *verdict)
{
    return verdict->gaps >= GAPS_LEAST && verdict->gaps * GAPS_PART >= verdict->lone_acks;
}

void ns_verdict_grade(struct ns_verdict *verdict)
{
    verdict->grade = NS_GRADE_CANNOT_TELL;
    verdict->doubt = NS_DOUBT_NOTHING;
    /* A peer that also sends before it has received the held bytes follows its own clock. From
     * outside, data may come after one of many holds by chance. */
    if (verdict->stalls > 0 &&
        (is_no_slower(verdict) || verdict->early * CHANCE > verdict->stalls ||
         (verdict->calls == 0 && verdict->stalls * CHANCE <= verdict->late)))
        ns_verdict_doubt(verdict);
    if (verdict->stalls * CHANCE > verdict->maybe)
        verdict->grade = NS_GRADE_PROVEN;
    else if (verdict->receiving > 0 || verdict->delivered > 0 ||
             (verdict->stalls == 0 && follows_release(verdict)))
        verdict->grade = NS_GRADE_LIKELY;
    else if (verdict->unprovable > 0)
        verdict->doubt = NS_DOUBT_NO_WINDOW;
    else if (verdict->maybe > 0)
        verdict->doubt = NS_DOUBT_ANSWERS;
    else if (is_behind_acks(verdict))
        verdict->doubt = NS_DOUBT_PEER;
    else if (verdict->late > 0)
        verdict->grade = NS_GRADE_LATE;
    else if (verdict->segments == 0 && verdict->calls == 0 && verdict->requests == 0 &&
             verdict->free == 0)
        verdict->doubt = NS_DOUBT_NO_LOOKS;
    else
        verdict->grade = NS_GRADE_NONE;
}

void ns_verdict_add(struct ns_verdict *sum, const struct ns_verdict *one)
{
    if (one->stalls && (sum->stalls == 0 || one->shortest_ns < sum->shortest_ns))
        sum->shortest_ns = one->shortest_ns;
    if (one->longest_ns > sum->longest_ns)
        sum->longest_ns = one->longest_ns;
    if (one->watched_ns > sum->watched_ns)
        sum->watched_ns = one->watched_ns;
    if (one->rtt_us && (sum->rtt_us == 0 || one->rtt_us < sum->rtt_us))
        sum->rtt_us = one->rtt_us;
    if (one->slack_ns > sum->slack_ns)
        sum->slack_ns = one->slack_ns;
    if (one->proof.end && (sum->proof.end == 0 || (one->proof.certain && !sum->proof.certain)))
        sum->proof = one->proof;
    sum->asks |= one->asks;
#define NS_SUM(name) sum->name += one->name;
    NS_VERDICT_SUMS(NS_SUM)
#undef NS_SUM
    for (enum ns_delay delay = 0; delay < NS_DELAY_COUNT; delay++) {
        sum->delays[delay] += one->delays[delay];
        sum->delays_ns[delay] += one->delays_ns[delay];
    }
    for (size_t i = 0; i < NS_WAIT_BUCKETS; i++) {
        sum->waits[i] += one->waits[i];
        sum->held_waits[i] += one->held_waits[i];
    }
    for (size_t i = 0; i < NS_LATE_STEPS; i++)
        sum->lateness[i] += one->lateness[i];
    ns_verdict_grade(sum);
}

static bool is_gain(double from_ms, double to_ms)
{
    return to_ms <= from_ms * NO_GAIN || from_ms - to_ms >= GAIN_LEAST_MS;
}

enum ns_effect ns_verdict_effect(const struct ns_trial *trial)
{
    /* On an idle machine, even a difference of a push's own time is significant. */
    bool significant = trial->p < NS_P_SIGNIFICANT;
    if (trial->done < TRIED_LEAST || trial->left < TRIED_LEAST)
        return NS_EFFECT_UNKNOWN;
    if (is_gain(trial->left_ms, trial->done_ms))
        return significant ? NS_EFFECT_FASTER : NS_EFFECT_CHANCE;
    return significant && is_gain(trial->done_ms, trial->left_ms) ? NS_EFFECT_SLOWER
                                                                  : NS_EFFECT_NO_GAIN;
}

bool ns_verdict_may_explain(const struct ns_verdict *holder, const struct ns_verdict *reader)
{
    uint64_t n = holder->late + holder->maybe + holder->stalls,
             waits = reader->receiving + reader->gaps;
    uint64_t held = holder->late_ns + holder->most_ns,
             waited = reader->receiving_ns + reader->gaps_ns;
    return n > 0 && (waits == 0 || held / n >= waited / waits / 2);
}

void ns_verdict_meet(struct ns_verdict *verdict, const struct ns_verdict *reader)
{
    uint64_t n = verdict->late + verdict->maybe, ns = verdict->late_ns + verdict->most_ns;
    /* From inside, its waits are known; from outside, one that answers may follow another clock. */
    uint64_t behind = reader->receiving;
    if (behind == 0 && verdict->late > verdict->maybe && is_behind_acks(reader))
        behind = reader->gaps;
    if (verdict->grade >= NS_GRADE_LIKELY || behind == 0 || n < GAPS_LEAST ||
        n * GAPS_PART < behind || behind * 2 < n || !ns_verdict_may_explain(verdict, reader))
        return;
    verdict->maybe = verdict->delivered = n;
    verdict->most_ns = ns;
    verdict->late = verdict->late_ns = 0;
    ns_verdict_grade(verdict);
}

void ns_verdict_outweigh(struct ns_verdict *verdict, uint64_t waited_ns)
{
    if (verdict->stalls == 0 || verdict->calls > 0 || verdict->most_ns * CHANCE > waited_ns)
        return;
    ns_verdict_doubt(verdict);
    ns_verdict_grade(verdict);
}

void ns_verdict_doubt_few(struct ns_verdict *verdict)
{
    if (verdict->stalls == 0 || verdict->stalls >= FEW ||
        verdict->stalls * CHANCE > verdict->delays[NS_DELAY_PEER])
        return;
    ns_verdict_doubt(verdict);
    ns_verdict_grade(verdict);
}

void ns_verdict_bound_receiving(struct ns_verdict *verdict, uint64_t held, uint64_t held_ns)
{
    if (held * GAPS_PART < verdict->receiving) { /* not even for these is it likely then */
        if (held > 0 && verdict->gaps < verdict->receiving) {
            verdict->gaps = verdict->lone_acks = verdict->receiving;
            verdict->gaps_ns = verdict->receiving_ns;
        }
        held = held_ns = 0;
    }
    uint64_t n = verdict->receiving < held ? verdict->receiving : held;
    uint64_t ns = verdict->receiving_ns < held_ns ? verdict->receiving_ns : held_ns;
    if (verdict->delays_ns[NS_DELAY_PEER] < verdict->receiving_ns - ns) {
        verdict->delays[NS_DELAY_PEER] = verdict->receiving - (n < verdict->receiving ? n : 0);
        verdict->delays_ns[NS_DELAY_PEER] = verdict->receiving_ns - ns;
    }
    verdict->receiving = n;
    verdict->receiving_ns = ns;
    ns_verdict_grade(verdict);
}

void ns_verdict_clear_gaps(struct ns_verdict *verdict)
{
    verdict->gaps = verdict->gaps_ns = 0;
    ns_verdict_grade(verdict);
}

bool ns_verdict_try(struct ns_verdict *verdict, const struct ns_trial *trial)
{
    enum ns_effect effect = ns_verdict_effect(trial);
    uint64_t tried = trial->what == NS_EXPERIMENT_PUSH ? verdict->stalls + verdict->maybe
                                                       : verdict->receiving + verdict->gaps;
    if (tried == 0 || effect == NS_EFFECT_UNKNOWN || effect == NS_EFFECT_CHANCE)
        return false;
    if (effect == NS_EFFECT_FASTER) {
        if (trial->what == NS_EXPERIMENT_ACKNOWLEDGE && verdict->receiving == 0) {
            verdict->receiving = verdict->gaps;
            verdict->receiving_ns = verdict->gaps_ns;
            verdict->delays[NS_DELAY_PEER] = verdict->delays_ns[NS_DELAY_PEER] = 0;
        }
        verdict->grade = NS_GRADE_PROVEN;
        verdict->doubt = NS_DOUBT_NOTHING;
        return true;
    }
    if (trial->what == NS_EXPERIMENT_ACKNOWLEDGE) {
        ns_verdict_bound_receiving(verdict, 0, 0);
        ns_verdict_clear_gaps(verdict);
        return false;
    }
    /* The bytes were held, but no answer waited for them. */
    ns_verdict_doubt(verdict);
    verdict->late += verdict->maybe;
    verdict->late_ns += verdict->most_ns;
    verdict->maybe = verdict->early = verdict->delivered = verdict->most_ns = 0;
    ns_verdict_grade(verdict);
    return false;
}

struct ns_conclusion ns_verdict_conclude(const struct ns_verdict *verdict,
                                         const struct ns_trial *cure)
{
    struct ns_conclusion conclusion = {
        .stalls = verdict->grade == NS_GRADE_PROVEN || verdict->grade == NS_GRADE_LIKELY,
        .holds = verdict->stalls > 0 || verdict->receiving == 0,
    };
    uint64_t lost = !conclusion.holds         ? verdict->receiving_ns
                    : verdict->certain_ns > 0 ? verdict->certain_ns
                                              : verdict->most_ns;
    conclusion.certain = cure || (conclusion.holds && verdict->certain_ns > 0);
    if (!conclusion.stalls)
        return conclusion;
    conclusion.stalled = !conclusion.holds     ? verdict->receiving
                         : verdict->stalls > 0 ? verdict->stalls
                                               : verdict->maybe;
    conclusion.lost_ms =
        cure ? (double)conclusion.stalled * (cure->left_ms - cure->done_ms) : (double)lost / 1e6;
    return conclusion;
}

double ns_verdict_lateness(const struct ns_verdict *verdict, double part)
{
    uint64_t all = 0, left = 0;
    size_t step = 0;
    for (size_t i = 0; i < NS_LATE_STEPS; i++)
        all += verdict->lateness[i];
    while (step < NS_LATE_STEPS - 1 &&
           (double)(left += verdict->lateness[step]) < part * (double)all)
        step++;
    return (double)(step * NS_LATE_STEP_MS);
}

const char *ns_grade_name(enum ns_grade grade)
{
    static const char *const names[] = {"cannot tell", "none", "late but nobody waited", "likely",
                                        "proven"};
    return names[grade];
}
