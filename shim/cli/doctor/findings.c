/* SPDX-License-Identifier: MIT */
/* See doctor.h. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/program/program.h"

void ns_findings_add(struct ns_findings *findings, enum ns_finding_kind kind, const char *cause,
                     const char *text)
{
    if (findings->n < NS_FINDINGS_MOST)
        findings->list[findings->n++] = (struct ns_finding){kind, cause, text};
}

const struct ns_finding *ns_findings_verdict(const struct ns_findings *findings)
{
    const struct ns_finding *unknown = NULL;
    for (unsigned i = 0; i < findings->n; i++) {
        if (findings->list[i].kind == NS_FINDING_REASON)
            return &findings->list[i];
        if (findings->list[i].kind == NS_FINDING_UNKNOWN && !unknown)
            unknown = &findings->list[i];
    }
    return unknown;
}

const char *ns_findings_works(const struct ns_findings *findings)
{
    const struct ns_finding *verdict = ns_findings_verdict(findings);
    if (!verdict)
        return "yes";
    return verdict->kind == NS_FINDING_REASON ? "no" : "unknown";
}

void ns_findings_fill(const struct ns_findings *findings, cJSON *object)
{
    cJSON *warnings = ns_output_expect_in(object, "warnings");
    cJSON *reasons = ns_output_expect_in(object, "reasons");
    for (unsigned i = 0; i < findings->n; i++) {
        const struct ns_finding *finding = &findings->list[i];
        cJSON *one = ns_output_item(finding->kind == NS_FINDING_REASON ? reasons : warnings);
        ns_output_text(one, "cause", finding->cause);
        ns_output_text(one, "text", finding->text);
    }
}

void ns_findings_print(const struct ns_findings *findings)
{
    for (unsigned i = 0; i < findings->n; i++)
        if (findings->list[i].kind != NS_FINDING_REASON)
            ns_output_line("warning: %s", findings->list[i].text);
    for (unsigned i = 0; i < findings->n; i++)
        if (findings->list[i].kind == NS_FINDING_REASON)
            ns_output_line("reason: %s", findings->list[i].text);
    ns_findings_fill(findings, ns_output_object());
}

int ns_findings_conclude(const char *works, const char *text)
{
    ns_output_line("verdict: %s", text);
    ns_output_text(ns_output_object(), "works", works);
    ns_output_text(ns_output_object(), "verdict", text);
    return *works == 'y' ? NS_EXIT_YES : *works == 'n' ? NS_EXIT_NO : NS_EXIT_ERROR;
}

void ns_findings_print_loader(const char *loader)
{
    const char *libc = ns_reach_libc(loader);
    if (loader[0])
        ns_output_fact("loader", "%s%s%s%s", loader, libc ? " (" : "", libc ? libc : "",
                       libc ? ")" : "");
}
