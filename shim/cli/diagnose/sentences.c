/* SPDX-License-Identifier: MIT */
/* See sentences.h. A sentence must not claim more than the verdict: an upper bound is called "at
 * most". */
#include "cli/diagnose/sentences.h"

#include "cli/output.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MS 1e6 /* nanoseconds */

void ns_words_add(char *buffer, size_t size, const char *format, ...)
{
    size_t used = strlen(buffer);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer + used, size - used, format, arguments);
    va_end(arguments);
}

char *ns_words_address(const struct ns_address *address, char *buffer, size_t size)
{
    char text[INET6_ADDRSTRLEN] = "?";
    bool v4 = IN6_IS_ADDR_V4MAPPED(&address->addr);
    if (!address->known) {
        snprintf(buffer, size, "?");
        return buffer;
    }
    inet_ntop(v4 ? AF_INET : AF_INET6,
              v4 ? (const void *)&address->addr.s6_addr[12] : (const void *)&address->addr, text,
              sizeof text);
    if (address->port == 0)
        snprintf(buffer, size, "%s", text);
    else
        snprintf(buffer, size, v4 ? "%s:%u" : "[%s]:%u", text, address->port);
    return buffer;
}

char *ns_diagnosis_where(const struct ns_row *row, char *buffer, size_t size)
{
    char address[64];
    snprintf(buffer, size, "%s %s",
             row->role == NS_ROLE_CLIENT   ? "client of"
             : row->role == NS_ROLE_SERVER ? "server on"
                                           : "connected to",
             ns_words_address(&row->service, address, sizeof address));
    return buffer;
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

const char *ns_delay_meaning(enum ns_delay delay, enum ns_source source)
{
    /* From outside, an answer and the next request may come between two samples. */
    if (delay == NS_DELAY_PEER && source == NS_SOURCE_OUTSIDE)
        return "answers came late, and this view cannot show why";
    return delays[delay].meaning;
}

char *ns_diagnosis_delay(enum ns_delay delay, enum ns_source source, uint64_t times, uint64_t ns,
                         char *buffer, size_t size)
{
    double each = (double)ns / MS / (double)times;
    if (delay == NS_DELAY_PEER && source == NS_SOURCE_OUTSIDE)
        snprintf(buffer, size,
                 "%" PRIu64 " answer%s came after %.1f ms, and this view cannot show why", times,
                 ns_plural(times), each);
    else if (times == 1)
        snprintf(buffer, size, "%s, once, %.1f ms", ns_delay_meaning(delay, source), each);
    else
        snprintf(buffer, size, "%s, %" PRIu64 " times, %.1f ms each",
                 ns_delay_meaning(delay, source), times, each);
    return buffer;
}

const char *ns_diagnosis_doubt(const struct ns_row *row)
{
    static char text[400];
    char peer[64];
    switch (row->verdict.doubt) {
    case NS_DOUBT_PEER:
        snprintf(text, sizeof text,
                 "%" PRIu64 " times data of %s came %.0f ms after earlier data, when a delayed ACK "
                 "of %s had left; this view cannot tell whether the peer was held until then",
                 row->verdict.gaps, ns_words_address(&row->remote, peer, sizeof peer),
                 (double)row->verdict.gaps_ns / MS / (double)row->verdict.gaps, row->process->name);
        return text;
    case NS_DOUBT_NO_LOOKS:
        return "there were too few samples while data was in flight";
    case NS_DOUBT_NO_UNSENT:
        return "this kernel does not report unsent bytes (Linux 4.6 and later do)";
    case NS_DOUBT_NO_WINDOW:
        return "this kernel does not report the peer's window (Linux 5.4 and later do), and a full "
               "window looks the same";
    case NS_DOUBT_ANSWERS:
        return row->process->trial.what == NS_EXPERIMENT_NONE
                   ? "bytes were held, but the answers came so long after the release that they "
                     "may not have waited for it; --experiment push can decide"
                   : "bytes were held, but the answers came so long after the release that they "
                     "may not have waited for it";
    case NS_DOUBT_NOTHING:
        break;
    }
    return "there was nothing to judge";
}

char *ns_diagnosis_cure(const struct ns_row *row, unsigned number, char *buffer, size_t size)
{
    const struct ns_cure *cure = &row->cures[number];
    const struct ns_row_process *at = cure->at ? cure->at->process : NULL;
    snprintf(buffer, size, "%s", cure->end);
    if (number == 1 && at)
        ns_words_add(buffer, size, " (%s)", at->name);
    ns_words_add(buffer, size, ": %s; a stalled request: %.1f ms now, %s%.1f ms with it",
                 cure->does, cure->from_ms,
                 cure->measured            ? ""
                 : row->conclusion.certain ? "about "
                                           : "at best ",
                 fmax(cure->to_ms, 0.1));
    if (cure->measured)
        ns_words_add(buffer, size, " (measured)");
    if (at && at->curable.reason[0])
        ns_words_add(buffer, size, "; but no preload reaches it: %s", at->curable.reason);
    return buffer;
}

static double mean_ms(uint64_t ns, uint64_t n)
{
    return n ? (double)ns / MS / (double)n : 0;
}

static char *say_likely(const struct ns_row *row, char *buffer, size_t size)
{
    const struct ns_verdict *verdict = &row->verdict;
    if (verdict->receiving == 0)
        snprintf(buffer, size,
                 "bytes were held %" PRIu64
                 " times; after release the answer took %.1f ms, as long "
                 "as for requests that were never held (%.1f ms), so the hold was probably the "
                 "delay",
                 verdict->maybe, mean_ms(verdict->answered_ns, verdict->maybe + verdict->stalls),
                 mean_ms(verdict->free_ns, verdict->free));
    else
        snprintf(buffer, size,
                 "%" PRIu64 " times the peer's data arrived just when this end's delayed-ACK timer "
                 "fired, so the peer probably waited for the ACK; a peer whose own timer follows "
                 "the same ticks looks the same",
                 verdict->receiving);
    if (row->process->trial.what == NS_EXPERIMENT_NONE)
        ns_words_add(buffer, size, "; --experiment %s can decide",
                     verdict->receiving ? "acknowledge" : "push");
    return buffer;
}

/* Append the result of an experiment. */
static char *add_trial(const struct ns_trial *trial, char *buffer, size_t size)
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
        ns_words_add(buffer, size, "too few waits with %s",
                     pushes ? "held bytes to push" : "received data to acknowledge");
    else
        ns_words_add(
            buffer, size,
            "answers took %.2f ms after %zu waits with %s, and %.2f ms after %zu without; %s (p = "
            "%.2g)",
            trial->done_ms, trial->done, pushes ? "a push" : "an acknowledgement", trial->left_ms,
            trial->left, effects[effect], trial->p);
    return buffer;
}

char *ns_diagnosis_experiment(const struct ns_row_process *process, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s[%d]: ", process->name, process->pid);
    return add_trial(&process->trial, buffer, size);
}

static char *say_hold(const struct ns_hold *hold, uint32_t rtt_us, char *buffer, size_t size)
{
    const struct ns_look *look = &hold->look;
    double held = (double)(hold->end - hold->begin) / MS, slack = (double)hold->slack / MS;
    snprintf(buffer, size,
             "%" PRIu32 " byte%s unsent behind %" PRIu32 " unacknowledged segment%s, the window "
             "(%" PRIu32 " bytes) and the congestion window (%" PRIu32 " segments) open, "
             "TCP_NODELAY off; released after ",
             look->unsent, ns_plural(look->unsent), look->unacked, ns_plural(look->unacked),
             look->window, look->cwnd);
    if (slack >= 0.5)
        ns_words_add(buffer, size, "%.0f to %.0f ms", fmax(0, held - slack), held + slack);
    else
        ns_words_add(buffer, size, "%.1f ms", held);
    ns_words_add(buffer, size, ", when the peer's ACK came");
    if (rtt_us)
        ns_words_add(buffer, size, "; a round trip takes %s%.*f ms", rtt_us < 10 ? "under " : "",
                     rtt_us < 1000 ? 2 : 1, fmax(rtt_us, 10) / 1e3);
    return buffer;
}

char *ns_diagnosis_proof(const struct ns_row *row, char *buffer, size_t size)
{
    const struct ns_verdict *verdict = &row->verdict;
    buffer[0] = '\0';
    if (row->is_held) {
        snprintf(buffer, size,
                 "%s[%d], the peer, held its bytes until this end's %sACK came: see its row",
                 row->other->process->name, row->other->process->pid,
                 row->other->verdict.late_acks ? "delayed " : "");
        return buffer;
    }
    switch (verdict->grade) {
    case NS_GRADE_PROVEN:
        if (row->is_cured && verdict->proof.end == 0)
            return add_trial(row->trial, buffer, size);
        return say_hold(&verdict->proof, verdict->rtt_us, buffer, size);
    case NS_GRADE_LIKELY:
        if (row->trial && (row->trial->what == NS_EXPERIMENT_PUSH) == (verdict->receiving == 0))
            return add_trial(row->trial, buffer, size);
        return say_likely(row, buffer, size);
    case NS_GRADE_LATE:
        snprintf(buffer, size, "bytes were held %" PRIu64 " time%s, but no answer depended on them",
                 verdict->late, ns_plural(verdict->late));
        break;
    case NS_GRADE_NONE:
        snprintf(buffer, size, "in %" PRIu64 " sample%s Nagle's algorithm held no byte",
                 verdict->looks, ns_plural(verdict->looks));
        break;
    case NS_GRADE_CANNOT_TELL:
        snprintf(buffer, size, "%s", ns_diagnosis_doubt(row));
        break;
    }
    return buffer;
}

/* "; 2203 ms were lost in 2.21 s"; several connections may have lost it at the same time. */
static void add_price(const struct ns_diagnosis *diagnosis, char *buffer, size_t size)
{
    double watched = (double)(diagnosis->end - diagnosis->begin) / MS;
    ns_words_add(buffer, size, "; %s%.0f ms were lost%s in %.*f s",
                 diagnosis->rows[0].conclusion.certain ? "" : "at most ", diagnosis->lost_ms,
                 diagnosis->lost_ms > watched ? " by all connections together" : "",
                 watched < 10000 ? 2 : 0, watched / 1e3);
}

static void say_stalls(const struct ns_diagnosis *diagnosis, char *buffer, size_t size)
{
    const struct ns_row *row = &diagnosis->rows[0];
    const struct ns_verdict *verdict = &row->verdict;
    uint64_t stalled = row->conclusion.stalled;
    size_t others = 0;
    snprintf(buffer, size, "it %s: ", verdict->grade == NS_GRADE_PROVEN ? "stalls" : "may stall");
    if (!row->conclusion.holds) {
        ns_words_add(buffer, size, "%" PRIu64 " times the peer of %s %s for this end's delayed ACK",
                     stalled, row->process->name,
                     row->is_cured ? "waited" : "seems to have waited");
    } else {
        if (row->source == NS_SOURCE_OUTSIDE)
            ns_words_add(buffer, size, "at least %" PRIu64, stalled);
        else
            ns_words_add(buffer, size, "%" PRIu64 " of %" PRIu64, stalled,
                         verdict->requests > stalled ? verdict->requests : stalled);
        ns_words_add(buffer, size,
                     " requests of %s%s were held by Nagle's algorithm until %s's %sACK came",
                     row->process->name, row->is_peer ? ", at the other end," : "",
                     row->is_peer && row->other ? row->other->process->name : "the peer",
                     verdict->late_acks ? "delayed " : "");
    }
    for (size_t i = 1; i < diagnosis->n_rows; i++)
        others += diagnosis->rows[i].conclusion.stalls && diagnosis->rows[i].other != row;
    if (others)
        ns_words_add(buffer, size, "; %zu more row%s too", others,
                     others == 1 ? " stalls" : "s stall");
    add_price(diagnosis, buffer, size);
}

/* The delay that took most of the time of all rows. */
static void add_delay(const struct ns_diagnosis *diagnosis, char *buffer, size_t size)
{
    uint64_t times[NS_DELAY_COUNT] = {0}, ns[NS_DELAY_COUNT] = {0};
    enum ns_source source = NS_SOURCE_INSIDE;
    enum ns_delay most = 0;
    char text[200];
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_row *row = &diagnosis->rows[i];
        if (row->verdict.delays[NS_DELAY_PEER] && row->source == NS_SOURCE_OUTSIDE)
            source = NS_SOURCE_OUTSIDE;
        for (enum ns_delay delay = 0; delay < NS_DELAY_COUNT; delay++) {
            times[delay] += row->verdict.delays[delay];
            ns[delay] += row->verdict.delays_ns[delay];
        }
    }
    for (enum ns_delay delay = 1; delay < NS_DELAY_COUNT; delay++)
        if (ns[delay] > ns[most])
            most = delay;
    if (times[most] && (double)ns[most] >= MS)
        ns_words_add(buffer, size, "; the longest delay: %s",
                     ns_diagnosis_delay(most, source, times[most], ns[most], text, sizeof text));
}

char *ns_diagnosis_headline(const struct ns_diagnosis *diagnosis, char *buffer, size_t size)
{
    uint64_t requests = 0, late = 0;
    unsigned connections = 0;
    bool sampled = false;
    const struct ns_row *doubtful = diagnosis->rows;
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_row *row = &diagnosis->rows[i];
        requests += row->verdict.requests;
        sampled |= row->source == NS_SOURCE_OUTSIDE;
        late += row->verdict.late;
        connections += row->connections;
        if (row->verdict.doubt && (doubtful->verdict.doubt == NS_DOUBT_NOTHING ||
                                   doubtful->verdict.doubt == NS_DOUBT_NO_LOOKS))
            doubtful = row;
    }
    if (diagnosis->n_rows == 0) {
        snprintf(buffer, size, "cannot tell: no TCP connection with traffic was seen");
        return buffer;
    }
    switch (diagnosis->grade) {
    case NS_GRADE_PROVEN:
    case NS_GRADE_LIKELY:
        say_stalls(diagnosis, buffer, size);
        return buffer;
    case NS_GRADE_LATE:
        snprintf(buffer, size,
                 "no stall: bytes were held %" PRIu64 " time%s, but nobody waited for them", late,
                 ns_plural(late));
        break;
    case NS_GRADE_NONE:
        snprintf(buffer, size,
                 "no stall: %s%" PRIu64 " request%s on %u connection%s, and Nagle's algorithm held "
                 "none of them",
                 sampled && requests ? "at least " : "", requests, ns_plural(requests), connections,
                 ns_plural(connections));
        break;
    case NS_GRADE_CANNOT_TELL:
        snprintf(buffer, size, "cannot tell: %s", ns_diagnosis_doubt(doubtful));
        if (doubtful->verdict.doubt == NS_DOUBT_PEER)
            return buffer;
        break;
    }
    add_delay(diagnosis, buffer, size);
    return buffer;
}
