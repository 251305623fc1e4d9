/* SPDX-License-Identifier: MIT */
/* Owns how one process of many is told by `nagleshim doctor --all`: the cells of its row, and its
 * object. It must not judge. Not async-signal-safe. */
#include "cli/doctor/doctor.h"

#include "cli/output.h"

#include "policy/find.h"

#include <errno.h>
#include <stdio.h>

enum { RULES_SHOWN = 3 }; /* of a process in the table */

static void add_policy(FILE *text, const struct ns_process_report *patient)
{
    uint32_t origin = patient->loaded.status.origin;

    fprintf(text, "%s: ",
            origin == NS_POLICY_BUILTIN  ? "built in"
            : origin == NS_POLICY_INLINE ? "the text in NAGLESHIM_POLICY"
            : patient->has_policy        ? patient->policy
                                         : "unknown policy");
    for (unsigned i = 0; i < patient->n_rules; i++) {
        const struct ns_process_report_rule *rule = &patient->rules[i];
        const char *send = ns_send_name(rule->send), *ack = ns_ack_name(rule->ack);

        if (i == RULES_SHOWN) {
            fprintf(text, "; and %u rules more", patient->n_rules - i);
            return;
        }
        fprintf(text, "%s", i ? "; " : "");
        if (rule->name[0] && origin != NS_POLICY_BUILTIN)
            fprintf(text, "%s: ", rule->name);
        fprintf(text, "%s, %s", send ? send : "unknown", ack ? ack : "unknown");
    }
}

static void add_findings(FILE *text, const struct ns_process_report *patient, bool reasons)
{
    const struct ns_findings *findings = &patient->findings;

    for (unsigned i = 0; i < findings->n; i++) {
        if (findings->list[i].is_reason == reasons)
            fprintf(text, "%s%s", ftell(text) > 0 ? "; " : "", ns_finding_cell(&findings->list[i]));
    }
}

static const char *unreadable(const struct ns_loaded *loaded)
{
    if (loaded->state == NS_LOADED_VERSION)
        return "this command does not know the status of the shim's version";
    if (loaded->state == NS_LOADED_BROKEN)
        return "something has overwritten the status of the shim";
    if (loaded->error == -EPERM || loaded->error == -EACCES)
        return "its memory cannot be read (see kernel.yama.ptrace_scope)";
    return "the status of the shim cannot be read";
}

char *ns_doctor_cell(const struct ns_process_report *patient)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *text = open_memstream(&bytes, &size);

    if (!text)
        return NULL;
    if (patient->state == NS_PROCESS_REPORT_STARTING)
        fputs("it has not come to its main yet", text);
    else if (patient->state == NS_PROCESS_REPORT_UNREADABLE)
        fprintf(text, "%s%s%s", unreadable(&patient->loaded),
                patient->loaded.library[0] ? ", " : "", patient->loaded.library);
    else if (ns_findings_have_reason(&patient->findings))
        add_findings(text, patient, true);
    else
        add_policy(text, patient);
    add_findings(text, patient, false);
    return fclose(text) == 0 ? bytes : NULL;
}

const char *ns_doctor_column(const struct ns_process_report *patient)
{
    const struct ns_finding *reason = ns_findings_first_reason(&patient->findings);

    if (patient->state == NS_PROCESS_REPORT_STARTING)
        return "starts";
    if (patient->state == NS_PROCESS_REPORT_UNREADABLE)
        return "?";
    if (!reason)
        return "works";
    if (reason->kind == NS_FINDING_OFF)
        return "off";
    return reason->kind == NS_FINDING_ASIDE || reason->kind == NS_FINDING_BROKEN ? "aside" : "no";
}

static void add_rules(cJSON *entry, const struct ns_process_report *patient)
{
    cJSON *rules = cJSON_AddArrayToObject(entry, "rules");

    for (unsigned i = 0; i < patient->n_rules; i++) {
        const struct ns_process_report_rule *rule = &patient->rules[i];
        cJSON *one = cJSON_CreateObject();

        cJSON_AddNumberToObject(one, "number", rule->number);
        ns_output_text(one, "name", rule->name[0] ? rule->name : NULL);
        ns_output_text(one, "send", ns_send_name(rule->send));
        ns_output_text(one, "ack", ns_ack_name(rule->ack));
        cJSON_AddNumberToObject(one, "sockets", rule->sockets);
        cJSON_AddItemToArray(rules, one);
    }
}

static void add_list(cJSON *entry, const char *name, const struct ns_findings *findings,
                     bool reasons)
{
    cJSON *list = cJSON_AddArrayToObject(entry, name);

    for (unsigned i = 0; i < findings->n; i++) {
        const struct ns_finding *finding = &findings->list[i];
        cJSON *one;

        if (finding->is_reason != reasons)
            continue;
        one = cJSON_CreateObject();
        ns_output_text(one, "cause", ns_finding_word(finding->kind));
        ns_output_text(one, "text", finding->text);
        cJSON_AddItemToArray(list, one);
    }
}

cJSON *ns_doctor_entry(const struct ns_process_report *patient, const char *name)
{
    const struct ns_loaded *loaded = &patient->loaded;
    cJSON *entry = ns_output_is_json() ? cJSON_CreateObject() : NULL;
    bool has_policy = patient->has_policy && loaded->status.origin != NS_POLICY_BUILTIN;

    if (!entry)
        return NULL;
    cJSON_AddNumberToObject(entry, "pid", patient->proc.process);
    ns_output_text(entry, "name", name);
    ns_output_text(entry, "exe", patient->proc.exe[0] ? patient->proc.exe : NULL);
    cJSON_AddNumberToObject(entry, "user", patient->proc.user);
    cJSON_AddBoolToObject(entry, "elsewhere", ns_proc_lives_elsewhere(&patient->proc));
    cJSON_AddNumberToObject(entry, "sockets", patient->sockets);
    ns_output_text(entry, "works",
                   patient->state != NS_PROCESS_REPORT_JUDGED    ? "unknown"
                   : ns_findings_have_reason(&patient->findings) ? "no"
                                                                 : "yes");
    ns_output_text(entry, "library", loaded->state != NS_LOADED_NO ? loaded->path : NULL);
    ns_output_text(entry, "version", loaded->library[0] ? loaded->library : NULL);
    ns_output_text(entry, "policy", has_policy ? patient->policy : NULL);
    add_rules(entry, patient);
    add_list(entry, "reasons", &patient->findings, true);
    add_list(entry, "warnings", &patient->findings, false);
    return entry;
}
