/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim top` prints: the table and the object of --json. */
#include "cli/top/top.h"

#include "cli/cli.h"
#include "cli/output.h"

#include <stdio.h>
#include <time.h>

enum { NAME_LEAST = 12 }; /* the columns seldom move, and 40 characters have the first four */

/* "..., 3 connections TEXT" */
static const char *add_count(const char *line, uint64_t n, const char *noun, const char *text)
{
    return n > 0 ? ns_words("%s; %s %s", line, ns_count(n, noun), text) : line;
}

static void print_summary(FILE *out, const struct ns_top *top)
{
    const struct ns_watch_tally *tally = &top->tally, *before = &top->before;
    time_t now = time(NULL);
    const char *line;
    unsigned stalling = 0;
    char clock[16];
    struct tm local;
    for (size_t i = 0; i < top->interval.n_rows; i++)
        stalling += top->interval.rows[i]->lost_rate > 0 && !ns_top_waits(top->interval.rows[i]);
    strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &local));
    ns_print(out, "nagleshim top - %s, %s, %u with traffic; %u row%s\n", clock,
             ns_count(tally->connections, "connection"), tally->busy, stalling,
             stalling == 1 ? " stalls" : "s stall");
    line = ns_words("%.0f samples/s, %.1f%% of a CPU",
                    (double)(tally->looks - before->looks) / top->seconds,
                    (double)(tally->busy_ns - before->busy_ns) / 1e7 / top->seconds);
    line = add_count(line, tally->idle, "idle connection", "not shown");
    if (tally->busy > tally->sampled)
        line = ns_words("%s; %u sampled at a time", line, tally->sampled);
    line = add_count(line, tally->missed - before->missed, "round", "of samples late");
    line = add_count(line, tally->forgotten - before->forgotten, "connection",
                     "not sampled (too short or too many)");
    if (tally->denied > 0)
        line = ns_words("%s; %s", line,
                        ns_watch_refused(tally->denied, tally->refused, tally->refusal));
    /* What is drawn on a screen is cut there. */
    ns_print_words(out, line, 0, 2, ns_output_columns(out));
    ns_print(out, "\n");
}

/* The peer, as the last column shows it. */
static const char *describe_peer(const struct ns_row *row)
{
    bool is_server = row->role == NS_ROLE_SERVER, is_one = row->connections == 1;
    const char *held = "", *where = ns_words_address(is_server ? &row->remote : &row->service);
    if (row->other)
        held = ns_words("held by %s, ", ns_words_process(row->other->process));
    if (is_server)
        where = ns_words("port %u%s%s", row->service.port, is_one ? ", " : "", is_one ? where : "");
    if (row->connections > 1 || (is_server && row->connections == 0))
        where = ns_words("%s, %u connections", where, row->connections);
    return ns_words("%s%s", held, where);
}

/* The columns that matter most come first, since a narrow terminal cuts the last ones. */
void ns_top_print(FILE *out, const struct ns_top *top, size_t most)
{
    int width = NAME_LEAST;
    ns_words_forget(); /* this command may run for long */
    for (size_t i = 0; i < top->interval.n_rows; i++)
        if (ns_output_places(top->interval.rows[i]->process->name) > width)
            width = ns_output_places(top->interval.rows[i]->process->name);
    print_summary(out, top);
    ns_print(out, "%8s %5s %-*s %7s %-6s %-8s %7s PEER\n", "ms/s", "SHARE", width, "PROCESS", "PID",
             "ROLE", "LIBRARY", "HOLDS/S");
    for (size_t i = 0;
         i < top->interval.n_rows && i < most && ns_top_is_shown(top->interval.rows[i]); i++) {
        const struct ns_row *row = top->interval.rows[i];
        char lost[16], share[16] = "?";
        bool is_unknown = row->holds_rate > 0 && row->verdict.grade == NS_GRADE_CANNOT_TELL;
        snprintf(lost, sizeof lost,
                 is_unknown          ? "? "
                 : ns_top_waits(row) ? "(%.1f)"
                                     : "%.1f ",
                 row->lost_rate);
        if (!is_unknown)
            snprintf(share, sizeof share, "%.0f%%", row->share * 100);
        ns_print(out, "%8s %5s %s%*s %7d %-6s %-8s %7.1f %s\n", lost, share, row->process->name,
                 width - ns_output_places(row->process->name), "", row->process->pid,
                 ns_role_name(row->role), ns_shim_name(row->process->shim), row->holds_rate,
                 describe_peer(row));
    }
}

void ns_top_fill_json(const struct ns_top *top)
{
    cJSON_AddNumberToObject(ns_output_object(), "seconds", top->seconds);
    for (size_t i = 0; i < top->interval.n_rows && ns_top_is_shown(top->interval.rows[i]); i++) {
        const struct ns_row *row = top->interval.rows[i];
        cJSON *entry = ns_output_entry("rows");
        ns_row_fill_json(row, entry);
        cJSON_AddNumberToObject(entry, "holds_per_second", row->holds_rate);
        cJSON_AddNumberToObject(entry, "lost_ms_per_second", row->lost_rate);
        cJSON_AddNumberToObject(entry, "share", row->share);
        ns_output_number(entry, "held_by", row->other ? row->other->process->pid : 0);
    }
}
