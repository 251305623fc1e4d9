/* SPDX-License-Identifier: MIT */
/* What doctor has found, kept until all facts are printed: warnings, then reasons, then the verdict
 * as the last line. */
#ifndef NS_FINDINGS_H
#define NS_FINDINGS_H

#include <stdbool.h>

enum { NS_FINDINGS_MOST = 16, NS_FINDING_SIZE = 1024 };

enum ns_finding_kind {
    /* about a program that does not run */
    NS_FINDING_REASON,
    NS_FINDING_WARNING,
/* about a process */
#define NS_FINDING(id, word, kind) NS_FINDING_##id,
#include "cli/doctor/findings.def"
#undef NS_FINDING
};

struct ns_findings {
    unsigned n;
    struct ns_finding {
        enum ns_finding_kind kind;
        char text[NS_FINDING_SIZE];
    } list[NS_FINDINGS_MOST];
};

/* Add a finding, unless the list is full. */
__attribute__((format(printf, 3, 4))) void
ns_findings_add(struct ns_findings *findings, enum ns_finding_kind kind, const char *format, ...);

/* Does it say why the shim does nothing? Otherwise it is a warning. */
bool ns_finding_is_reason(const struct ns_finding *finding);

/* The first reason; NULL if there is none: then the shim works. */
const struct ns_finding *ns_findings_first_reason(const struct ns_findings *findings);

/* The word of a kind; NULL for those about a program. */
const char *ns_finding_word(enum ns_finding_kind kind);

/* Print warnings, then reasons. */
void ns_findings_print(const struct ns_findings *findings);

/* Print the verdict. works: "yes", "no", or "unknown". */
__attribute__((format(printf, 2, 3))) void ns_findings_conclude(const char *works,
                                                                const char *format, ...);

#endif
