/* SPDX-License-Identifier: MIT */
/* Owns the report for people: a verdict first, then what stalls in full, then the rest a line each,
 * then what to do. It must stay short: somebody reads it who has little time. Not
 * async-signal-safe. */
#include "cli/diagnose/diagnosis_report.h"

#include "cli/diagnose/diagnosis_words.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    FULL_MOST = 4,   /* rows that are told in full */
    SHORT_MOST = 10, /* rows that are told in a line */
    TEXT_MOST = 1024,
    WIDTH_DEFAULT = 100,
};

#define MS 1e6

/* From that column on, further lines indented. A word that is longer than a line stays whole, so
 * that it can be copied. */
static void print_words(FILE *stream, const char *text, int column, int indent, int width)
{
    bool first = true;

    while (*text) {
        int length = (int)strcspn(text, " ");

        if (!first && column + 1 + length > width) {
            fprintf(stream, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        column += fprintf(stream, "%s%.*s", first ? "" : " ", length, text);
        first = false;
        text += length;
        text += strspn(text, " ");
    }
    putc('\n', stream);
}

/* "  label  text", further lines of it indented likewise. */
static void print_wrapped(FILE *stream, const char *label, const char *text, int width)
{
    const int indent = 12;

    fprintf(stream, "  %-*s", indent - 2, label);
    print_words(stream, text, indent, indent, width);
}

static void say_counts(const struct ns_diagnosed *row, char *text, size_t size)
{
    const struct ns_verdict *verdict = &row->verdict;
    double lost = ns_diagnosis_lost_ms(row), of = (double)verdict->waited_ns / MS;
    double watched = (double)verdict->watched_ns / MS;
    uint64_t stalls = ns_diagnosis_stall_count(row);
    int used;

    used = snprintf(text, size, "%s%" PRIu64 " request%s, %" PRIu64 " stall%s",
                    row->source == NS_SOURCE_OUTSIDE ? "at least " : "", verdict->requests,
                    verdict->requests == 1 ? "" : "s", stalls, stalls == 1 ? "" : "s");
    if (ns_diagnosis_holds(row) && verdict->longest_ns && stalls == 1)
        used += snprintf(text + used, size - (size_t)used, " of %.1f ms",
                         (double)verdict->longest_ns / MS);
    else if (ns_diagnosis_holds(row) && verdict->longest_ns)
        used += snprintf(text + used, size - (size_t)used, " of %.1f to %.1f ms",
                         (double)verdict->shortest_ns / MS, (double)verdict->longest_ns / MS);
    used += snprintf(text + used, size - (size_t)used, "; %s%.0f ms lost",
                     ns_diagnosis_certain(row) ? "" : "at most ", lost);
    if (of >= lost && of > 0)
        used +=
            snprintf(text + used, size - (size_t)used, " of %.0f (%.0f %%)", of, 100 * lost / of);
    else if (watched >= lost && watched > 0)
        used += snprintf(text + used, size - (size_t)used, " of %.0f watched (%.0f %%)", watched,
                         100 * lost / watched);
    else if (row->connections > 1) /* side by side */
        used += snprintf(text + used, size - (size_t)used, " on %u connections, in %.0f watched",
                         row->connections, watched);
    if (ns_diagnosis_certain(row) && verdict->maybe)
        snprintf(text + used, size - (size_t)used, ", and %.0f more at most",
                 (double)(verdict->most_ns - verdict->certain_ns) / MS);
}

static void print_full(FILE *stream, const struct ns_diagnosis *diagnosis,
                       const struct ns_diagnosed *row, int width)
{
    char text[TEXT_MOST];

    fprintf(stream, "\n%s[%d], %s: %s\n", row->process->name, row->process->pid,
            ns_diagnosis_where(row, text, sizeof(text)), ns_grade_name(row->verdict.grade));
    say_counts(row, text, sizeof(text));
    print_wrapped(stream, "cost", text, width);
    if (row->pattern[0])
        print_wrapped(stream, "pattern", row->pattern, width);
    print_wrapped(stream, row->verdict.grade == NS_GRADE_PROVEN ? "proof" : "signs",
                  ns_diagnosis_proof(row, text, sizeof(text)), width);
    for (unsigned cause = 0; cause < NS_CAUSE_COUNT; cause++)
        if (ns_diagnosis_besides(row, cause, text, sizeof(text)))
            print_wrapped(stream, "besides", text, width);
    if (row->process->has_shim)
        print_wrapped(stream, "shim",
                      "it is in this process already: 'nagleshim doctor' says what it does", width);
    for (unsigned i = 0; ns_diagnosis_cure(diagnosis, row, i, text, sizeof(text)); i++)
        print_wrapped(stream, i == 0 ? "cure" : "or", text, width);
}

/* The cause that took most of the row's time; "" if none did. */
static void say_cause(const struct ns_diagnosed *row, char *text, size_t size)
{
    const struct ns_verdict *verdict = &row->verdict;
    unsigned most = 0;

    for (unsigned cause = 1; cause < NS_CAUSE_COUNT; cause++)
        if (verdict->causes_ns[cause] > verdict->causes_ns[most])
            most = cause;
    *text = '\0';
    if (verdict->causes[most] && (double)verdict->causes_ns[most] >= MS)
        snprintf(text, size, "; %s, %.1f ms each", ns_diagnosis_cause_meaning(most, row->source),
                 (double)verdict->causes_ns[most] / MS / (double)verdict->causes[most]);
}

static void print_short(FILE *stream, const struct ns_diagnosis *diagnosis,
                        const struct ns_diagnosed *row)
{
    const struct ns_diagnosed *other = ns_diagnosis_other_end(diagnosis, row);
    char where[128], cause[128];

    say_cause(row, cause, sizeof(cause));
    fprintf(stream, "%s[%d], %s: %s", row->process->name, row->process->pid,
            ns_diagnosis_where(row, where, sizeof(where)), ns_grade_name(row->verdict.grade));
    if (other && ns_diagnosis_stalls(other) && other < row)
        fprintf(stream, "; the other end of one above\n");
    else if (ns_diagnosis_stalls(row))
        fprintf(stream, "; %.0f ms lost\n", ns_diagnosis_lost_ms(row));
    else if (row->verdict.grade == NS_GRADE_CANNOT_TELL)
        fprintf(stream, "; %s\n", ns_diagnosis_doubt(row->verdict.doubt));
    else
        fprintf(stream, "; %" PRIu64 " request%s%s\n", row->verdict.requests,
                row->verdict.requests == 1 ? "" : "s", cause);
}

/* Is it to be told in full: one that stalls, and not the other end of one that has been told? */
static bool is_full(const struct ns_diagnosis *diagnosis, const struct ns_diagnosed *row)
{
    const struct ns_diagnosed *other = ns_diagnosis_other_end(diagnosis, row);

    return ns_diagnosis_stalls(row) && !(other && other < row && ns_diagnosis_stalls(other));
}

static void print_rows(FILE *stream, const struct ns_diagnosis *diagnosis, int width)
{
    size_t full = 0, brief = 0, left = 0;

    for (size_t i = 0; i < diagnosis->n_rows; i++)
        if (is_full(diagnosis, &diagnosis->rows[i]) && full < FULL_MOST) {
            print_full(stream, diagnosis, &diagnosis->rows[i], width);
            full++;
        }
    full = 0;
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        if (is_full(diagnosis, &diagnosis->rows[i]) && full++ < FULL_MOST)
            continue;
        if (brief == 0)
            putc('\n', stream);
        if (brief++ < SHORT_MOST)
            print_short(stream, diagnosis, &diagnosis->rows[i]);
        else
            left++;
    }
    if (left)
        fprintf(stream, "and %zu more; --json has them all\n", left);
    if (diagnosis->idle)
        fprintf(stream, "%s%" PRIu64 " connection%s had no traffic\n", brief ? "" : "\n",
                diagnosis->idle, diagnosis->idle == 1 ? "" : "s");
}

void ns_diagnosis_print_text(FILE *stream, const struct ns_diagnosis_report *report, int width)
{
    const struct ns_diagnosis *diagnosis = report->diagnosis;
    char text[TEXT_MOST];

    /* Whoever searches a file for it finds it in one line. */
    ns_diagnosis_headline(diagnosis, text, sizeof(text));
    fprintf(stream, "nagleshim diagnose: ");
    print_words(stream, text, (int)strlen("nagleshim diagnose: "), 0, width ? width : INT_MAX);
    print_rows(stream, diagnosis, width ? width : WIDTH_DEFAULT);
    if (report->next || report->n_notes || diagnosis->n_experiments)
        putc('\n', stream);
    for (size_t i = 0; i < diagnosis->n_experiments; i++)
        fprintf(stream, "experiment: %s\n",
                ns_diagnosis_experiment(&diagnosis->experiments[i], text, sizeof(text)));
    for (unsigned i = 0; i < report->n_notes; i++)
        fprintf(stream, "note: %s\n", report->notes[i]);
    if (report->next)
        fprintf(stream, "next: %s\n", report->next);
    if (report->written)
        fprintf(stream, "policy: in %s\n", report->written);
    else if (report->policy)
        fprintf(stream, "policy: %s\n", report->policy);
    if (report->page)
        fprintf(stream, "page: %s\n", report->page);
}
