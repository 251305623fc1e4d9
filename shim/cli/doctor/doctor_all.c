/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim doctor --all`: a table of every process that the caller may read.
 * process_report.h judges each, as for --pid. Processes that start or end meanwhile are no error.
 * Not async-signal-safe. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/doctor/process_report.h"
#include "cli/output.h"
#include "cli/table.h"

#include "policy/find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NAME_MOST = 15 }; /* characters of a name on a terminal */

struct row {
    pid_t pid;
    char number[16], name[64], sockets[16];
    const char *shim;
    char *what;
    cJSON *entry;
};

struct census {
    bool every;
    struct ns_sockets sockets;
    struct row *rows;
    size_t n;
    unsigned works, lacks, unknown, starting; /* in the table */
    unsigned others;                          /* without TCP sockets and without the shim */
    unsigned denied;                          /* could not be read */
};

/* The last column: the policy, and what was found. Allocated. */
static char *describe(const struct ns_process_report *report)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *text = open_memstream(&bytes, &size);
    uint32_t origin = report->loaded.status.origin;

    if (!text)
        return NULL;
    if (report->state == NS_PROCESS_REPORT_STARTING)
        fputs("it has not finished starting", text);
    else if (report->state == NS_PROCESS_REPORT_JUDGED &&
             !ns_findings_first_reason(&report->findings))
        fprintf(text, "policy %s",
                origin == NS_POLICY_BUILTIN  ? "built in"
                : origin == NS_POLICY_INLINE ? "in NAGLESHIM_POLICY"
                : report->has_policy         ? report->policy
                                             : "unknown");
    for (unsigned i = 0; i < report->findings.n; i++)
        fprintf(text, "%s%s", ftell(text) > 0 ? "; " : "", report->findings.list[i].text);
    return fclose(text) == 0 ? bytes : NULL;
}

/* The column SHIM. */
static const char *column(const struct ns_process_report *report)
{
    const struct ns_finding *reason = ns_findings_first_reason(&report->findings);

    if (report->state == NS_PROCESS_REPORT_STARTING)
        return "starts";
    if (report->state == NS_PROCESS_REPORT_UNREADABLE)
        return "?";
    if (!reason)
        return "works";
    if (reason->kind == NS_FINDING_OFF)
        return "off";
    return reason->kind == NS_FINDING_DISABLED || reason->kind == NS_FINDING_BROKEN ? "disabled"
                                                                                    : "no";
}

static void add_rules(cJSON *entry, const struct ns_process_report *report)
{
    cJSON *rules = cJSON_AddArrayToObject(entry, "rules");

    for (unsigned i = 0; i < report->n_rules; i++) {
        const struct ns_process_report_rule *rule = &report->rules[i];
        cJSON *one = cJSON_CreateObject();

        cJSON_AddNumberToObject(one, "number", rule->number);
        ns_output_text(one, "name", rule->name[0] ? rule->name : NULL);
        ns_output_text(one, "send", ns_send_name(rule->send));
        ns_output_text(one, "ack", ns_ack_name(rule->ack));
        cJSON_AddNumberToObject(one, "sockets", rule->sockets);
        cJSON_AddItemToArray(rules, one);
    }
}

static void add_findings(cJSON *entry, const struct ns_findings *findings)
{
    cJSON *reasons = cJSON_AddArrayToObject(entry, "reasons");
    cJSON *warnings = cJSON_AddArrayToObject(entry, "warnings");

    for (unsigned i = 0; i < findings->n; i++) {
        const struct ns_finding *finding = &findings->list[i];
        cJSON *one = cJSON_CreateObject();

        ns_output_text(one, "cause", ns_finding_word(finding->kind));
        ns_output_text(one, "text", finding->text);
        cJSON_AddItemToArray(ns_finding_is_reason(finding) ? reasons : warnings, one);
    }
}

/* The process in the list "processes"; NULL without --json. */
static cJSON *object_of(const struct ns_process_report *report, const char *name)
{
    const struct ns_loaded *loaded = &report->loaded;
    cJSON *entry = ns_output_is_json() ? cJSON_CreateObject() : NULL;
    bool has_policy = report->has_policy && loaded->status.origin != NS_POLICY_BUILTIN;

    if (!entry)
        return NULL;
    cJSON_AddNumberToObject(entry, "pid", report->proc.process);
    ns_output_text(entry, "name", name);
    ns_output_text(entry, "exe", report->proc.exe[0] ? report->proc.exe : NULL);
    cJSON_AddNumberToObject(entry, "user", report->proc.user);
    cJSON_AddBoolToObject(entry, "elsewhere", ns_proc_lives_elsewhere(&report->proc));
    cJSON_AddNumberToObject(entry, "sockets", report->sockets);
    ns_output_text(entry, "works",
                   report->state != NS_PROCESS_REPORT_JUDGED     ? "unknown"
                   : ns_findings_first_reason(&report->findings) ? "no"
                                                                 : "yes");
    ns_output_text(entry, "library", loaded->state != NS_LOADED_NO ? loaded->path : NULL);
    ns_output_text(entry, "version", loaded->library[0] ? loaded->library : NULL);
    ns_output_text(entry, "policy", has_policy ? report->policy : NULL);
    add_rules(entry, report);
    add_findings(entry, &report->findings);
    return entry;
}

static void count(struct census *census, const struct ns_process_report *report)
{
    if (report->state == NS_PROCESS_REPORT_STARTING) {
        census->starting++;
    } else if (report->state == NS_PROCESS_REPORT_UNREADABLE) {
        census->unknown++;
    } else if (ns_findings_first_reason(&report->findings)) {
        census->lacks++;
    } else {
        census->works++;
    }
}

static void list(struct census *census, const struct ns_process_report *report)
{
    struct row *rows = realloc(census->rows, (census->n + 1) * sizeof *rows);

    count(census, report);
    if (!rows)
        return;
    census->rows = rows;
    struct row *row = &rows[census->n++];
    row->pid = report->proc.process;
    snprintf(row->number, sizeof row->number, "%d", row->pid);
    ns_proc_name(&report->proc, row->name, sizeof row->name);
    if (report->has_sockets)
        snprintf(row->sockets, sizeof row->sockets, "%u", report->sockets);
    else
        snprintf(row->sockets, sizeof row->sockets, "?");
    row->shim = column(report);
    row->what = describe(report);
    row->entry = object_of(report, row->name);
}

static bool visit(void *context, pid_t pid)
{
    static struct ns_process_report report;
    struct census *census = context;

    if (pid == getpid())
        return true;
    ns_process_report_examine(&report, pid, false, &census->sockets);
    switch (report.state) {
    case NS_PROCESS_REPORT_NONE:
    case NS_PROCESS_REPORT_ENDED:
    case NS_PROCESS_REPORT_ZOMBIE:
    case NS_PROCESS_REPORT_KERNEL:
        break;
    case NS_PROCESS_REPORT_HIDDEN:
    case NS_PROCESS_REPORT_DENIED:
    case NS_PROCESS_REPORT_FAILED:
        census->denied++;
        break;
    case NS_PROCESS_REPORT_STARTING:
    case NS_PROCESS_REPORT_UNREADABLE:
    case NS_PROCESS_REPORT_JUDGED:
        if (census->every || report.sockets > 0 || report.loaded.state != NS_LOADED_NO)
            list(census, &report);
        else
            census->others++;
        break;
    }
    ns_process_report_end(&report);
    return true;
}

static int compare(const void *left, const void *right)
{
    pid_t a = ((const struct row *)left)->pid, b = ((const struct row *)right)->pid;

    return (a > b) - (a < b);
}

static void print_table(const struct census *census)
{
    static const char *const heads[] = {"PID", "PROGRAM", "TCP", "SHIM"};
    struct ns_table table = {
        .columns = 4, .right = {true, false, true, false}, .line = ns_table_line()};

    for (unsigned i = 0; i < table.columns; i++)
        ns_table_fit(&table, i, heads[i]);
    for (size_t i = 0; i < census->n; i++) {
        const struct row *row = &census->rows[i];

        ns_table_fit(&table, 0, row->number);
        ns_table_fit(&table, 1, row->name);
        ns_table_fit(&table, 2, row->sockets);
        ns_table_fit(&table, 3, row->shim);
    }
    ns_table_limit(&table, 1, NAME_MOST);
    ns_table_row(&table, heads, "WHAT IT DOES, OR WHY NOT");
    for (size_t i = 0; i < census->n; i++) {
        const struct row *row = &census->rows[i];
        const char *cells[] = {row->number, row->name, row->sockets, row->shim};

        ns_table_row(&table, cells, row->what ? row->what : "");
    }
}

static void print_rows(struct census *census)
{
    ns_output_expect("processes");
    if (census->n == 0)
        return;
    qsort(census->rows, census->n, sizeof *census->rows, compare);
    cJSON *processes = cJSON_GetObjectItemCaseSensitive(ns_output_object(), "processes");
    for (size_t i = 0; processes && i < census->n; i++)
        cJSON_AddItemToArray(processes, census->rows[i].entry);
    if (!ns_output_is_json())
        print_table(census);
}

static void print_counts(const struct census *census)
{
    if (census->others > 0)
        ns_output_fact("facts", "not listed",
                       "%u without TCP sockets and without the shim ('--every' lists them)",
                       census->others);
    if (census->denied > 0)
        ns_output_fact("facts", "not readable", "%u: %s", census->denied,
                       geteuid() == 0 ? "this command lacks CAP_SYS_PTRACE, or a security module "
                                        "protects them"
                                      : "run doctor as root to see them");
    if (!ns_output_is_json())
        return;
    cJSON *counts = cJSON_AddObjectToObject(ns_output_object(), "counts");
    cJSON_AddNumberToObject(counts, "works", census->works);
    cJSON_AddNumberToObject(counts, "not", census->lacks);
    cJSON_AddNumberToObject(counts, "unknown", census->unknown);
    cJSON_AddNumberToObject(counts, "starting", census->starting);
    cJSON_AddNumberToObject(counts, "others", census->others);
    cJSON_AddNumberToObject(counts, "denied", census->denied);
}

static int conclude(const struct census *census)
{
    unsigned all = census->works + census->lacks + census->unknown;

    if (all + census->starting + census->others == 0 && census->denied > 0) {
        ns_findings_conclude("unknown", "no process could be read");
        return NS_EXIT_DENIED;
    }
    if (all == 0)
        ns_findings_conclude("yes", "no process has TCP sockets or the shim");
    else
        ns_findings_conclude(
            census->works == all ? "yes" : "no", "the shim works in %u of %u%s", census->works, all,
            census->every ? " processes" : " processes that have TCP sockets or the shim");
    return census->works == all ? NS_EXIT_YES : NS_EXIT_NO;
}

int ns_doctor_all(bool every)
{
    struct census census = {.every = every};
    int status = NS_EXIT_ERROR;

    if (ns_proc_each(visit, &census) == 0) {
        print_rows(&census);
        print_counts(&census);
        status = conclude(&census);
    } else {
        ns_say("doctor", "/proc is not mounted or cannot be read");
    }
    for (size_t i = 0; i < census.n; i++)
        free(census.rows[i].what);
    free(census.rows);
    ns_proc_sockets_end(&census.sockets);
    return status;
}
