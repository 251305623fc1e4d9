/* SPDX-License-Identifier: MIT */
/* What doctor has found out, kept until the facts are printed: warnings, reasons, and the verdict
 * as the last line. */
#ifndef NS_FINDINGS_H
#define NS_FINDINGS_H

#include <stdbool.h>

enum { NS_FINDINGS_MOST = 16, NS_FINDING_SIZE = 1024 };

enum ns_finding_kind {
    NS_FINDING_NONE, /* of a program that does not run: its text is all there is */
#define NS_FINDING(id, word, kind, cell, text) NS_FINDING_##id,
#include "cli/doctor/findings.def"
#undef NS_FINDING
    NS_FINDING_KINDS
};

struct ns_findings {
    unsigned n;
    struct ns_finding {
        bool is_reason; /* otherwise a warning */
        enum ns_finding_kind kind;
        char text[NS_FINDING_SIZE];
    } list[NS_FINDINGS_MOST];
};

/* A reason why the shim does nothing; a warning says what may be wrong though it does. */
__attribute__((format(printf, 2, 3))) void ns_findings_reason(struct ns_findings *findings,
                                                              const char *format, ...);
__attribute__((format(printf, 2, 3))) void ns_findings_warning(struct ns_findings *findings,
                                                               const char *format, ...);

/* What a row of findings.def stands for: a reason or a warning, as that says. */
__attribute__((format(printf, 3, 4))) void
ns_findings_add(struct ns_findings *findings, enum ns_finding_kind cause, const char *format, ...);

/* Of a cause: its word, NULL for none; its text; and what a cell of a table shows of a finding. */
const char *ns_finding_word(enum ns_finding_kind cause);
const char *ns_finding_text(enum ns_finding_kind cause);
const char *ns_finding_cell(const struct ns_finding *finding);

bool ns_findings_have_reason(const struct ns_findings *findings);

/* The first reason; NULL if there is none. */
const struct ns_finding *ns_findings_first_reason(const struct ns_findings *findings);

/* Print warnings, then reasons. */
void ns_findings_print(const struct ns_findings *findings);

/* Print the verdict. works: "yes", "no", or "unknown" where nothing can be told yet. */
__attribute__((format(printf, 2, 3))) void ns_findings_conclude(const char *works,
                                                                const char *format, ...);

#endif
