/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim doctor --all`: every process that the caller may see, in one table. It must not
 * judge: process_report.h does, in the same way as for one process. What comes and goes meanwhile
 * is no error. Not async-signal-safe. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    NAME_MOST = 15,  /* of a name on a terminal */
    RULES_SHOWN = 3, /* of a process in the table */
    WAIT_MS = 1000,  /* for all that have just been started, together */
};

struct row {
    pid_t pid;
    char number[16], name[64], sockets[16];
    const char *shim;
    char *what;
    cJSON *entry;
};

struct tally {
    unsigned works, not, unknown, starting; /* listed */
    unsigned others;                        /* without TCP sockets and without the shim */
    unsigned looked;
    unsigned foreign, guarded, failed; /* could not be looked into */
    unsigned causes[NS_FINDING_KINDS];
};

struct census {
    bool every;
    struct ns_sockets sockets;
    struct tally tally;
    struct row *rows;
    size_t n;
    pid_t *young; /* to be looked at once more */
    size_t n_young;
};

static void count(struct census *census, const struct ns_process_report *patient)
{
    const struct ns_finding *reason = ns_findings_first_reason(&patient->findings);

    census->tally.starting += patient->state == NS_PROCESS_REPORT_STARTING;
    census->tally.unknown += patient->state == NS_PROCESS_REPORT_UNREADABLE;
    if (patient->state != NS_PROCESS_REPORT_JUDGED)
        return;
    census->tally.works += !reason;
    census->tally.not += reason != NULL;
    if (reason)
        census->tally.causes[reason->kind]++;
}

static void list(struct census *census, const struct ns_process_report *patient)
{
    struct row *rows = realloc(census->rows, (census->n + 1) * sizeof(*rows));
    struct row *row;

    count(census, patient);
    if (!rows)
        return;
    census->rows = rows;
    row = &rows[census->n++];
    row->pid = patient->proc.process;
    snprintf(row->number, sizeof(row->number), "%d", row->pid);
    ns_proc_name(&patient->proc, row->name, sizeof(row->name));
    if (patient->has_sockets)
        snprintf(row->sockets, sizeof(row->sockets), "%u", patient->sockets);
    else
        strcpy(row->sockets, "?");
    row->shim = ns_doctor_column(patient);
    row->what = ns_doctor_cell(patient);
    row->entry = ns_doctor_entry(patient, row->name);
}

static bool is_of_interest(const struct census *census, const struct ns_process_report *patient)
{
    bool starts =
        patient->state == NS_PROCESS_REPORT_STARTING && ns_process_report_wants_shim(patient);

    return census->every || starts || patient->sockets > 0 || patient->loaded.state != NS_LOADED_NO;
}

/* One that has just been started is left for later, when it may have come to its main. */
static void take(struct census *census, const struct ns_process_report *patient, bool is_last)
{
    pid_t *young;

    census->tally.looked++;
    if (!is_of_interest(census, patient)) {
        census->tally.others++;
        return;
    }
    if (patient->state != NS_PROCESS_REPORT_STARTING || is_last) {
        list(census, patient);
        return;
    }
    young = realloc(census->young, (census->n_young + 1) * sizeof(*young));
    if (!young)
        return;
    census->young = young;
    young[census->n_young++] = patient->proc.process;
    census->tally.looked--;
}

static void look_at(struct census *census, pid_t pid, int patience_ms, bool is_last)
{
    static struct ns_process_report patient;

    ns_process_report_examine(&patient, pid, patience_ms, &census->sockets);
    switch (patient.state) {
    case NS_PROCESS_REPORT_NONE:
    case NS_PROCESS_REPORT_ENDED:
    case NS_PROCESS_REPORT_ZOMBIE:
    case NS_PROCESS_REPORT_KERNEL:
        break;
    case NS_PROCESS_REPORT_HIDDEN:
        census->tally.foreign++;
        break;
    case NS_PROCESS_REPORT_DENIED:
        if (geteuid() != 0 && patient.proc.user != geteuid())
            census->tally.foreign++;
        else
            census->tally.guarded++;
        break;
    case NS_PROCESS_REPORT_FAILED:
        census->tally.failed++;
        break;
    case NS_PROCESS_REPORT_STARTING:
    case NS_PROCESS_REPORT_UNREADABLE:
    case NS_PROCESS_REPORT_JUDGED:
        take(census, &patient, is_last);
        break;
    }
    ns_process_report_end(&patient);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void look_again(struct census *census)
{
    int64_t end = now_ms() + WAIT_MS;

    /* What they have opened meanwhile is in no table that was read before. */
    ns_proc_sockets_end(&census->sockets);
    for (size_t i = 0; i < census->n_young; i++) {
        int64_t left = end - now_ms();

        look_at(census, census->young[i], left > 0 ? (int)left : 0, true);
    }
}

static bool visit(void *context, pid_t pid)
{
    if (pid != getpid())
        look_at(context, pid, 0, false);
    return true;
}

/* 0 or -errno: there is no list of processes. */
static int walk(struct census *census)
{
    int error = ns_proc_each(visit, census);

    if (!error && census->n_young > 0)
        look_again(census);
    return error;
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
    cJSON *list_of_all;

    if (census->n > 0)
        qsort(census->rows, census->n, sizeof(*census->rows), compare);
    ns_output_expect("processes");
    list_of_all = cJSON_GetObjectItemCaseSensitive(ns_output_object(), "processes");
    for (size_t i = 0; list_of_all && i < census->n; i++) {
        cJSON_AddItemToArray(list_of_all, census->rows[i].entry);
        census->rows[i].entry = NULL;
    }
    if (!ns_output_is_json() && census->n > 0)
        print_table(census);
}

static void print_causes(const struct tally *tally)
{
    char text[2048] = ""; /* more than all causes with their numbers */
    size_t used = 0;

    for (int i = 0; i < NS_FINDING_KINDS; i++) {
        unsigned n = tally->causes[i];

        if (n > 0)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s (%u%s)",
                                     used ? "; " : "", ns_finding_text((enum ns_finding_kind)i), n,
                                     used     ? ""
                                     : n == 1 ? " process"
                                              : " processes");
    }
    if (used > 0)
        ns_output_fact("facts", "why not", "%s", text);
}

static void print_tally(const struct tally *tally)
{
    cJSON *counts =
        ns_output_is_json() ? cJSON_AddObjectToObject(ns_output_object(), "counts") : NULL;

    print_causes(tally);
    if (tally->others > 0)
        ns_output_fact("facts", "not listed",
                       "%u without TCP sockets and without the shim ('--every' lists them)",
                       tally->others);
    if (tally->foreign > 0)
        ns_output_fact("facts", "not looked into", "%u of other users: ask as root",
                       tally->foreign);
    if (tally->guarded > 0 && geteuid() == 0)
        ns_output_fact("facts", "not looked into",
                       "%u, since this command lacks CAP_SYS_PTRACE, or a security module "
                       "protects %s",
                       tally->guarded, tally->guarded == 1 ? "it" : "them");
    else if (tally->guarded > 0)
        ns_output_fact("facts", "not looked into",
                       "%u that do not let others look into them: ask as root", tally->guarded);
    if (tally->failed > 0)
        ns_output_fact("facts", "not looked into", "%u that could not be read", tally->failed);
    if (!counts)
        return;
    cJSON_AddNumberToObject(counts, "works", tally->works);
    cJSON_AddNumberToObject(counts, "not", tally->not );
    cJSON_AddNumberToObject(counts, "unknown", tally->unknown);
    cJSON_AddNumberToObject(counts, "starting", tally->starting);
    cJSON_AddNumberToObject(counts, "others", tally->others);
    cJSON_AddNumberToObject(counts, "denied", tally->foreign + tally->guarded + tally->failed);
}

static int conclude(const struct census *census)
{
    const struct tally *tally = &census->tally;
    unsigned denied = tally->foreign + tally->guarded + tally->failed;
    unsigned all = tally->works + tally->not +tally->unknown;

    if (tally->looked == 0 && denied > 0) {
        ns_findings_conclude("unknown", "no process could be looked into");
        return NS_EXIT_DENIED;
    }
    if (all == 0)
        ns_findings_conclude("yes", "no process has TCP sockets or the shim");
    else
        ns_findings_conclude(
            tally->works == all ? "yes" : "no", "the shim works in %u of %u%s", tally->works, all,
            census->every ? " processes" : " processes that have TCP sockets or the shim");
    return tally->works == all ? NS_EXIT_YES : NS_EXIT_NO;
}

int ns_doctor_all(bool every)
{
    struct census census = {.every = every};
    int status = NS_EXIT_ERROR, error = walk(&census);

    if (error) {
        ns_say("doctor", "/proc is not mounted, or cannot be read: no process can be looked at");
    } else {
        print_rows(&census);
        print_tally(&census.tally);
        status = conclude(&census);
    }
    for (size_t i = 0; i < census.n; i++) {
        free(census.rows[i].what);
        cJSON_Delete(census.rows[i].entry);
    }
    free(census.rows);
    free(census.young);
    ns_proc_sockets_end(&census.sockets);
    return status;
}
