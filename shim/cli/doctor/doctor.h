/* SPDX-License-Identifier: MIT */
/* What the files of `nagleshim doctor` share: what they find, and how it is kept and printed. */
#ifndef NS_DOCTOR_H
#define NS_DOCTOR_H

#include "cli/output.h"
#include "process/facts.h"

#include <stdbool.h>

enum { NS_FINDINGS_MOST = 16 };

enum ns_finding_kind {
    NS_FINDING_REASON,  /* why the library does nothing */
    NS_FINDING_UNKNOWN, /* why its status is unknown */
    NS_FINDING_WARNING, /* it works, but something may be wrong */
};

struct ns_findings {
    unsigned n;
    struct ns_finding {
        enum ns_finding_kind kind;
        const char *cause; /* a word, in --json; NULL: none */
        const char *text;
    } list[NS_FINDINGS_MOST];
};

/* Add a finding, unless the list is full. text: by ns_words. */
void ns_findings_add(struct ns_findings *findings, enum ns_finding_kind kind, const char *cause,
                     const char *text);

/* The finding that decides: the first reason, or the first one of kind UNKNOWN; NULL if the library
 * works. */
const struct ns_finding *ns_findings_verdict(const struct ns_findings *findings);

/* "yes", "no" or "unknown": does the library work? */
const char *ns_findings_works(const struct ns_findings *findings);

/* Add the lists "warnings" and "reasons" to an object of --json. */
void ns_findings_fill(const struct ns_findings *findings, cJSON *object);

/* Print warnings, then reasons. */
void ns_findings_print(const struct ns_findings *findings);

/* Print the verdict, as the last line. Returns the exit status. */
int ns_findings_conclude(const char *works, const char *text);

/* --- program.c: a program that does not run --------------------------------------------------- */

struct ns_subject;

/* Prints what it finds about the program of ns_operands, before its policy, and describes it.
 * by_name: it need not be there. NS_EXIT_YES; or another exit status, after a message. */
int ns_inspect_program(struct ns_subject *subject, bool by_name);

/* Prints the warnings and reasons, at the end. */
void ns_inspect_end(void);

/* `nagleshim doctor PROGRAM`. Returns the exit status. */
int ns_doctor_program(void);

/* "loader: FILE (libc)", unless loader is "". */
void ns_findings_print_loader(const char *loader);

/* --- examine.c: a running process ------------------------------------------------------------- */

/* A running process, and what it means. */
struct ns_examination {
    struct ns_facts facts;
    struct ns_findings findings;
};

/* Examine a process, by its number or that of one of its threads. Prints nothing. With wait, a
 * process that lacks the library is examined again when it is a second old. 0 or the error of
 * ns_facts_ask. */
int ns_examine(struct ns_examination *examination, pid_t pid, bool wait);

#endif
