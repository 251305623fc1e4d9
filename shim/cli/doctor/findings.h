/* SPDX-License-Identifier: MIT */
/* What the forms of `nagleshim doctor` find, and how it is kept and printed. */
#ifndef NS_FINDINGS_H
#define NS_FINDINGS_H

enum { NS_FINDINGS_MOST = 16, NS_FINDING_SIZE = 1024 };

enum ns_finding_kind { NS_FINDING_IS_WARNING, NS_FINDING_IS_REASON, NS_FINDING_IS_UNKNOWN };

enum ns_finding_id {
#define NS_FINDING(id, word, kind) NS_FINDING_##id,
#include "cli/doctor/findings.def"
#undef NS_FINDING
};

struct ns_findings {
    unsigned n;
    struct ns_finding {
        enum ns_finding_id id;
        enum ns_finding_kind kind;
        const char *word; /* the "cause" in --json */
        char text[NS_FINDING_SIZE];
    } list[NS_FINDINGS_MOST];
};

/* Add a finding, unless the list is full. */
__attribute__((format(printf, 3, 4))) void
ns_findings_add(struct ns_findings *findings, enum ns_finding_id id, const char *format, ...);

/* The finding that decides: the first reason, or the first one of kind UNKNOWN; NULL if the library
 * works. */
const struct ns_finding *ns_findings_verdict(const struct ns_findings *findings);

/* "yes", "no" or "unknown": does the library work? */
const char *ns_findings_works(const struct ns_findings *findings);

/* Print warnings, then reasons. */
void ns_findings_print(const struct ns_findings *findings);

/* Print the verdict, as the last line. Returns the exit status. */
__attribute__((format(printf, 2, 3))) int ns_findings_conclude(const char *works,
                                                               const char *format, ...);

/* `nagleshim doctor PROGRAM`: prints what it finds about a program, whose words these are. Returns
 * the exit status. */
int ns_doctor_program(char **words, unsigned n);

/* "loader: FILE (libc)", unless loader is "". */
void ns_findings_print_loader(const char *loader);

#endif
