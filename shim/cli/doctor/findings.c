/* SPDX-License-Identifier: MIT */
/* Owns the list of findings and how it is printed. It must not judge. */
#include "cli/doctor/findings.h"

#include "cli/output.h"

#include <stdarg.h>
#include <stdio.h>

enum kind { WARNING, REASON };

static const struct {
    const char *word;
    enum kind kind;
} kinds[] = {
    {NULL, REASON},
    {NULL, WARNING},
#define NS_FINDING(id, word, kind) {word, kind},
#include "cli/doctor/findings.def"
#undef NS_FINDING
};

const char *ns_finding_word(enum ns_finding_kind kind)
{
    return kinds[kind].word;
}

bool ns_finding_is_reason(const struct ns_finding *finding)
{
    return kinds[finding->kind].kind == REASON;
}

void ns_findings_add(struct ns_findings *findings, enum ns_finding_kind kind, const char *format,
                     ...)
{
    if (findings->n == NS_FINDINGS_MOST)
        return;
    struct ns_finding *finding = &findings->list[findings->n++];
    va_list arguments;

    finding->kind = kind;
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
}

const struct ns_finding *ns_findings_first_reason(const struct ns_findings *findings)
{
    for (unsigned i = 0; i < findings->n; i++)
        if (ns_finding_is_reason(&findings->list[i]))
            return &findings->list[i];
    return NULL;
}

static void print(const struct ns_findings *findings, bool reasons)
{
    const char *list = reasons ? "reasons" : "warnings";

    ns_output_expect(list);
    for (unsigned i = 0; i < findings->n; i++) {
        const struct ns_finding *finding = &findings->list[i];

        if (ns_finding_is_reason(finding) != reasons)
            continue;
        ns_output_line("%s: %s", reasons ? "reason" : "warning", finding->text);
        ns_output_list(list, finding->text);
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

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ns_output_line("verdict: %s", text);
    ns_output_text(ns_output_object(), "works", works);
    ns_output_text(ns_output_object(), "verdict", text);
}
