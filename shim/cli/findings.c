/* SPDX-License-Identifier: MIT */
/* Owns the list of what doctor has found. It must not judge. */
#include "cli/findings.h"

#include "cli/output.h"

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
    ns_output_expect(reasons ? "reasons" : "warnings");
    for (unsigned i = 0; i < findings->n; i++) {
        if (findings->list[i].is_reason != reasons)
            continue;
        ns_output_line("%s: %s", reasons ? "reason" : "warning", findings->list[i].text);
        ns_output_list(reasons ? "reasons" : "warnings", findings->list[i].text);
    }
}

void ns_findings_print(const struct ns_findings *findings)
{
    print(findings, false);
    print(findings, true);
}

void ns_findings_conclude(const char *works, const char *format, ...)
{
    char text[256];
    va_list arguments;
    cJSON *object = ns_output_object();

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    ns_output_line("verdict: %s", text);
    ns_output_text(object, "works", works);
    ns_output_text(object, "verdict", text);
}
