/* SPDX-License-Identifier: MIT */
/* The forms of a diagnosis: text for people, JSON for programs, a page that shows the JSON, the
 * policy that ends the stalls, and the next command to run. */
#ifndef NS_DIAGNOSE_REPORT_H
#define NS_DIAGNOSE_REPORT_H

#include "cli/diagnose/rows.h"

#include <cJSON.h>
#include <stdbool.h>

/* --- sentences.c: the sentences that the text and the JSON share; the page shows those of the
 * JSON. Call them after ns_diagnosis_finish. The results are those of ns_words (cli/output.h). */

/* "127.0.0.1:80", "[::1]:80", or "?" if it is unknown. */
const char *ns_words_address(const struct ns_address *address);

/* "python3[17]" */
const char *ns_words_process(const struct ns_row_process *process);

/* The verdict on everything that was watched. */
const char *ns_diagnosis_headline(const struct ns_diagnosis *diagnosis);

/* The reason for the grade, and for CANNOT_TELL. */
const char *ns_diagnosis_proof(const struct ns_row *row);
const char *ns_diagnosis_doubt(const struct ns_row *row);

/* "61 requests, 59 stalled for 40.1 to 44.9 ms; 2 665 ms lost", of a row that stalls. */
const char *ns_diagnosis_cost(const struct ns_row *row);

/* What the experiment in a process has shown. */
const char *ns_diagnosis_experiment(const struct ns_row_process *process);

/* Before a loss: "", "at least ", "at most " ... */
const char *ns_words_bound(const struct ns_row *row);

/* Beside certain stalls, requests that were held and then took longer than the release explains:
 * "20 requests took 145 ms each: up to 45 ms held, the rest the peer". NULL: there are none. */
const char *ns_diagnosis_mixed(const struct ns_row *row);

/* "the peer took long to answer, 3 times, 20.1 ms each" */
const char *ns_diagnosis_delay(const struct ns_row *row, enum ns_delay delay);

/* "; ", before and the longest delay of n rows, or "" if that took less than 1 ms. */
const char *ns_words_longest_delay(const struct ns_row *rows, size_t n, const char *before);

/* Of a row that is held by the peer: "; this end may have held bytes, too: 3 times, 40.1 ms each",
 * or "". */
const char *ns_words_own_holds(const struct ns_row *row);

/* "peer", for machines. */
const char *ns_delay_name(enum ns_delay delay);

/* --- text.c, json.c and policy.c ------------------------------------------------------------- */

struct ns_report {
    const struct ns_diagnosis *diagnosis;
    const char *command;     /* this command, as it was typed */
    char *const *program;    /* the program that was started, or NULL */
    pid_t pid;               /* the process that was watched; 0: not only one */
    const char *subject;     /* a command line, "process 17", or "every process" */
    char *policy;            /* on one line, allocated; NULL: none is needed */
    const char *policy_file; /* where it was written; NULL: nowhere */
    const char *next;        /* what to do next; NULL: nothing */
    const char *now;         /* the same without a restart */
};

/* The text, on standard error and wrapped at width columns; 0: not a terminal, and the headline
 * stays on one line. */
void ns_report_print(const struct ns_report *report, int width);

/* Add the members that config/diagnosis.schema.json describes. */
void ns_report_fill_json(cJSON *object, const struct ns_report *report);

/* config/diagnosis.html with this JSON text inserted, allocated. '<' becomes an escape sequence of
 * JSON, since a process may be named "</script>". */
char *ns_report_page(const char *json);

/* A policy with a rule for each stalling row: its process, role and port. If no preload can reach
 * that process, the rule is for the other end of its connections. The text is allocated, on one
 * line or formatted for a file; NULL if there is nothing to cure. */
char *ns_diagnosis_policy(const struct ns_diagnosis *diagnosis, bool for_a_file);

/* A cure: what it does, what it gains, and whether it is possible. */
const char *ns_diagnosis_cure(const struct ns_row *row, unsigned number);

/* The command that applies a cure of a row; NULL: none is known. */
const char *ns_report_command(const struct ns_report *report, const struct ns_row *row,
                              unsigned number);

/* Set subject, next, which is a command if there is one, and now. */
void ns_report_advise(struct ns_report *report);

#endif
