/* SPDX-License-Identifier: MIT */
/* What doctor has found out, kept until the facts are printed: warnings, reasons, and the verdict
 * as the last line. */
#ifndef NS_FINDINGS_H
#define NS_FINDINGS_H

#include <stdbool.h>

enum { NS_FINDINGS_MOST = 16, NS_FINDING_SIZE = 1024 };

struct ns_findings {
    unsigned n;
    struct {
        bool is_reason; /* otherwise a warning */
        char text[NS_FINDING_SIZE];
    } list[NS_FINDINGS_MOST];
};

/* A reason why the shim does nothing; a warning says what may be wrong though it does. */
__attribute__((format(printf, 2, 3))) void ns_findings_reason(struct ns_findings *findings,
                                                              const char *format, ...);
__attribute__((format(printf, 2, 3))) void ns_findings_warning(struct ns_findings *findings,
                                                               const char *format, ...);

bool ns_findings_have_reason(const struct ns_findings *findings);

/* Print warnings, then reasons. */
void ns_findings_print(const struct ns_findings *findings);

/* Print the verdict. works: "yes", "no", or "unknown" where nothing can be told yet. */
__attribute__((format(printf, 2, 3))) void ns_findings_conclude(const char *works,
                                                                const char *format, ...);

#endif
