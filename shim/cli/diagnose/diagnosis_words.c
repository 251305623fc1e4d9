/* SPDX-License-Identifier: MIT */
/* Owns the sentences of a diagnosis. It must claim no more than the verdict does: what is "at most"
 * there is so here. Pure; not async-signal-safe. */
#include "cli/diagnose/diagnosis_words.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MS 1e6 /* nanoseconds */

/* A cause that took less in all is not told. */
#define TOLD_FROM_MS 5

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
              sizeof(text));
    snprintf(buffer, size, v4 ? "%s:%u" : "[%s]:%u", text, address->port);
    return buffer;
}

char *ns_diagnosis_where(const struct ns_diagnosed *row, char *buffer, size_t size)
{
    char address[64];

    snprintf(buffer, size, "%s %s",
             row->role == NS_ROLE_CLIENT   ? "client of"
             : row->role == NS_ROLE_SERVER ? "server on"
                                           : "connected to",
             ns_words_address(&row->service, address, sizeof(address)));
    return buffer;
}

const char *ns_diagnosis_cause(enum ns_cause cause)
{
    static const char *const words[NS_CAUSE_COUNT] = {
        [NS_CAUSE_PEER] = "peer", [NS_CAUSE_WINDOW] = "window", [NS_CAUSE_LOSS] = "loss",
        [NS_CAUSE_WIRE] = "wire", [NS_CAUSE_CORK] = "cork",     [NS_CAUSE_PACING] = "pacing",
    };

    return cause < NS_CAUSE_COUNT && words[cause] ? words[cause] : "unknown";
}

const char *ns_diagnosis_cause_meaning(enum ns_cause cause, enum ns_source source)
{
    static const char *const meanings[NS_CAUSE_COUNT] = {
        [NS_CAUSE_PEER] = "the peer took its time",
        [NS_CAUSE_WINDOW] = "the peer's window was shut: it does not read",
        [NS_CAUSE_LOSS] = "segments were lost and sent again",
        [NS_CAUSE_WIRE] = "the wire is that long",
        [NS_CAUSE_CORK] = "the program's own TCP_CORK or MSG_MORE held it",
        [NS_CAUSE_PACING] = "congestion control or pacing held it",
    };

    /* Where an answer and the next request come between two looks, nobody saw who was waited for.
     */
    if (cause == NS_CAUSE_PEER && source == NS_SOURCE_OUTSIDE)
        return "the peer, or the program, took its time";
    return cause < NS_CAUSE_COUNT && meanings[cause] ? meanings[cause] : "something else";
}

const char *ns_diagnosis_doubt(enum ns_doubt doubt)
{
    switch (doubt) {
    case NS_DOUBT_NO_LOOKS:
        return "there were too few looks while data was on its way";
    case NS_DOUBT_NO_UNSENT:
        return "this kernel does not tell how many bytes are unsent (Linux 4.6 does)";
    case NS_DOUBT_NO_WINDOW:
        return "this kernel does not tell the peer's window (Linux 5.4 does), and a shut one looks "
               "the same";
    case NS_DOUBT_ANSWERS:
        return "bytes were held, and the answers came so late after them that they may not have "
               "waited for them; --experiment tells";
    case NS_DOUBT_NOTHING:
        break;
    }
    return "nothing was seen that could be judged";
}

bool ns_diagnosis_stalls(const struct ns_diagnosed *row)
{
    return row->verdict.grade == NS_GRADE_PROVEN || row->verdict.grade == NS_GRADE_LIKELY;
}

bool ns_diagnosis_holds(const struct ns_diagnosed *row)
{
    return row->verdict.stalls > 0 || row->verdict.receiving == 0;
}

uint64_t ns_diagnosis_stall_count(const struct ns_diagnosed *row)
{
    if (!ns_diagnosis_stalls(row))
        return 0;
    return !ns_diagnosis_holds(row) ? row->verdict.receiving
           : row->verdict.stalls    ? row->verdict.stalls
                                    : row->verdict.maybe;
}

double ns_diagnosis_lost_ms(const struct ns_diagnosed *row)
{
    const struct ns_verdict *verdict = &row->verdict;

    if (!ns_diagnosis_stalls(row))
        return 0;
    if (row->measured)
        return (double)ns_diagnosis_stall_count(row) *
               (row->measured->left_ms - row->measured->done_ms);
    return (double)(!ns_diagnosis_holds(row) ? verdict->receiving_ns
                    : verdict->certain_ns    ? verdict->certain_ns
                                             : verdict->most_ns) /
           MS;
}

bool ns_diagnosis_certain(const struct ns_diagnosed *row)
{
    return row->measured || (ns_diagnosis_holds(row) && row->verdict.certain_ns > 0);
}

double ns_diagnosis_total_lost_ms(const struct ns_diagnosis *diagnosis)
{
    double sum = 0;

    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_diagnosed *row = &diagnosis->rows[i];
        const struct ns_diagnosed *other = ns_diagnosis_other_end(diagnosis, row);

        /* What a process loses to its peer's Nagle is what that peer is seen to hold. */
        if (ns_diagnosis_holds(row) || !other || !ns_diagnosis_stalls(other) ||
            !ns_diagnosis_holds(other))
            sum += ns_diagnosis_lost_ms(row);
    }
    return sum;
}

unsigned ns_diagnosis_cures(const struct ns_diagnosis *diagnosis, const struct ns_diagnosed *row,
                            struct ns_cure cures[2])
{
    const struct ns_diagnosed *other = ns_diagnosis_other_end(diagnosis, row);
    const struct ns_verdict *verdict = &row->verdict;
    bool holds = ns_diagnosis_holds(row);
    uint64_t n = ns_diagnosis_stall_count(row);
    double rtt = (double)verdict->rtt_us / 1e3, each;

    if (n == 0)
        return 0;
    each = ns_diagnosis_lost_ms(row) / (double)n;
    for (unsigned i = 0; i < 2; i++) {
        bool pushes = (i == 0) == holds;
        /* What the coin has done here is what a cure on this end does. */
        const struct ns_diagnosed_experiment *measured = i == 0 ? row->measured : NULL;

        /* An ACK before the wait still has to travel before what is held may leave. */
        cures[i] = (struct ns_cure){
            .end = i == 0 ? "this end" : "other end",
            .does = pushes ? "send adaptive" : "ack before-wait",
            .from_ms = measured ? measured->left_ms : each + rtt,
            .to_ms = measured ? measured->done_ms : fmin(pushes ? rtt : 2 * rtt, each + rtt),
            .measured = measured,
        };
    }
    /* What was seen to hold nothing has nothing to push. */
    return !holds && other && other->source == NS_SOURCE_INSIDE && other->verdict.stalls == 0 &&
                   other->verdict.maybe == 0 && other->verdict.late == 0
               ? 1
               : 2;
}

char *ns_diagnosis_cure(const struct ns_diagnosis *diagnosis, const struct ns_diagnosed *row,
                        unsigned number, char *buffer, size_t size)
{
    const struct ns_diagnosed *other = ns_diagnosis_other_end(diagnosis, row);
    const struct ns_diagnosed_process *at = number == 0 ? row->process : NULL;
    struct ns_cure cures[2];
    bool certain = ns_diagnosis_certain(row);
    char who[96] = "";

    if (number >= ns_diagnosis_cures(diagnosis, row, cures))
        return NULL;
    if (number == 1 && other) {
        at = other->process;
        snprintf(who, sizeof(who), " (%s)", at->name);
    }
    snprintf(buffer, size, "%s%s: %s, %.1f -> %s%.1f ms%s a request that stalls%s%s",
             cures[number].end, who, cures[number].does, cures[number].from_ms,
             cures[number].measured || !certain ? "" : "about ", fmax(cures[number].to_ms, 0.1),
             cures[number].measured ? ", as measured,"
             : certain              ? ""
                                    : " at best",
             at && at->curable.reason[0] ? "; no preload reaches it: " : "",
             at ? at->curable.reason : "");
    return buffer;
}

/* "the peer's window was shut, 3 times, 20.1 ms each" */
static void say_cause(enum ns_cause cause, enum ns_source source, uint64_t times, uint64_t ns,
                      char *buffer, size_t size)
{
    double each = (double)ns / MS / (double)times;

    if (times == 1)
        snprintf(buffer, size, "%s, once, %.1f ms", ns_diagnosis_cause_meaning(cause, source),
                 each);
    else
        snprintf(buffer, size, "%s, %" PRIu64 " times, %.1f ms each",
                 ns_diagnosis_cause_meaning(cause, source), times, each);
}

char *ns_diagnosis_besides(const struct ns_diagnosed *row, enum ns_cause cause, char *buffer,
                           size_t size)
{
    const struct ns_verdict *verdict = &row->verdict;

    if (verdict->causes[cause] == 0 || (double)verdict->causes_ns[cause] < TOLD_FROM_MS * MS)
        return NULL;
    say_cause(cause, row->source, verdict->causes[cause], verdict->causes_ns[cause], buffer, size);
    return buffer;
}

static double mean_ms(uint64_t ns, uint64_t n)
{
    return n ? (double)ns / MS / (double)n : 0;
}

static char *say_likely(const struct ns_verdict *verdict, char *buffer, size_t size)
{
    if (verdict->receiving == 0)
        snprintf(
            buffer, size,
            "bytes were held %" PRIu64 " times, and the answers came %.1f ms after they had left, "
            "which is what requests take here of which nothing was held (%.1f ms): they seem to "
            "have waited for them; --experiment push tells",
            verdict->maybe, mean_ms(verdict->answered_ns, verdict->maybe + verdict->stalls),
            mean_ms(verdict->free_ns, verdict->free));
    else
        snprintf(
            buffer, size,
            "the peer's data came on the ticks of this kernel's clock, on which delayed ACKs "
            "leave, %" PRIu64 " times: it seems to be held until this end acknowledges; a peer "
            "that keeps to such ticks itself looks the same, and --experiment acknowledge tells",
            verdict->receiving);
    return buffer;
}

static char *say_hold(const struct ns_hold *hold, uint32_t rtt_us, char *buffer, size_t size)
{
    const struct ns_look *look = &hold->look;
    double held = (double)(hold->end - hold->begin) / MS, slack = (double)hold->slack / MS;
    char range[64], round_trip[48] = "";

    if (slack >= 0.5)
        snprintf(range, sizeof(range), "%.0f to %.0f ms", fmax(0, held - slack), held + slack);
    else
        snprintf(range, sizeof(range), "%.1f ms", held);
    if (rtt_us)
        snprintf(round_trip, sizeof(round_trip), "; a round trip takes %s%.*f ms",
                 rtt_us < 10 ? "under " : "", rtt_us < 1000 ? 2 : 1, fmax(rtt_us, 10) / 1e3);
    snprintf(buffer, size,
             "%" PRIu32 " byte%s unsent behind %" PRIu32
             " unacknowledged segment%s, the window (%" PRIu32
             " bytes) and the congestion window (%" PRIu32 " segments) open, TCP_NODELAY off; "
             "released after %s, when the peer's ACK came%s",
             look->unsent, look->unsent == 1 ? "" : "s", look->unacked,
             look->unacked == 1 ? "" : "s", look->window, look->cwnd, range, round_trip);
    return buffer;
}

char *ns_diagnosis_proof(const struct ns_diagnosed *row, char *buffer, size_t size)
{
    const struct ns_verdict *verdict = &row->verdict;

    switch (verdict->grade) {
    case NS_GRADE_PROVEN:
        if (verdict->proof.end == 0)
            return say_likely(verdict, buffer, size);
        return say_hold(&verdict->proof, verdict->rtt_us, buffer, size);
    case NS_GRADE_LIKELY:
        return say_likely(verdict, buffer, size);
    case NS_GRADE_LATE:
        snprintf(buffer, size, "bytes were held %" PRIu64 " time%s, and no answer depended on them",
                 verdict->late, verdict->late == 1 ? "" : "s");
        break;
    case NS_GRADE_NONE:
        snprintf(buffer, size, "in %" PRIu64 " looks no byte was held by Nagle's algorithm",
                 verdict->looks);
        break;
    case NS_GRADE_CANNOT_TELL:
        snprintf(buffer, size, "%s", ns_diagnosis_doubt(verdict->doubt));
        break;
    }
    return buffer;
}

char *ns_diagnosis_experiment(const struct ns_diagnosed_experiment *experiment, char *buffer,
                              size_t size)
{
    bool pushes = strcmp(experiment->what, "push") == 0;

    if (experiment->done == 0 || experiment->left == 0)
        snprintf(buffer, size, "%s[%d]: there were too few waits at which %s",
                 experiment->process->name, experiment->process->pid,
                 pushes ? "something was held that could be pushed"
                        : "something had been read that could be acknowledged");
    else
        snprintf(buffer, size,
                 "%s[%d]: %s at %zu waits by a coin, answers took %.2f ms; at the other %zu not, "
                 "%.2f ms; %s (p %.2g)",
                 experiment->process->name, experiment->process->pid,
                 pushes ? "pushed" : "acknowledged", experiment->done, experiment->done_ms,
                 experiment->left, experiment->left_ms,
                 experiment->p >= NS_DIAGNOSIS_P_BELIEVED ? "no more difference than chance makes"
                 : experiment->done_ms < experiment->left_ms ? "it is a cure"
                                                             : "it makes things worse",
                 experiment->p);
    return buffer;
}

static void add(char *buffer, size_t size, const char *text)
{
    size_t used = strlen(buffer);

    snprintf(buffer + used, size - used, "%s", text);
}

/* "; 2203 ms were lost in 2.21 s of waiting"; of several rows, in the time of the whole look */
static void add_price(const struct ns_diagnosis *diagnosis, char *buffer, size_t size)
{
    const struct ns_verdict *worst = &diagnosis->rows[0].verdict;
    double lost = ns_diagnosis_total_lost_ms(diagnosis);
    double waited = (double)worst->waited_ns / MS;
    bool certain = ns_diagnosis_certain(&diagnosis->rows[0]);
    bool whole = diagnosis->n_rows > 1 || waited < lost;
    unsigned connections = 0;
    char text[160];

    if (whole)
        waited = (double)(diagnosis->end - diagnosis->begin) / MS;
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        connections += diagnosis->rows[i].connections;
    snprintf(text, sizeof(text), "; %s%.0f ms were lost", certain ? "" : "at most ", lost);
    add(buffer, size, text);
    if (lost > waited && connections > 1) { /* side by side */
        snprintf(text, sizeof(text), " by %u connections", connections);
        add(buffer, size, text);
    }
    snprintf(text, sizeof(text), " in %.*f s%s", waited < 10000 ? 2 : 0, waited / 1e3,
             whole ? "" : " of waiting");
    add(buffer, size, text);
}

static void say_stalls(const struct ns_diagnosis *diagnosis, char *buffer, size_t size)
{
    const struct ns_diagnosed *row = &diagnosis->rows[0];
    const struct ns_verdict *verdict = &row->verdict;
    const char *does = verdict->grade == NS_GRADE_PROVEN ? "stalls" : "may stall";
    uint64_t stalls = ns_diagnosis_stall_count(row);
    size_t others = 0;
    char text[96];

    if (row->source == NS_SOURCE_OUTSIDE)
        snprintf(text, sizeof(text), "at least %" PRIu64, stalls);
    else
        snprintf(text, sizeof(text), "%" PRIu64 " of %" PRIu64, stalls,
                 verdict->requests > stalls ? verdict->requests : stalls);
    if (ns_diagnosis_holds(row))
        snprintf(buffer, size,
                 "it %s: %s requests of %s were held by Nagle's algorithm until the peer's %sACK "
                 "came",
                 does, text, row->process->name, verdict->late_acks ? "delayed " : "");
    else
        snprintf(buffer, size,
                 "it %s: the peer of %s seems to be held until this end's delayed ACK, %" PRIu64
                 " times",
                 does, row->process->name, verdict->receiving);
    for (size_t i = 1; i < diagnosis->n_rows; i++)
        others += ns_diagnosis_stalls(&diagnosis->rows[i]) &&
                  ns_diagnosis_other_end(diagnosis, &diagnosis->rows[i]) != row;
    if (others) {
        snprintf(text, sizeof(text), "; %zu other row%s too", others,
                 others == 1 ? " does," : "s do,");
        add(buffer, size, text);
    }
    add_price(diagnosis, buffer, size);
}

/* What took most of the time of all rows, if anything did. */
static void add_cause(const struct ns_diagnosis *diagnosis, char *buffer, size_t size)
{
    uint64_t times[NS_CAUSE_COUNT] = {0}, ns[NS_CAUSE_COUNT] = {0};
    enum ns_source source = NS_SOURCE_INSIDE;
    unsigned most = 0;
    char text[200] = "; what took the time: ";
    size_t used = strlen(text);

    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        if (diagnosis->rows[i].verdict.causes[NS_CAUSE_PEER] &&
            diagnosis->rows[i].source == NS_SOURCE_OUTSIDE)
            source = NS_SOURCE_OUTSIDE;
        for (unsigned cause = 0; cause < NS_CAUSE_COUNT; cause++) {
            times[cause] += diagnosis->rows[i].verdict.causes[cause];
            ns[cause] += diagnosis->rows[i].verdict.causes_ns[cause];
        }
    }
    for (unsigned cause = 1; cause < NS_CAUSE_COUNT; cause++)
        if (ns[cause] > ns[most])
            most = cause;
    if (times[most] == 0 || (double)ns[most] < MS)
        return;
    say_cause(most, source, times[most], ns[most], text + used, sizeof(text) - used);
    add(buffer, size, text);
}

char *ns_diagnosis_headline(const struct ns_diagnosis *diagnosis, char *buffer, size_t size)
{
    uint64_t requests = 0, late = 0;
    unsigned connections = 0;
    bool sampled = false;
    enum ns_doubt doubt = NS_DOUBT_NOTHING;

    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        requests += diagnosis->rows[i].verdict.requests;
        sampled |= diagnosis->rows[i].source == NS_SOURCE_OUTSIDE;
        late += diagnosis->rows[i].verdict.late;
        connections += diagnosis->rows[i].connections;
        if (diagnosis->rows[i].verdict.doubt)
            doubt = diagnosis->rows[i].verdict.doubt;
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
                 "no stall: bytes were held %" PRIu64 " time%s, and nobody waited for them", late,
                 late == 1 ? "" : "s");
        break;
    case NS_GRADE_NONE:
        snprintf(buffer, size,
                 "no stall: %s%" PRIu64 " request%s on %u connection%s, and Nagle's algorithm held "
                 "none of them",
                 sampled && requests ? "at least " : "", requests, requests == 1 ? "" : "s",
                 connections, connections == 1 ? "" : "s");
        break;
    case NS_GRADE_CANNOT_TELL:
        snprintf(buffer, size, "cannot tell: %s", ns_diagnosis_doubt(doubt));
        break;
    }
    add_cause(diagnosis, buffer, size);
    return buffer;
}
