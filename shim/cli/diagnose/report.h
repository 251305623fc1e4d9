/* SPDX-License-Identifier: MIT */
/* The forms of a diagnosis: text for people, JSON for programs, a page that shows the JSON, the
 * policy that ends the stalls, and the next command to run. */
#ifndef NS_DIAGNOSE_REPORT_H
#define NS_DIAGNOSE_REPORT_H

#include "cli/diagnose/rows.h"

#include <cJSON.h>
#include <stdbool.h>

struct ns_report {
    const struct ns_diagnosis *diagnosis;
    const char *command;     /* this command, as it was typed */
    char *const *program;    /* the program that was started, or NULL */
    pid_t pid;               /* the process that was watched; 0: not only one */
    char *subject;           /* a command line, "process 17", or "every process"; allocated */
    char *policy;            /* on one line; NULL: none is needed */
    const char *policy_file; /* where it was written; NULL: nowhere */
    char *next;              /* what to do next, allocated; NULL: nothing */
    char *now;               /* the same without a restart */
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

/* A cure: what it does, what it gains, and whether it is possible; valid until the next call. */
const char *ns_diagnosis_cure(const struct ns_row *row, unsigned number);

/* The command that applies a cure of a row, allocated; NULL: none is known. */
char *ns_report_command(const struct ns_report *report, const struct ns_row *row, unsigned number);

/* Set subject, next, which is a command if there is one, and now. */
void ns_report_advise(struct ns_report *report);

#endif
