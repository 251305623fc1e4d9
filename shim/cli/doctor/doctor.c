/* SPDX-License-Identifier: MIT */
/* Owns the command line of `nagleshim doctor`, and how findings are kept and printed. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/program/reach.h"
#include "cli/verbs.h"

#include <getopt.h>

#define SAY(...) ns_say("doctor", __VA_ARGS__)

int ns_doctor_main(int argc, char **argv)
{
    bool all = false;
    pid_t pid = 0;
    const struct ns_target targets[] = {
        {NS_DOCTOR_ALL, &all, 0, 0}, {NS_DOCTOR_PID, &pid, 0, 0}, {0}};
    ns_output_expect("facts");
    if (!ns_verbs_read("doctor", argc, argv, targets))
        return NS_EXIT_ERROR;
    if ((optind < argc) + (pid > 0) + all != 1)
        SAY("one of a program, --pid and --all is needed; see 'nagleshim doctor --help'");
    else if (all)
        return ns_doctor_all();
    else if (pid)
        return ns_doctor_process(pid);
    else
        return ns_doctor_program(argv + optind, (unsigned)(argc - optind));
    return NS_EXIT_ERROR;
}

void ns_findings_add(struct ns_findings *findings, enum ns_finding_id id, const char *format, ...)
{
    static const struct ns_finding rows[] = {
#define NS_FINDING(id, cause, kind_of) {NS_FINDING_##id, NS_FINDING_IS_##kind_of, cause, ""},
#include "cli/doctor/findings.def"
#undef NS_FINDING
    };
    if (findings->n == NS_FINDINGS_MOST)
        return;
    struct ns_finding *finding = &findings->list[findings->n++];
    *finding = rows[id];
    NS_FORMAT(finding->text);
}

const struct ns_finding *ns_findings_verdict(const struct ns_findings *findings)
{
    const struct ns_finding *unknown = NULL;
    for (unsigned i = 0; i < findings->n; i++) {
        if (findings->list[i].kind == NS_FINDING_IS_REASON)
            return &findings->list[i];
        if (findings->list[i].kind == NS_FINDING_IS_UNKNOWN && !unknown)
            unknown = &findings->list[i];
    }
    return unknown;
}

const char *ns_findings_works(const struct ns_findings *findings)
{
    const struct ns_finding *verdict = ns_findings_verdict(findings);
    if (!verdict)
        return "yes";
    return verdict->kind == NS_FINDING_IS_REASON ? "no" : "unknown";
}

void ns_findings_print(const struct ns_findings *findings)
{
    ns_output_expect("warnings");
    ns_output_expect("reasons");
    for (unsigned i = 0; i < findings->n; i++)
        if (findings->list[i].kind != NS_FINDING_IS_REASON)
            ns_output_item("warnings", "warning", "%s", findings->list[i].text);
    for (unsigned i = 0; i < findings->n; i++)
        if (findings->list[i].kind == NS_FINDING_IS_REASON)
            ns_output_item("reasons", "reason", "%s", findings->list[i].text);
}

void ns_findings_conclude(const char *works, const char *format, ...)
{
    char text[256];
    NS_FORMAT(text);
    ns_output_line("verdict: %s", text);
    ns_output_text(ns_output_object(), "works", works);
    ns_output_text(ns_output_object(), "verdict", text);
}

void ns_doctor_print_loader(const char *loader)
{
    const char *libc = ns_reach_libc(loader);
    if (loader[0])
        ns_output_fact("facts", "loader", "%s%s%s%s", loader, libc ? " (" : "", libc ? libc : "",
                       libc ? ")" : "");
}
