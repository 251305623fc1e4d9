/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim top --prometheus` writes: counters in the text format of Prometheus. They
 * only grow while the command runs, whatever happens to the rows, and the number of their series is
 * bounded. */
#include "cli/top/top.h"

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/file.h"
#include "cli/output.h"
#include "process/scope.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Those that neither stall nor have the library leave room for those that do. */
enum { SERIES_MOST = 200, ORDINARY_MOST = 100 };

enum { REQUESTS, STALLED, LOST, VALUES };

struct series {
    char labels[192];
    double values[VALUES];
    unsigned now[NS_SHIM_WORKS + 1]; /* processes, by the state of the library in them */
};

/* The first series is the sum of all that have no room. */
struct table {
    size_t n;
    struct series series[SERIES_MOST + 1];
};
static struct table services = {.n = 1, .series = {{.labels = "process=\"(other)\""}}};
static struct table programs = {.n = 1, .series = {{.labels = "process=\"(other)\""}}};

#define HEAD(name, type, help)                                                                     \
    "# HELP nagleshim_" name " " help "\n# TYPE nagleshim_" name " " type "\n"
#define COUNTER(name, help) "nagleshim_" name, HEAD(name, "counter", help)

static const struct {
    const struct table *table;
    unsigned value;
    const char *name, *head;
} counters[] = {
    {&services, REQUESTS, COUNTER("requests_total", "Answered requests that were seen.")},
    {&services, STALLED, COUNTER("stalled_requests_total", "Requests delayed by Nagle.")},
    {&services, LOST, COUNTER("lost_seconds_total", "Time that was lost by these delays.")},
    {&programs, NS_DONE_SOCKETS, COUNTER("library_sockets_total", "Sockets with a rule.")},
    {&programs, NS_DONE_PUSHES, COUNTER("library_pushes_total", "Pushes before a wait.")},
    {&programs, NS_DONE_ACKS, COUNTER("library_acks_total", "ACKs before a wait.")},
};

/* The labels of a service, or without a row those of a program. */
static struct series *find(struct table *table, const struct ns_row_process *process,
                           const struct ns_row *row, bool matters)
{
    char labels[sizeof table->series->labels] = "process=\"";
    size_t n = strlen(labels), i = 1;
    for (const char *at = process->name; *at; labels[n++] = *at++)
        if (*at == '"' || *at == '\\')
            labels[n++] = '\\';
    labels[n++] = '"';
    ns_sanitize(labels); /* no two series may have the same text */
    if (row)
        snprintf(labels + n, sizeof labels - n, ",role=\"%s\",port=\"%u\"", ns_role_name(row->role),
                 row->service.port);
    while (i < table->n && strcmp(table->series[i].labels, labels) != 0)
        i++;
    if (i == table->n && i > (matters ? SERIES_MOST : ORDINARY_MOST))
        return &table->series[0];
    if (i == table->n)
        memcpy(table->series[table->n++].labels, labels, sizeof labels);
    return &table->series[i];
}

void ns_metrics_take_row(const struct ns_row *row)
{
    const struct ns_conclusion *conclusion = &row->conclusion;
    if (row->verdict.requests + conclusion->stalled == 0)
        return;
    double *values = find(&services, row->process, row, conclusion->stalled > 0)->values;
    values[REQUESTS] += (double)row->verdict.requests;
    values[STALLED] += (double)conclusion->stalled;
    values[LOST] += conclusion->lost_ms / 1e3;
}

void ns_metrics_take_library(struct ns_row_process *process, const struct ns_stats *stats)
{
    const uint64_t done[] = {stats->sockets, stats->pushes, stats->acks};
    double *values = find(&programs, process, NULL, true)->values;
    for (size_t i = 0; i < NS_DONE; i++) {
        /* After execve it begins again. */
        uint64_t before = done[i] < process->done[i] ? 0 : process->done[i];
        values[i] += process->has_done ? (double)(done[i] - before) : 0;
        process->done[i] = done[i];
    }
    process->has_done = true;
}

static void count_processes(const struct ns_diagnosis *rows)
{
    for (size_t i = 0; i < rows->n_processes; i++) {
        const struct ns_row_process *process = rows->processes[i];
        find(&programs, process, NULL, process->shim == NS_SHIM_WORKS)->now[process->shim]++;
    }
}

#define PRINT(name, type, help, value)                                                             \
    ns_print(out, HEAD(name, type, help) "nagleshim_" name " %.9g\n", (double)(value))

static void print(FILE *out, const struct ns_watch_tally *tally)
{
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        const struct table *table = counters[i].table;
        ns_print_lines(out, counters[i].head);
        for (const struct series *at = table->series; at < table->series + table->n; at++)
            ns_print(out, "%s{%s} %.15g\n", counters[i].name, at->labels,
                     at->values[counters[i].value]);
    }
    ns_print(out,
             HEAD("processes", "gauge", "Processes with connections, by their library's state."));
    for (struct series *at = programs.series; at < programs.series + programs.n; at++)
        for (unsigned shim = 0; shim <= NS_SHIM_WORKS; at->now[shim++] = 0)
            if (at->now[shim])
                ns_print(out, "nagleshim_processes{%s,library=\"%s\"} %u\n", at->labels,
                         ns_shim_name(shim), at->now[shim]);
    PRINT("processes_denied", "gauge", "Processes that could not be examined.", tally->denied);
    PRINT("connections_missed_total", "counter", "Connections too short or too many to sample.",
          tally->forgotten);
    PRINT("rounds_total", "counter", "Rounds of samples.", tally->rounds);
    PRINT("rounds_late_total", "counter", "Those that may have missed a stall.", tally->missed);
    PRINT("cpu_seconds_total", "counter", "Processor time of this command.",
          (double)ns_clock_now(CLOCK_PROCESS_CPUTIME_ID) / 1e9);
}

int ns_metrics_write(const struct ns_top *top, const char *file)
{
    NS_AUTO_FREE char *text = NULL;
    size_t length = 0;
    FILE *out = ns_allocated(open_memstream(&text, &length));
    if (top) {
        count_processes(&top->interval);
        print(out, &top->tally);
    }
    fclose(out);
    if (strcmp(file, "-") == 0)
        ns_print_lines(stdout, text);
    if (strcmp(file, "-") == 0 ? fflush(stdout) == 0 : ns_file_replace(file, text, NS_FILE_SHARED))
        return NS_EXIT_YES;
    int error = errno;
    ns_say("cannot write '%s': %s", file, strerror(error));
    return error == EACCES ? NS_EXIT_DENIED : NS_EXIT_ERROR;
}
