/* SPDX-License-Identifier: MIT */
/* See report.h. A sentence must not claim more than the verdict: an upper bound is called "at
 * most". */
#include "cli/diagnose/report.h"

#include "cli/output.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MS 1e6 /* nanoseconds */

/* A process that waited for a CPU for this part of its delays may have caused them. */
enum { QUEUED_PART = 4 };

void ns_words_add(char text[NS_WORDS_MOST], const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, NS_WORDS_MOST - used, format, arguments);
    va_end(arguments);
}

const char *ns_words_address(const struct ns_address *address)
{
    static char text[INET6_ADDRSTRLEN + 10];
    char host[INET6_ADDRSTRLEN] = "?";
    bool v4 = IN6_IS_ADDR_V4MAPPED(&address->addr);
    if (!address->known)
        return "?";
    inet_ntop(v4 ? AF_INET : AF_INET6, &address->addr.s6_addr[v4 ? 12 : 0], host, sizeof host);
    snprintf(text, sizeof text, v4 || address->port == 0 ? "%s" : "[%s]", host);
    if (address->port)
        snprintf(text + strlen(text), sizeof text - strlen(text), ":%u", address->port);
    return text;
}

const char *ns_words_process(const struct ns_row_process *process)
{
    static char text[sizeof process->name + 16];
    snprintf(text, sizeof text, "%s[%d]", process->name, process->pid);
    return text;
}

static double mean_ms(uint64_t ns, uint64_t n)
{
    return n ? (double)ns / MS / (double)n : 0;
}

/* "3 times, 20.1 ms each" */
static void add_times(char *text, uint64_t n, uint64_t ns)
{
    if (n == 1)
        ns_words_add(text, "once, %.1f ms", mean_ms(ns, n));
    else
        ns_words_add(text, "%" PRIu64 " times, %.1f ms each", n, mean_ms(ns, n));
}

/* "at least 2 requests", "2 of 5 requests"; a program that only reads gets no answers. */
static void add_stalled(char *text, const struct ns_row *row)
{
    uint64_t stalled = row->conclusion.stalled, all = row->verdict.requests;
    if (row->misses || row->verdict.delivered)
        ns_words_add(text, "at least %" PRIu64 " %s%s", stalled,
                     row->verdict.delivered ? "message" : "request", ns_plural(stalled));
    else
        ns_words_add(text, "%" PRIu64 " of %" PRIu64 " requests", stalled,
                     all > stalled ? all : stalled);
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

/* Did the process wait for a CPU for so long that it may have caused a delay of ns? */
static bool add_queued(char *text, const struct ns_row_process *process, uint64_t ns)
{
    bool is_long = process->queued_ns > 0 && process->queued_ns >= ns / QUEUED_PART;
    if (is_long)
        ns_words_add(text, "; or %s waited for a CPU, for %.0f ms in all",
                     ns_words_process(process), (double)process->queued_ns / MS);
    return is_long;
}

const char *ns_diagnosis_delay(const struct ns_row *row, enum ns_delay delay)
{
    static char text[NS_WORDS_MOST];
    uint64_t times = row->verdict.delays[delay], ns = row->verdict.delays_ns[delay];
    bool is_server = row->role == NS_ROLE_SERVER, asks = !is_server && row->verdict.requests > 0;
    const char *meaning = delay != NS_DELAY_PEER || asks ? delays[delay].meaning
                          : is_server                    ? "the peer sent its next request late"
                                                         : "the peer sent its next data late";
    snprintf(text, sizeof text, "%s, ", meaning);
    if (delay == NS_DELAY_PEER && row->source == NS_SOURCE_OUTSIDE && asks)
        snprintf(text, sizeof text,
                 "%" PRIu64 " answer%s came after %.1f ms, and this view cannot show why", times,
                 ns_plural(times), mean_ms(ns, times));
    else
        add_times(text, times, ns);
    if (delay == NS_DELAY_PEER && add_queued(text, row->process, ns))
        return text;
    if (delay == NS_DELAY_PEER && is_server)
        ns_words_add(text, "; how long the server takes is seen at the client");
    return text;
}

void ns_words_add_delay(char text[NS_WORDS_MOST], const struct ns_row *rows, size_t n,
                        const char *before)
{
    uint64_t most = (uint64_t)MS - 1;
    size_t used = strlen(text);
    for (size_t i = 0; i < n; i++)
        for (enum ns_delay delay = 0; delay < NS_DELAY_COUNT; delay++)
            if (rows[i].verdict.delays_ns[delay] > most) {
                most = rows[i].verdict.delays_ns[delay];
                text[used] = '\0';
                ns_words_add(text, "; %s%s", before, ns_diagnosis_delay(&rows[i], delay));
            }
}

/* An experiment needs a program that this command has started and observes. */
static void add_experiment(char *text, const struct ns_row *row, const char *what)
{
    if (row->source == NS_SOURCE_INSIDE && row->process->trial.what == NS_EXPERIMENT_NONE)
        ns_words_add(text, "; --experiment %s can decide", what);
}

/* What the other end shows about data that came behind a delayed ACK. */
static void add_other_end(char *text, const struct ns_row *other)
{
    const struct ns_verdict *verdict = other ? &other->verdict : NULL;
    uint64_t n = other ? verdict->late + verdict->maybe + verdict->stalls : 0;
    if (n == 0) {
        ns_words_add(text, "only the peer's end shows whether it was held until that ACK came");
        return;
    }
    ns_words_add(text, "%s, the peer, held bytes ", ns_words_process(other->process));
    add_times(text, n, verdict->late_ns + verdict->most_ns);
}

const char *ns_diagnosis_doubt(const struct ns_row *row)
{
    static const char *const doubts[] = {
        [NS_DOUBT_NOTHING] = "there was nothing to judge",
        [NS_DOUBT_NO_LOOKS] = "there were too few samples while data was in flight",
        [NS_DOUBT_NO_UNSENT] = "this kernel does not report unsent bytes (Linux 4.6 and later do)",
        [NS_DOUBT_NO_WINDOW] = "this kernel does not report the peer's window, which may be full",
    };
    static char text[NS_WORDS_MOST];
    const struct ns_verdict *verdict = &row->verdict;
    text[0] = '\0';
    if (verdict->doubt == NS_DOUBT_PEER) {
        ns_words_add(text,
                     "%" PRIu64
                     " times data of %s came about one round trip after a delayed ACK of "
                     "%s, %.0f ms after earlier data; ",
                     verdict->gaps, ns_words_address(&row->remote), row->process->name,
                     mean_ms(verdict->gaps_ns, verdict->gaps));
        add_other_end(text, row->other);
    } else if (verdict->doubt != NS_DOUBT_ANSWERS) {
        ns_words_add(text, "%s", doubts[verdict->doubt]);
    } else {
        ns_words_add(text, "bytes were held ");
        add_times(text, verdict->maybe + verdict->late, verdict->most_ns + verdict->late_ns);
        ns_words_add(text,
                     ", but answers came %s; nothing shows that the program waited for the held "
                     "bytes",
                     verdict->early * 2 >= verdict->maybe
                         ? "meanwhile"
                         : "long after the release, or as late without a hold");
        add_queued(text, row->process, verdict->answered_ns);
        add_experiment(text, row, "push");
    }
    return text;
}

const char *ns_words_bound(const struct ns_row *row)
{
    return row->conclusion.certain ? (row->misses ? "at least " : "")
           : row->misses           ? "perhaps "
                                   : "at most ";
}

const char *ns_diagnosis_mixed(const struct ns_row *row)
{
    static char text[NS_WORDS_MOST];
    const struct ns_verdict *verdict = &row->verdict;
    uint64_t held = verdict->most_ns - verdict->certain_ns,
             answered = verdict->answered_ns - verdict->prompt_ns;
    if (!row->conclusion.certain || verdict->maybe == 0 || verdict->early > 0)
        return NULL;
    snprintf(text, sizeof text,
             "%" PRIu64 " request%s took %.0f ms%s: up to %.0f ms held, the rest the peer",
             verdict->maybe, ns_plural(verdict->maybe), mean_ms(held + answered, verdict->maybe),
             verdict->maybe == 1 ? "" : " each", mean_ms(held, verdict->maybe));
    return text;
}

static void add_likely(char *text, const struct ns_row *row)
{
    const struct ns_verdict *verdict = &row->verdict;
    if (verdict->receiving > 0) {
        ns_words_add(text,
                     "%" PRIu64 " times the peer's data arrived just when this end's delayed-ACK "
                     "timer fired, so the peer probably waited for the ACK; a peer whose own timer "
                     "follows the same ticks looks the same",
                     verdict->receiving);
        add_experiment(text, row, "acknowledge");
        return;
    }
    ns_words_add(text, "bytes were held ");
    add_times(text, verdict->maybe, verdict->most_ns);
    if (verdict->delivered > 0 && row->other && row->other->verdict.receiving > 0)
        ns_words_add(text,
                     ", and %" PRIu64 " times %s waited until data came just when its delayed-ACK "
                     "timer fired",
                     row->other->verdict.receiving, ns_words_process(row->other->process));
    else if (verdict->delivered > 0 && row->other)
        ns_words_add(text,
                     ", and %" PRIu64 " times data came to %s about one round trip after its "
                     "delayed ACK; if it only reads, it waited for them",
                     row->other->verdict.gaps, ns_words_process(row->other->process));
    else
        ns_words_add(text,
                     "; after release the answer took %.1f ms, as long as for requests that were "
                     "never held (%.1f ms), so the hold was probably the delay",
                     mean_ms(verdict->answered_ns, verdict->maybe + verdict->stalls),
                     mean_ms(verdict->free_ns, verdict->free));
    add_experiment(text, row, "push");
}

void ns_words_add_own_holds(char text[NS_WORDS_MOST], const struct ns_row *row)
{
    const struct ns_verdict *verdict = &row->verdict;
    if (verdict->stalls + verdict->maybe == 0)
        return;
    ns_words_add(text, "; this end may have held bytes, too: ");
    add_times(text, verdict->stalls + verdict->maybe, verdict->most_ns);
}

static void add_trial(char *text, const struct ns_trial *trial)
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
        ns_words_add(text, "too few waits with %s",
                     pushes ? "held bytes to push" : "received data to acknowledge");
    else
        ns_words_add(text,
                     "answers took %.2f ms after %zu waits with %s, and %.2f ms after %zu without; "
                     "%s (p = %.2g)",
                     trial->done_ms, trial->done, pushes ? "a push" : "an acknowledgement",
                     trial->left_ms, trial->left, effects[effect], trial->p);
}

const char *ns_diagnosis_experiment(const struct ns_row_process *process)
{
    static char text[NS_WORDS_MOST];
    snprintf(text, sizeof text, "%s: ", ns_words_process(process));
    add_trial(text, &process->trial);
    return text;
}

static void add_hold(char *text, const struct ns_hold *hold, uint32_t rtt_us)
{
    const struct ns_look *look = &hold->look;
    double held = (double)(hold->end - hold->begin) / MS, slack = (double)hold->slack / MS;
    ns_words_add(text,
                 "%" PRIu32 " byte%s unsent behind %" PRIu32
                 " unacknowledged segment%s, the window "
                 "(%" PRIu32 " bytes) and the congestion window (%" PRIu32 " segments) open, "
                 "TCP_NODELAY off; released after ",
                 look->unsent, ns_plural(look->unsent), look->unacked, ns_plural(look->unacked),
                 look->window, look->cwnd);
    if (slack >= 0.5)
        ns_words_add(text, "%.0f to %.0f ms", fmax(0, held - slack), held + slack);
    else
        ns_words_add(text, "%.1f ms", held);
    ns_words_add(text, ", when the peer's ACK came");
    if (rtt_us)
        ns_words_add(text, "; a round trip takes %s%.*f ms", rtt_us < 10 ? "under " : "",
                     rtt_us < 1000 ? 2 : 1, fmax(rtt_us, 10) / 1e3);
}

const char *ns_diagnosis_proof(const struct ns_row *row)
{
    static char text[NS_WORDS_MOST];
    const struct ns_verdict *verdict = &row->verdict;
    const struct ns_row *other = row->other;
    /* From inside, samples are only taken when bytes are unsent. */
    bool inside = row->source == NS_SOURCE_INSIDE;
    uint64_t n = inside ? verdict->requests : verdict->looks;
    text[0] = '\0';
    if (row->is_held) {
        ns_words_add(text, "%s, the peer, held its bytes until this end's %sACK came: see its row",
                     ns_words_process(other->process), other->verdict.late_acks ? "delayed " : "");
        ns_words_add_own_holds(text, row);
        return text;
    }
    switch (verdict->grade) {
    case NS_GRADE_PROVEN:
        if (row->is_cured && verdict->proof.end == 0)
            add_trial(text, row->trial);
        else
            add_hold(text, &verdict->proof, verdict->rtt_us);
        break;
    case NS_GRADE_LIKELY:
        if (row->trial && (row->trial->what == NS_EXPERIMENT_PUSH) == (verdict->receiving == 0))
            add_trial(text, row->trial);
        else
            add_likely(text, row);
        break;
    case NS_GRADE_LATE:
        ns_words_add(text, "bytes were held ");
        add_times(text, verdict->late, verdict->late_ns);
        ns_words_add(text, ", but no answer depended on them");
        break;
    case NS_GRADE_NONE:
        ns_words_add(text, "in %" PRIu64 " %s%s Nagle's algorithm held no byte", n,
                     inside ? "request" : "sample", ns_plural(n));
        break;
    case NS_GRADE_CANNOT_TELL:
        return ns_diagnosis_doubt(row);
    }
    return text;
}

const char *ns_diagnosis_cost(const struct ns_row *row)
{
    static char text[NS_WORDS_MOST];
    const struct ns_verdict *verdict = &row->verdict;
    const struct ns_conclusion *conclusion = &row->conclusion;
    double waited = (double)verdict->waited_ns / MS;
    double least = (double)verdict->shortest_ns / MS, most = (double)verdict->longest_ns / MS;
    text[0] = '\0';
    if (verdict->delivered)
        add_stalled(text, row);
    else
        ns_words_add(text, "%s%" PRIu64 " request%s, %" PRIu64 " stalled",
                     row->misses ? "at least " : "", verdict->requests,
                     ns_plural(verdict->requests), conclusion->stalled);
    if (conclusion->holds && most - least >= 0.1)
        ns_words_add(text, " for %.1f to %.1f ms", least, most);
    else if (conclusion->holds && most > 0)
        ns_words_add(text, " for %.1f ms", most);
    ns_words_add(text, "; %s%.0f ms lost", ns_words_bound(row), conclusion->lost_ms);
    if (row->both_hold)
        ns_words_add(text, ", of which %.0f ms behind the holds of %s",
                     conclusion->lost_ms - row->own_ms, ns_words_process(row->other->process));
    else if (waited >= conclusion->lost_ms && waited > 0)
        ns_words_add(text, " of %.0f ms waited (%.0f%%)", waited,
                     100 * conclusion->lost_ms / waited);
    return text;
}

static void add_stalls(char *text, const struct ns_diagnosis *diagnosis)
{
    const struct ns_row *row = &diagnosis->rows[0];
    double watched = (double)(diagnosis->end - diagnosis->begin) / MS;
    size_t others = 0;
    ns_words_add(text, "it %s: ", row->verdict.grade == NS_GRADE_PROVEN ? "stalls" : "may stall");
    if (!row->conclusion.holds) {
        ns_words_add(text, "%" PRIu64 " times the peer of %s %s for this end's delayed ACK",
                     row->conclusion.stalled, row->process->name,
                     row->is_cured ? "waited" : "seems to have waited");
    } else {
        add_stalled(text, row);
        ns_words_add(text, " of %s%s", row->process->name,
                     row->is_peer ? ", at the other end," : "");
        if (row->both_hold) {
            ns_words_add(text, " and ");
            add_stalled(text, row->other);
            ns_words_add(text, " of %s", row->is_peer ? row->other->process->name : "its peer");
        }
        ns_words_add(text, " %s held by Nagle's algorithm until %s's %sACK came",
                     row->conclusion.stalled == 1 && !row->both_hold ? "was" : "were",
                     row->both_hold               ? "the other end"
                     : row->is_peer && row->other ? row->other->process->name
                                                  : "the peer",
                     row->verdict.late_acks ? "delayed " : "");
    }
    for (size_t i = 1; i < diagnosis->n_rows; i++)
        others += diagnosis->rows[i].conclusion.stalls && diagnosis->rows[i].other != row;
    if (others)
        ns_words_add(text, "; %zu more row%s too", others, others == 1 ? " stalls" : "s stall");
    /* Several connections may have lost it at the same time. */
    ns_words_add(text, "; %s%.0f ms were lost%s in %.*f s", ns_words_bound(row), diagnosis->lost_ms,
                 diagnosis->lost_ms > watched ? " by all connections together" : "",
                 watched < 10000 ? 2 : 0, watched / 1e3);
}

/* All rows together: the counts that the headline has. */
static struct ns_row sum_of(const struct ns_diagnosis *diagnosis)
{
    struct ns_row sum = {.source = NS_SOURCE_INSIDE};
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_row *row = &diagnosis->rows[i];
        sum.connections += row->connections;
        sum.verdict.requests += row->verdict.requests;
        sum.verdict.late += row->verdict.late;
        sum.verdict.late_ns += row->verdict.late_ns;
        if (row->source == NS_SOURCE_OUTSIDE)
            sum.source = NS_SOURCE_OUTSIDE;
    }
    return sum;
}

/* The row whose doubt the headline gives: too few samples of a connection are the weakest one. */
static const struct ns_row *doubtful_row(const struct ns_diagnosis *diagnosis)
{
    const struct ns_row *found = diagnosis->rows;
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        if (diagnosis->rows[i].verdict.doubt &&
            (found->verdict.doubt == NS_DOUBT_NOTHING || found->verdict.doubt == NS_DOUBT_NO_LOOKS))
            found = &diagnosis->rows[i];
    return found;
}

const char *ns_diagnosis_headline(const struct ns_diagnosis *diagnosis)
{
    static char text[NS_WORDS_MOST];
    const struct ns_row sum = sum_of(diagnosis);
    const uint64_t requests = sum.verdict.requests;
    text[0] = '\0';
    if (diagnosis->n_rows == 0)
        return "cannot tell: no TCP connection with traffic was seen";
    switch (diagnosis->grade) {
    case NS_GRADE_PROVEN:
    case NS_GRADE_LIKELY:
        add_stalls(text, diagnosis);
        return text;
    case NS_GRADE_LATE:
        ns_words_add(text, "no stall: bytes were held ");
        add_times(text, sum.verdict.late, sum.verdict.late_ns);
        ns_words_add(text, ", but nobody waited for them");
        break;
    case NS_GRADE_NONE:
        if (requests == 0) {
            ns_words_add(text, "nothing to judge: on %u connection%s no request was answered",
                         sum.connections, ns_plural(sum.connections));
            break;
        }
        ns_words_add(text,
                     "no stall: %s%" PRIu64 " request%s on %u connection%s, and Nagle's algorithm "
                     "held none of them",
                     sum.source == NS_SOURCE_OUTSIDE ? "at least " : "", requests,
                     ns_plural(requests), sum.connections, ns_plural(sum.connections));
        break;
    case NS_GRADE_CANNOT_TELL:
        ns_words_add(text, "cannot tell: %s", ns_diagnosis_doubt(doubtful_row(diagnosis)));
        if (doubtful_row(diagnosis)->verdict.doubt == NS_DOUBT_PEER)
            return text;
        break;
    }
    ns_words_add_delay(text, diagnosis->rows, diagnosis->n_rows, "the longest delay: ");
    return text;
}
