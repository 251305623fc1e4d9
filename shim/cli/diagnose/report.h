/* SPDX-License-Identifier: MIT */
/* The forms of a diagnosis: text for people, JSON for programs, and a page that shows the JSON. */
#ifndef NS_DIAGNOSE_REPORT_H
#define NS_DIAGNOSE_REPORT_H

#include "cli/diagnose/rows.h"

#include <cJSON.h>
#include <stdbool.h>
#include <stdio.h>

struct ns_report {
    const struct ns_diagnosis *diagnosis;
    const char *subject;     /* a command line, "process 17", or "every process" */
    const char *policy;      /* on one line; NULL: none is needed */
    const char *policy_file; /* where it was written; NULL: nowhere */
    const char *next;        /* what to do next; NULL: nothing */
    const char *now;         /* what helps without a restart; NULL: nothing */
    char *const *notes;      /* other facts, a sentence each */
    unsigned n_notes;
};

/* The text, wrapped at width columns; 0: not a terminal, and the headline stays on one line. */
void ns_report_print(FILE *stream, const struct ns_report *report, int width);

/* Add the members that config/diagnosis.schema.json describes. */
void ns_report_fill_json(cJSON *object, const struct ns_report *report);

/* config/diagnosis.html with this JSON text inserted, allocated; NULL without memory. '<' becomes
 * an escape sequence of JSON, since a process may be named "</script>". */
char *ns_report_page(const char *json);

#endif
