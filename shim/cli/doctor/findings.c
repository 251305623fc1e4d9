/* SPDX-License-Identifier: MIT */
/* Owns the list of what doctor has found. It must not judge. */
#include "cli/doctor/findings.h"

#include "cli/output.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum kind { WARNING, REASON };
enum cell { WHOLE, SHORT };

static const struct {
    const char *word, *text;
    enum kind kind;
    enum cell cell;
} causes[] = {
    {NULL, "", WARNING, WHOLE},
#define NS_FINDING(id, word, kind, cell, text) {word, text, kind, cell},
#include "cli/doctor/findings.def"
#undef NS_FINDING
};

const char *ns_finding_word(enum ns_finding_kind cause)
{
    return causes[cause].word;
}

const char *ns_finding_text(enum ns_finding_kind cause)
{
    return causes[cause].text;
}

const char *ns_finding_cell(const struct ns_finding *finding)
{
    static const char aside[] = "the shim stands aside: "; /* has a column of its own */

    if (causes[finding->kind].cell == SHORT)
        return causes[finding->kind].text;
    if (strncmp(finding->text, aside, sizeof(aside) - 1) == 0)
        return finding->text + sizeof(aside) - 1;
    return finding->text;
}

__attribute__((format(printf, 4, 0))) static void add(struct ns_findings *findings,
                                                      enum ns_finding_kind cause, bool is_reason,
                                                      const char *format, va_list arguments)
{
    struct ns_finding *finding = &findings->list[findings->n];

    if (findings->n == NS_FINDINGS_MOST)
        return;
    finding->is_reason = is_reason;
    finding->kind = cause;
    vsnprintf(finding->text, NS_FINDING_SIZE, format, arguments);
    findings->n++;
}

void ns_findings_add(struct ns_findings *findings, enum ns_finding_kind cause, const char *format,
                     ...)
{
    va_list arguments;

    va_start(arguments, format);
    add(findings, cause, causes[cause].kind == REASON, format, arguments);
    va_end(arguments);
}

void ns_findings_reason(struct ns_findings *findings, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add(findings, NS_FINDING_NONE, true, format, arguments);
    va_end(arguments);
}

void ns_findings_warning(struct ns_findings *findings, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add(findings, NS_FINDING_NONE, false, format, arguments);
    va_end(arguments);
}

const struct ns_finding *ns_findings_first_reason(const struct ns_findings *findings)
{
    for (unsigned i = 0; i < findings->n; i++)
        if (findings->list[i].is_reason)
            return &findings->list[i];
    return NULL;
}

bool ns_findings_have_reason(const struct ns_findings *findings)
{
    return ns_findings_first_reason(findings) != NULL;
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
