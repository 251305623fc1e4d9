/* SPDX-License-Identifier: MIT */
/* Owns the list of what doctor has found. It must not judge. */
#include "cli/findings.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 3, 0))) static void add(struct ns_findings *findings, bool is_reason,
                                                      const char *format, va_list arguments)
{
    if (findings->n == NS_FINDINGS_MOST)
        return;
    findings->list[findings->n].is_reason = is_reason;
    vsnprintf(findings->list[findings->n].text, NS_FINDING_SIZE, format, arguments);
    findings->n++;
}

void ns_findings_reason(struct ns_findings *findings, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add(findings, true, format, arguments);
    va_end(arguments);
}

void ns_findings_warning(struct ns_findings *findings, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add(findings, false, format, arguments);
    va_end(arguments);
}

bool ns_findings_have_reason(const struct ns_findings *findings)
{
    for (unsigned i = 0; i < findings->n; i++)
        if (findings->list[i].is_reason)
            return true;
    return false;
}

static void print(const struct ns_findings *findings, bool reasons)
{
    for (unsigned i = 0; i < findings->n; i++)
        if (findings->list[i].is_reason == reasons)
            printf("%s: %s\n", reasons ? "reason" : "warning", findings->list[i].text);
}

void ns_findings_print(const struct ns_findings *findings)
{
    print(findings, false);
    print(findings, true);
}
