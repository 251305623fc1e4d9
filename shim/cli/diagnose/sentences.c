/* SPDX-License-Identifier: MIT */
/* See diagnose.h. A sentence must not claim more than the verdict: an upper bound is called "at
 * most". */
#include "cli/diagnose/diagnose.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>

#define MS 1e6 /* nanoseconds */

/* So many delays may have one cause behind the peer. */
enum { BEHIND_LEAST = 3 };

/* A process that waited for a CPU for this part of its delays may have caused them. */
enum { QUEUED_PART = 4 };

const char *ns_words_address(const struct ns_address *address)
{
    char host[INET6_ADDRSTRLEN] = "?";
    bool v4 = IN6_IS_ADDR_V4MAPPED(&address->addr);
    if (!address->known)
        return "?";
    inet_ntop(v4 ? AF_INET : AF_INET6, &address->addr.s6_addr[v4 ? 12 : 0], host, sizeof host);
    if (address->port == 0)
        return ns_words("%s", host);
    return ns_words(v4 ? "%s:%u" : "[%s]:%u", host, address->port);
}

const char *ns_words_process(const struct ns_row_process *process)
{
    return process->pid ? ns_words("%s[%d]", process->name, process->pid) : process->name;
}

const char *ns_words_process_apart(const struct ns_row_process *process,
                                   const struct ns_row_process *apart_from)
{
    return apart_from && strcmp(process->name, apart_from->name) == 0 ? ns_words_process(process)
                                                                      : process->name;
}

static double mean_ms(uint64_t ns, uint64_t n)
{
    return n ? (double)ns / MS / (double)n : 0;
}

/* "3 times, 20.1 ms each" */
static const char *times(uint64_t n, uint64_t ns)
{
    return n == 1 ? ns_words("once, %.1f ms", mean_ms(ns, n))
                  : ns_words("%" PRIu64 " times, %.1f ms each", n, mean_ms(ns, n));
}

/* "at least 2 requests", "2 of 5 requests". What a server sends, or what a program gets that only
 * reads, is no request. */
static const char *stalled(const struct ns_row *row)
{
    uint64_t n = row->conclusion.stalled, all = row->verdict.requests;
    bool is_request = row->role != NS_ROLE_SERVER && !row->verdict.delivered;
    const char *what = is_request ? "request" : "message";
    if (row->misses || row->verdict.delivered)
        return ns_words("at least %s", ns_count(n, what));
    return ns_words("%" PRIu64 " of %s", n, ns_count(all > n ? all : n, what));
}

static const struct {
    const char *name, *meaning;
} delays[NS_DELAY_COUNT] = {
    [NS_DELAY_PEER] = {"peer", "the peer took long to answer"},
    [NS_DELAY_WINDOW] = {"window", "the peer's receive window was full: it did not read"},
    [NS_DELAY_LOSS] = {"loss", "segments were lost and retransmitted"},
    [NS_DELAY_WIRE] = {"wire", "the round trip takes that long"},
    [NS_DELAY_CORK] = {"cork", "the program's own TCP_CORK or MSG_MORE held bytes"},
    [NS_DELAY_PACING] = {"pacing", "congestion control or pacing held bytes"},
};

const char *ns_delay_name(enum ns_delay delay)
{
    return delays[delay].name;
}

/* "", unless the process waited for a CPU, or the hypervisor took CPUs, for so long that it may
 * have caused a delay of ns. */
static const char *queued(const struct ns_row_process *process, uint64_t ns)
{
    const uint64_t queued = process->queued.since, stolen = process->stolen.since;
    if (queued > 0 && queued >= ns / QUEUED_PART)
        return ns_words("; or %s waited for a CPU, for %.0f ms in all", ns_words_process(process),
                        (double)queued / MS);
    if (stolen > 0 && stolen >= ns / QUEUED_PART)
        return ns_words("; or the hypervisor took this machine's CPUs, each for %.0f ms in all",
                        (double)stolen / MS);
    return "";
}

bool ns_row_waits_behind(const struct ns_row *row)
{
    const struct ns_verdict *verdict = &row->verdict;
    uint64_t n = verdict->delays[NS_DELAY_PEER], ns = verdict->delays_ns[NS_DELAY_PEER];
    double mean = mean_ms(ns, n);
    return row->role != NS_ROLE_SERVER && n >= BEHIND_LEAST &&
           ((row->peer && row->peer->behind.ns >= ns / 2) ||
            (mean >= NS_DELAYED_ACK_LEAST_MS && mean <= NS_DELAYED_ACK_MOST_MS));
}

/* Why may the peer have taken so long? */
static const char *behind(const struct ns_row *row)
{
    const struct ns_row_process *peer = row->peer;
    if (!ns_row_waits_behind(row))
        return "";
    if (!peer || peer->behind.ns == 0)
        return "; a delayed ACK takes as long, so the peer may wait for one";
    return ns_words("; %s, the peer, itself waited for %s, %s", ns_words_process(peer),
                    ns_words_address(&peer->behind.at), times(peer->behind.n, peer->behind.ns));
}

const char *ns_diagnosis_delay(const struct ns_row *row, enum ns_delay delay)
{
    uint64_t n = row->verdict.delays[delay], ns = row->verdict.delays_ns[delay];
    bool is_server = row->role == NS_ROLE_SERVER;
    const char *text = ns_words("%s, %s", delays[delay].meaning, times(n, ns));
    if (delay != NS_DELAY_PEER)
        return text;
    if (is_server || row->verdict.requests == 0)
        text = ns_words("the peer sent its next %s late, %s", is_server ? "request" : "data",
                        times(n, ns));
    else if (row->source == NS_SOURCE_OUTSIDE)
        text = ns_words("%s came after %.1f ms, and this view cannot show why",
                        ns_count(n, "answer"), mean_ms(ns, n));
    const char *more = queued(row->process, ns);
    if (!*more)
        more = is_server ? "; how long the server takes is seen at the client" : behind(row);
    return ns_words("%s%s", text, more);
}

const char *ns_words_longest_delay(struct ns_row *const *rows, size_t n, bool of_all)
{
    uint64_t most = (uint64_t)MS - 1;
    const struct ns_row *found = NULL;
    enum ns_delay cause = NS_DELAY_PEER;
    for (size_t i = 0; i < n; i++)
        for (enum ns_delay delay = 0; delay < NS_DELAY_COUNT; delay++)
            if (rows[i]->verdict.delays_ns[delay] > most) {
                most = rows[i]->verdict.delays_ns[delay];
                found = rows[i];
                cause = delay;
            }
    if (!found)
        return "";
    const char *whose = n > 1 ? ns_words(", of %s", ns_words_process(found->process)) : "";
    return ns_words("; %s%s", of_all ? ns_words("the longest delay%s: ", whose) : "",
                    ns_diagnosis_delay(found, cause));
}

/* An experiment needs a program that this command has started and observes. */
static const char *experiment(const struct ns_row *row, const char *what)
{
    bool possible =
        row->source == NS_SOURCE_INSIDE && row->process->trial.what == NS_EXPERIMENT_NONE;
    return possible ? ns_words("; --experiment %s can decide", what) : "";
}

/* What the other end shows about data that came behind a delayed ACK. */
static const char *other_end(const struct ns_row *other)
{
    const struct ns_verdict *verdict = other ? &other->verdict : NULL;
    uint64_t n = other ? verdict->late + verdict->maybe + verdict->stalls : 0;
    if (other && n == 0)
        return ns_words("%s, the peer, held nothing, so its program may wait for that ACK",
                        ns_words_process(other->process));
    if (n == 0)
        return "only the peer's end shows whether it was held until that ACK came";
    return ns_words("%s, the peer, held bytes %s", ns_words_process(other->process),
                    times(n, verdict->late_ns + verdict->most_ns));
}

static const char *doubt(const struct ns_row *row)
{
    const struct ns_verdict *verdict = &row->verdict;
    switch (verdict->doubt) {
    case NS_DOUBT_NOTHING:
        return "there was nothing to judge";
    case NS_DOUBT_NO_LOOKS:
        return "there were too few samples while data was in flight";
    case NS_DOUBT_NO_WINDOW:
        return "this kernel does not report the peer's window, which may be full";
    case NS_DOUBT_PEER:
        return ns_words("%" PRIu64 " times data of %s came about one round trip after a delayed "
                        "ACK of %s, %.0f ms after earlier data; %s",
                        verdict->gaps, ns_words_address(&row->remote), row->process->name,
                        mean_ms(verdict->gaps_ns, verdict->gaps), other_end(row->other));
    case NS_DOUBT_ANSWERS:
        break;
    }
    const char *but = verdict->early * 2 >= verdict->maybe ? "answers came meanwhile; nothing shows"
                                                           : "the times of the answers do not show";
    return ns_words("bytes were held %s, but %s that the program waited for them%s%s",
                    times(verdict->maybe + verdict->late, verdict->most_ns + verdict->late_ns), but,
                    queued(row->process, verdict->answered_ns), experiment(row, "push"));
}

const char *ns_words_bound(const struct ns_row *row)
{
    return row->conclusion.certain ? (row->misses ? "at least " : "")
           : row->misses           ? "perhaps "
                                   : "at most ";
}

const char *ns_diagnosis_mixed(const struct ns_row *row)
{
    const struct ns_verdict *verdict = &row->verdict;
    uint64_t held = verdict->most_ns - verdict->certain_ns,
             answered = verdict->answered_ns - verdict->prompt_ns;
    if (!row->conclusion.certain || verdict->maybe == 0 || verdict->early > 0)
        return NULL;
    return ns_words("%s took %.0f ms%s: up to %.0f ms held, the rest the peer%s",
                    ns_count(verdict->maybe, "request"), mean_ms(held + answered, verdict->maybe),
                    verdict->maybe == 1 ? "" : " each", mean_ms(held, verdict->maybe),
                    queued(row->process, answered));
}

/* Why the answers seem to have waited for the held bytes. */
static const char *likely_reason(const struct ns_row *row)
{
    const struct ns_verdict *verdict = &row->verdict;
    const struct ns_row *other = row->other;
    if (verdict->delivered > 0 && other && other->verdict.receiving > 0)
        return ns_words(", and %" PRIu64 " times %s waited until data came just when its "
                        "delayed-ACK timer fired",
                        other->verdict.receiving, ns_words_process(other->process));
    if (verdict->delivered > 0 && other)
        return ns_words(", and %" PRIu64 " times data came to %s about one round trip after its "
                        "delayed ACK; if it only reads, it waited for them",
                        other->verdict.gaps, ns_words_process(other->process));
    return ns_words("; after release the answer took %.1f ms, as long as for requests that were "
                    "never held (%.1f ms), so the hold was probably the delay",
                    mean_ms(verdict->answered_ns, verdict->maybe + verdict->stalls),
                    mean_ms(verdict->free_ns, verdict->free));
}

static const char *likely(const struct ns_row *row)
{
    const struct ns_verdict *verdict = &row->verdict;
    if (verdict->receiving > 0)
        return ns_words("%" PRIu64 " times the peer's data arrived just when this end's "
                        "delayed-ACK timer fired, so the peer probably waited for the ACK; a peer "
                        "whose own timer follows the same ticks looks the same%s",
                        verdict->receiving, experiment(row, "acknowledge"));
    return ns_words("bytes were held %s%s%s", times(verdict->maybe, verdict->most_ns),
                    likely_reason(row), experiment(row, "push"));
}

const char *ns_words_own_holds(const struct ns_row *row)
{
    const struct ns_verdict *verdict = &row->verdict;
    uint64_t n = verdict->stalls + verdict->maybe;
    return n ? ns_words("; this end may have held bytes, too: %s", times(n, verdict->most_ns)) : "";
}

static const char *trial_shows(const struct ns_trial *trial)
{
    static const char *const effects[] = {
        [NS_EFFECT_CHANCE] = "the difference may be chance",
        [NS_EFFECT_NO_GAIN] = "this is no cure",
        [NS_EFFECT_FASTER] = "this is a cure",
        [NS_EFFECT_SLOWER] = "this makes it slower",
    };
    enum ns_effect effect = ns_verdict_effect(trial);
    bool pushes = trial->what == NS_EXPERIMENT_PUSH;
    if (effect == NS_EFFECT_UNKNOWN)
        return pushes ? "too few waits with held bytes to push"
                      : "too few waits with received data to acknowledge";
    return ns_words("answers took %.2f ms after %zu waits with %s, and %.2f ms after %zu without; "
                    "%s (p = %.2g)",
                    trial->done_ms, trial->done, pushes ? "a push" : "an acknowledgement",
                    trial->left_ms, trial->left, effects[effect], trial->p);
}

const char *ns_diagnosis_experiment(const struct ns_row_process *process)
{
    return ns_words("%s: %s", ns_words_process(process), trial_shows(&process->trial));
}

static const char *hold_shows(const struct ns_hold *hold, uint32_t rtt_us)
{
    const struct ns_look *look = &hold->look;
    double held = (double)(hold->end - hold->begin) / MS, slack = (double)hold->slack / MS;
    const char *released = slack >= 0.5
                               ? ns_words("%.0f to %.0f", fmax(0, held - slack), held + slack)
                               : ns_words("%.1f", held);
    const char *trip = "";
    if (rtt_us)
        trip = ns_words("; a round trip takes %s%.*f ms", rtt_us < 10 ? "under " : "",
                        rtt_us < 1000 ? 2 : 1, fmax(rtt_us, 10) / 1e3);
    return ns_words("%s unsent behind %s, the window (%" PRIu32 " bytes) and the congestion window "
                    "(%" PRIu32 " segments) open, TCP_NODELAY off; released after %s ms, when the "
                    "peer's ACK came%s",
                    ns_count(look->unsent, "byte"),
                    ns_count(look->unacked, "unacknowledged segment"), look->window, look->cwnd,
                    released, trip);
}

/* How late writes leave if nobody answers them, as those of a stream. "": that is not known. */
static const char *lateness(const struct ns_verdict *verdict)
{
    double most = ns_verdict_lateness(verdict, 0.99);
    return most > 0 ? ns_words("; half of the writes left within %.0f ms, 99%% within %.0f ms",
                               ns_verdict_lateness(verdict, 0.5) + NS_LATE_STEP_MS,
                               most + NS_LATE_STEP_MS)
                    : "";
}

/* An ACK is also late if a machine has no processor for a moment. */
static const char *delayed(const struct ns_verdict *verdict)
{
    return 2 * verdict->late_acks > verdict->stalls ? "delayed " : "";
}

const char *ns_diagnosis_proof(const struct ns_row *row)
{
    const struct ns_verdict *verdict = &row->verdict;
    /* From inside, samples are only taken when bytes are unsent. */
    bool inside = row->source == NS_SOURCE_INSIDE;
    if (row->is_held)
        return ns_words("%s, the peer, held its bytes until this end's %sACK came: see its row%s",
                        ns_words_process(row->other->process), delayed(&row->other->verdict),
                        ns_words_own_holds(row));
    switch (verdict->grade) {
    case NS_GRADE_PROVEN:
        return row->is_cured && verdict->proof.end == 0
                   ? trial_shows(row->trial)
                   : hold_shows(&verdict->proof, verdict->rtt_us);
    case NS_GRADE_LIKELY:
        return row->trial && (row->trial->what == NS_EXPERIMENT_PUSH) == (verdict->receiving == 0)
                   ? trial_shows(row->trial)
                   : likely(row);
    case NS_GRADE_LATE:
        return ns_words("bytes were held %s, but no answer depended on them%s",
                        times(verdict->late, verdict->late_ns), lateness(verdict));
    case NS_GRADE_NONE:
        return ns_words("in %s Nagle's algorithm held no byte",
                        inside ? ns_count(verdict->requests, "request")
                               : ns_count(verdict->looks, "sample"));
    case NS_GRADE_CANNOT_TELL:
        break;
    }
    return doubt(row);
}

const char *ns_diagnosis_cost(const struct ns_row *row)
{
    const struct ns_verdict *verdict = &row->verdict;
    const struct ns_conclusion *conclusion = &row->conclusion;
    double waited = (double)verdict->waited_ns / MS, lost = conclusion->lost_ms;
    double least = (double)verdict->shortest_ns / MS, most = (double)verdict->longest_ns / MS;
    const char *requests = ns_words("%s%s, %" PRIu64 " stalled", row->misses ? "at least " : "",
                                    ns_count(verdict->requests, "request"), conclusion->stalled);
    const char *length = "", *part = "";
    if (conclusion->holds && most - least >= 0.1)
        length = ns_words(" for %.1f to %.1f ms", least, most);
    else if (conclusion->holds && most > 0)
        length = ns_words(" for %.1f ms", most);
    if (row->both_hold)
        part = ns_words(", of which %.0f ms behind the holds of %s", lost - row->own_ms,
                        ns_words_process(row->other->process));
    else if (waited >= lost && waited > 0)
        part = ns_words(" of %.0f ms waited (%.0f%%)", waited, 100 * lost / waited);
    return ns_words("%s%s; %s%.0f ms lost%s", verdict->delivered ? stalled(row) : requests, length,
                    ns_words_bound(row), lost, part);
}

/* Which requests of the first row were held, and until when. */
static const char *held(const struct ns_row *row)
{
    const struct ns_row_process *own = row->is_peer && row->other ? row->other->process : NULL;
    const char *holder =
        ns_words("%s of %s%s", stalled(row), ns_words_process_apart(row->process, own),
                 row->is_peer ? ", at the other end," : "");
    const char *end = own ? ns_words_process_apart(own, row->process) : NULL;
    if (row->both_hold)
        return ns_words(
            "%s and %s of %s were held by Nagle's algorithm until the other end's %sACK "
            "came",
            holder, stalled(row->other), end ? end : "its peer", delayed(&row->verdict));
    return ns_words("%s %s held by Nagle's algorithm until %s's %sACK came", holder,
                    row->conclusion.stalled == 1 ? "was" : "were", end ? end : "the peer",
                    delayed(&row->verdict));
}

static const char *stalls(const struct ns_diagnosis *diagnosis)
{
    const struct ns_row *row = diagnosis->rows[0];
    double watched = (double)(diagnosis->end - diagnosis->begin) / MS;
    size_t others = 0;
    for (size_t i = 1; i < diagnosis->n_rows; i++)
        others += diagnosis->rows[i]->conclusion.stalls && diagnosis->rows[i]->other != row;
    const char *requests =
        row->conclusion.holds
            ? held(row)
            : ns_words("%" PRIu64 " times the peer of %s %s for this end's delayed ACK",
                       row->conclusion.stalled, row->process->name,
                       row->is_cured ? "waited" : "seems to have waited");
    const char *more =
        others ? ns_words("; %zu more row%s too", others, others == 1 ? " stalls" : "s stall") : "";
    /* Several connections may have lost it at the same time. */
    return ns_words("it %s: %s%s; %s%.0f ms were lost%s in %.*f s",
                    row->verdict.grade == NS_GRADE_PROVEN ? "stalls" : "may stall", requests, more,
                    ns_words_bound(row), diagnosis->lost_ms,
                    diagnosis->lost_ms > watched ? " by all connections together" : "",
                    watched < 10000 ? 2 : 0, watched / 1e3);
}

/* The row whose doubt the headline gives: too few samples of a connection are the weakest one. */
static const struct ns_row *doubtful_row(const struct ns_diagnosis *diagnosis)
{
    const struct ns_row *found = diagnosis->rows[0];
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        if (diagnosis->rows[i]->verdict.doubt &&
            (found->verdict.doubt == NS_DOUBT_NOTHING || found->verdict.doubt == NS_DOUBT_NO_LOOKS))
            found = diagnosis->rows[i];
    return found;
}

/* What is said if nothing stalls. */
static const char *no_stall(const struct ns_diagnosis *diagnosis)
{
    unsigned connections = 0;
    struct ns_verdict sum = {0};
    bool misses = false;
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_row *row = diagnosis->rows[i];
        connections += row->connections;
        ns_verdict_add(&sum, &row->verdict);
        misses |= row->misses;
    }
    if (diagnosis->grade == NS_GRADE_LATE)
        return ns_words("no stall: bytes were held %s, but no answer depended on them%s",
                        times(sum.late, sum.late_ns), lateness(&sum));
    if (sum.requests == 0)
        return ns_words("nothing to judge: on %s no request was answered",
                        ns_count(connections, "connection"));
    return ns_words("no stall: %s%s on %s, and Nagle's algorithm held none of them",
                    misses ? "at least " : "", ns_count(sum.requests, "request"),
                    ns_count(connections, "connection"));
}

const char *ns_diagnosis_headline(const struct ns_diagnosis *diagnosis)
{
    if (diagnosis->n_rows == 0)
        return "cannot tell: no TCP connection with traffic was seen";
    const struct ns_row *doubtful = doubtful_row(diagnosis);
    if (diagnosis->grade >= NS_GRADE_LIKELY)
        return stalls(diagnosis);
    const char *text = diagnosis->grade == NS_GRADE_CANNOT_TELL
                           ? ns_words("cannot tell: %s", doubt(doubtful))
                           : no_stall(diagnosis);
    if (diagnosis->grade == NS_GRADE_CANNOT_TELL && doubtful->verdict.doubt == NS_DOUBT_PEER)
        return text;
    return ns_words("%s%s", text, ns_words_longest_delay(diagnosis->rows, diagnosis->n_rows, true));
}
