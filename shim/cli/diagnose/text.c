/* SPDX-License-Identifier: MIT */
/* Owns the text report: the verdict first, then the stalling rows in full, the other rows on one
 * line each, and what to do. It must stay short. */
#include "cli/diagnose/diagnose.h"

enum {
    FULL_MOST = 4,   /* rows that are printed in full */
    SHORT_MOST = 10, /* rows that are printed on one line */
    DELAY_MS = 5,    /* a delay that took less in all is not printed */
    WIDTH_DEFAULT = 100,
};

#define MS 1e6

/* "  label  text", with further lines indented below the text. */
static void print_wrapped(const char *label, const char *text, int width)
{
    const int indent = 12;
    ns_print(stderr, "  %-*s", indent - 2, label);
    ns_print_words(stderr, text, indent, indent, width);
}

/* Red for a proven stall, yellow for what is not certain. */
static enum ns_colour colour(enum ns_grade grade)
{
    if (grade == NS_GRADE_PROVEN)
        return NS_RED;
    return grade == NS_GRADE_LIKELY || grade == NS_GRADE_CANNOT_TELL ? NS_YELLOW : NS_PLAIN;
}

/* "client of 127.0.0.1:80" */
static const char *where(const struct ns_row *row)
{
    static const char *const roles[] = {[NS_ROLE_UNKNOWN] = "connected to",
                                        [NS_ROLE_CLIENT] = "client of",
                                        [NS_ROLE_SERVER] = "server on"};
    return ns_words("%s %s", roles[row->role], ns_words_address(&row->service));
}

static void print_full(const struct ns_row *row, int width)
{
    const struct ns_verdict *verdict = &row->verdict;
    ns_print(stderr, "\n%s, %s: ", ns_words_process(row->process), where(row));
    ns_print_colour(stderr, colour(verdict->grade));
    ns_print(stderr, "%s", ns_row_grade(row));
    ns_print_colour(stderr, NS_PLAIN);
    ns_print(stderr, "\n");
    print_wrapped("cost", ns_diagnosis_cost(row), width);
    if (row->pattern)
        print_wrapped("pattern", row->pattern, width);
    print_wrapped(verdict->grade == NS_GRADE_PROVEN ? "proof" : "reason", ns_diagnosis_proof(row),
                  width);
    const char *mixed = ns_diagnosis_mixed(row);
    if (mixed)
        print_wrapped("also slow", mixed, width);
    for (enum ns_delay delay = 0; delay < NS_DELAY_COUNT; delay++)
        if (verdict->delays[delay] && (double)verdict->delays_ns[delay] >= DELAY_MS * MS)
            print_wrapped("also slow", ns_diagnosis_delay(row, delay), width);
    for (unsigned i = 0; i < row->n_cures; i++)
        print_wrapped(i == 0 ? "cure" : "or", ns_diagnosis_cure(row, i), width);
}

static void print_short(struct ns_row *row, int width)
{
    const struct ns_verdict *verdict = &row->verdict;
    const char *more;
    if (row->is_held)
        more = ns_words(", %s%s", ns_words_process(row->other->process), ns_words_own_holds(row));
    else if (row->is_repeated)
        more = "; the other end of a row above";
    else if (row->conclusion.stalls)
        more = ns_words("; %.0f ms lost", row->conclusion.lost_ms);
    else if (verdict->grade == NS_GRADE_CANNOT_TELL)
        more = ns_words("; %s", ns_diagnosis_proof(row));
    else
        more = ns_words("; %s%s", ns_count(verdict->requests, "request"),
                        ns_words_longest_delay(&row, 1, false));
    ns_print_words(stderr,
                   ns_words("%s, %s: %s%s", ns_words_process(row->process), where(row),
                            ns_row_grade(row), more),
                   0, 2, width);
}

static bool is_full(const struct ns_row *row)
{
    return row->conclusion.stalls && !row->is_repeated && !row->is_held;
}

static void print_rows(const struct ns_diagnosis *diagnosis, int columns)
{
    const int width = columns ? columns : WIDTH_DEFAULT;
    size_t full = 0, brief = 0, left = 0;
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        if (is_full(diagnosis->rows[i]) && full++ < FULL_MOST)
            print_full(diagnosis->rows[i], width);
    full = 0;
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        if (is_full(diagnosis->rows[i]) && full++ < FULL_MOST)
            continue;
        if (brief == 0)
            ns_print(stderr, "\n");
        if (brief++ < SHORT_MOST)
            print_short(diagnosis->rows[i], columns);
        else
            left++;
    }
    if (left)
        ns_print(stderr, "and %s; --json writes all of them\n", ns_count(left, "more row"));
    if (diagnosis->idle) {
        ns_print(stderr, brief ? "" : "\n");
        ns_print(stderr, "%s had no traffic\n", ns_count(diagnosis->idle, "connection"));
    }
}

void ns_report_print(const struct ns_report *report, int width)
{
    const struct ns_diagnosis *diagnosis = report->diagnosis;
    static const char title[] = "nagleshim diagnose: ";
    ns_print(stderr, "%s", title);
    ns_print_colour(stderr, colour(diagnosis->grade));
    ns_print_words(stderr, ns_diagnosis_headline(diagnosis), (int)sizeof title - 1, 0, width);
    ns_print_colour(stderr, NS_PLAIN);
    print_rows(diagnosis, width);
    for (size_t i = 0, n = 0; i < diagnosis->n_processes && n < SHORT_MOST; i++) {
        const struct ns_row_process *process = diagnosis->processes[i];
        if (process->trial.what == NS_EXPERIMENT_NONE)
            continue;
        ns_print(stderr, n++ ? "" : "\n");
        ns_print_words(stderr, ns_words("experiment: %s", ns_diagnosis_experiment(process)), 0, 2,
                       width);
    }
    if (report->next || diagnosis->n_notes)
        ns_print(stderr, "\n");
    for (unsigned i = 0; i < diagnosis->n_notes; i++)
        ns_print_words(stderr, ns_words("note: %s", diagnosis->notes[i]), 0, 2, width);
    if (report->next)
        ns_print(stderr, "next: %s\n", report->next);
    if (report->now)
        ns_print(stderr, "now, without a restart: %s\n", report->now);
    if (report->policy_file)
        ns_print(stderr, "policy: in %s\n", report->policy_file);
}
