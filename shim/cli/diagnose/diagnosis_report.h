/* SPDX-License-Identifier: MIT */
/* The three forms in which a diagnosis is told. All tell the same; the words are those of
 * diagnosis_words.h. */
#ifndef NS_DIAGNOSIS_REPORT_H
#define NS_DIAGNOSIS_REPORT_H

#include "cli/diagnose/diagnosis.h"

#include <cJSON.h>
#include <stdbool.h>
#include <stdio.h>

enum { NS_NOTES_MOST = 8 };

struct ns_diagnosis_report {
    const struct ns_diagnosis *diagnosis;
    const char *subject;              /* what was looked at: a command line, or "process 17" */
    const char *policy;               /* on one line; NULL: none is needed */
    const char *written;              /* the file that has it; NULL: none */
    const char *next;                 /* what to do next; NULL: nothing */
    const char *page;                 /* the file of the page; NULL: none */
    const char *notes[NS_NOTES_MOST]; /* what else is to be known, a sentence each */
    unsigned n_notes;
};

/* The report for people, wrapped at width columns; 0: no terminal, its headline is one line. */
void ns_diagnosis_print_text(FILE *stream, const struct ns_diagnosis_report *report, int width);

/* What config/diagnosis.schema.json describes besides the members that every object has. */
void ns_diagnosis_fill_json(cJSON *object, const struct ns_diagnosis_report *report);

/* One page that needs nothing besides: no script, no network. What processes have chosen is
 * escaped. */
void ns_diagnosis_print_html(FILE *stream, const struct ns_diagnosis_report *report);

/* The two pictures of the page, as SVG in it: when it stalled; how long waits took. */
void ns_diagnosis_draw_holds(FILE *stream, const struct ns_diagnosis *diagnosis);
void ns_diagnosis_draw_waits(FILE *stream, const struct ns_diagnosis *diagnosis);

#endif
