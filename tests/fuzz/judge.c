/* SPDX-License-Identifier: MIT */
/* Fuzzes the judge with connections that the input's bytes control, or with random samples. The
 * verdict must be consistent: sums are those of the reported holds, the certain loss is at most the
 * possible one, and a stall is reported only after a sample that has the whole proof.
 * NS_FUZZ_BROKEN in the environment: the check asks for too much proof, so that it fails. */
#include "../unit/looks.h"
#include "must.h"

/* The judge's reports, and the last samples that could have contained its proof. */
struct told {
    uint64_t stalls, maybe, late, certain_ns, most_ns;
    uint64_t ends; /* connections, each of which may leave a hold without an answer */
    bool proof;    /* since the last reported hold a sample had the whole proof */
};

/* The proof of the specification, written independently. */
static bool is_proof(const struct ns_look *look)
{
    uint64_t in_flight = (uint64_t)look->unacked * look->mss;
    if (look->sent >= look->acked && look->sent + 1 - look->acked < in_flight)
        in_flight = look->sent + 1 - look->acked;
    return look->state == TCP_ESTABLISHED && look->unsent > 0 && look->unsent < look->mss &&
           look->unacked > 0 && look->unacked < look->cwnd &&
           in_flight + look->unsent <= look->window && look->congestion == 0 && look->probes == 0 &&
           look->backoff == 0 && (look->flags & NS_LOOK_KNOWS_WINDOW) &&
           !(look->flags & (NS_LOOK_NODELAY | NS_LOOK_CORK)) &&
           !(getenv("NS_FUZZ_BROKEN") && look->cwnd == 10);
}

static void check_hold(struct told *told, const struct ns_hold *hold)
{
    MUST(told->proof);
    MUST(is_proof(&hold->look));
    MUST(hold->begin <= hold->end);
    MUST(hold->cost <= hold->end - hold->begin);
    MUST(!hold->certain || hold->waited);
    MUST(hold->waited || hold->cost == 0);
    told->proof = false;
    told->late += !hold->waited;
    told->stalls += hold->certain;
    told->maybe += hold->waited && !hold->certain;
    told->most_ns += hold->cost;
    if (hold->certain)
        told->certain_ns += hold->cost;
}

static void check_verdict(const struct ns_judge *judge, const struct told *told)
{
    struct ns_verdict verdict;
    ns_judge_verdict(judge, &verdict);
    bool doubted = verdict.stalls == 0 && told->stalls > 0;
    MUST(verdict.stalls + verdict.maybe == told->stalls + told->maybe);
    MUST(doubted || verdict.stalls == told->stalls);
    MUST(verdict.late >= told->late && verdict.late - told->late <= told->ends + 1);
    MUST(verdict.most_ns == told->most_ns);
    MUST(verdict.certain_ns == (doubted ? 0 : told->certain_ns));
    MUST(verdict.certain_ns <= verdict.most_ns);
    MUST(verdict.late_acks <= verdict.stalls && verdict.shortest_ns <= verdict.longest_ns);
    MUST(verdict.grade != NS_GRADE_PROVEN || (verdict.stalls > 0 && verdict.proof.certain));
    MUST((verdict.grade == NS_GRADE_CANNOT_TELL) == (verdict.doubt != NS_DOUBT_NOTHING));
    for (int i = 0; i < NS_WAIT_BUCKETS; i++)
        MUST(verdict.held_waits[i] <= verdict.waits[i]);
    /* No claim exceeds what was held. */
    const struct ns_conclusion claim = ns_verdict_conclude(&verdict, NULL);
    MUST(claim.stalled <= told->stalls + told->maybe &&
         claim.lost_ms <= (double)told->most_ns / 1e6);
    struct ns_verdict other = verdict, reader = verdict;
    reader.receiving = reader.gaps = reader.lone_acks = 2 * verdict.late + verdict.maybe;
    reader.receiving_ns = reader.gaps_ns = verdict.late_ns;
    ns_verdict_meet(&other, &reader);
    const struct ns_conclusion both = ns_verdict_conclude(&other, NULL);
    MUST(both.stalled <= verdict.stalls + verdict.maybe + verdict.late);
    MUST(both.lost_ms <= (double)(verdict.most_ns + verdict.late_ns) / 1e6);
    ns_verdict_bound_receiving(&reader, verdict.late, verdict.late_ns / 2);
    MUST(reader.receiving <= verdict.late && reader.receiving_ns <= verdict.late_ns / 2);
    struct ns_verdict sum = {0};
    ns_verdict_add(&sum, &verdict);
    MUST(sum.grade == verdict.grade && sum.doubt == verdict.doubt);
    ns_verdict_add(&sum, &verdict);
    bool more_doubt = sum.stalls == 0; /* more waits may raise one */
    MUST(sum.most_ns == 2 * verdict.most_ns && (more_doubt || sum.stalls == 2 * verdict.stalls));
}

static bool is_other_connection(const struct ns_look *look, const struct ns_look *last)
{
    return look->at >= last->at && (look->acked < last->acked || look->received < last->received ||
                                    look->sent < last->sent);
}

static void do_something(struct input *in, struct ns_look *now)
{
    unsigned what = take(in, 16), how = take(in, 256);
    if (what < 3) { /* a segment leaves */
        now->sent += 1 + how;
        now->unacked++;
        now->sent_segments++;
        now->since_sent_ms = 0;
    } else if (what < 5) {
        now->unsent += how;
    } else if (what < 7 && now->unacked) { /* the peer's ACK of everything */
        now->acked = now->sent + 1;
        now->unacked = 0;
        now->since_ack_ms = 0;
    } else if (what < 9 && now->unsent) { /* the held bytes leave */
        now->sent += now->unsent;
        now->unsent = 0;
        now->unacked++;
        now->since_sent_ms = 0;
    } else if (what < 11) {
        now->received += 1 + how;
        now->since_received_ms = 0;
    } else if (what == 11) {
        now->retransmitted++;
    } else if (what == 12) {
        now->congestion = how < 200 ? 0 : (uint8_t)(how % 5);
    } else if (what == 13) {
        now->window = how < 128 ? 65536 : how * 16;
    } else if (what == 14) {
        now->pacing = how < 128 ? UINT64_MAX : how * 1000;
    } else {
        now->probes = how > 240;
        now->state = how < 250 ? TCP_ESTABLISHED : TCP_CLOSE_WAIT;
    }
}

static void pass(struct input *in, struct ns_look *now)
{
    uint32_t ms = take(in, 8) == 0 ? take(in, 256) : take(in, 8);
    now->at += (uint64_t)ms * MS + take(in, 256) * 1000;
    now->since_sent_ms += ms;
    now->since_ack_ms += ms;
    now->since_received_ms += ms;
}

static uint16_t take_flags(struct input *in)
{
    uint16_t flags = NS_LOOK_KNOWS_WINDOW;
    unsigned how = take(in, 64);
    if (how == 63)
        flags = (uint16_t)(take(in, 256) | take(in, 2) << 8);
    if (how == 62)
        flags |= NS_LOOK_NODELAY;
    return flags;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct talk talk;
    struct ns_judge *const judge = &talk.judge;
    struct told told = {0};
    bool inside = take(&in, 2), mixed = take(&in, 8) == 0;
    talk_begin(&talk);
    ns_judge_begin(judge, take(&in, 2) ? 4 * MS : take(&in, 4) ? 1 * MS : 0);
    while (in.at < in.end) {
        for (unsigned n = take(&in, 4); n > 0; n--)
            do_something(&in, &talk.now);
        pass(&in, &talk.now);
        struct ns_look look = talk.now;
        if (take(&in, 64) == 63) /* a random sample */
            for (size_t n = take(&in, sizeof look); n > 0; n--)
                ((uint8_t *)&look)[take(&in, sizeof look)] = (uint8_t)take(&in, 256);
        look.flags = take_flags(&in);
        look.kind = (uint8_t)(mixed ? take(&in, 4) : inside ? 1 + take(&in, 3) : NS_LOOK_SAMPLE);
        bool next = take(&in, 64) == 63, other = is_other_connection(&look, &judge->last);
        if (next)
            ns_judge_next(judge);
        told.ends += next || other;
        told.proof &= !next && !other;
        struct ns_hold hold;
        if (ns_judge_look(judge, &look, &hold))
            check_hold(&told, &hold);
        told.proof |= is_proof(&look);
    }
    check_verdict(judge, &told);
    return 0;
}
