/* SPDX-License-Identifier: MIT */
/* Owns the intervals of `nagleshim top`: what the rows lost in each, and what is known of their
 * processes. */
#include "cli/top/top.h"

#include "cure/group.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define SECOND 1000000000U

enum {
    LOOK_AGAIN_S = 5,     /* a process may call execve */
    LOOK_AT_STUCK_S = 60, /* one that is stuck takes a second */
    LOOK_AGAIN_MOST = 8,  /* of those without counts, as no samples are taken meanwhile */
};

static void look_at(struct ns_row_process *process, uint64_t now)
{
    static struct ns_facts facts;
    int error = ns_row_process_look(process, NS_FACTS_LIBRARY, &facts);
    process->looked = now + (error == -ETIMEDOUT ? (uint64_t)LOOK_AT_STUCK_S * SECOND : 0);
    if (error == -ESRCH)
        return;
    if (process->shim == NS_SHIM_WORKS)
        ns_metrics_take_library(process, &facts.loaded.stats);
    else if (ns_group_is_cured(facts.origin.group))
        process->shim = NS_SHIM_CURED;
}

static struct ns_row *row_of(struct ns_top *top, struct ns_watched *watched)
{
    struct ns_row *row = watched->owner;
    if (row && row->role == watched->role)
        return row;
    struct ns_row_process *process = ns_diagnosis_process_of(&top->interval, watched);
    const struct ns_row connection = ns_row_of(process, watched);
    watched->owner = row = ns_diagnosis_row(&top->interval, &connection);
    if (row && !process->looked) {
        /* What an older one has done before does not count, and nothing counts twice. */
        process->has_done = process->started > top->newest;
        top->newer = process->started > top->newer ? process->started : top->newer;
        look_at(process, top->begin);
    }
    return row;
}

void ns_top_take_hold(void *context, struct ns_watched *watched, const struct ns_hold *hold)
{
    struct ns_top *top = context;
    if (watched->is_behind)
        return;
    /* The other end waits for these bytes, and loses the same time. */
    struct ns_watched *other =
        hold->waited && top->watch ? ns_watch_other_end(top->watch, watched) : NULL;
    if (!other)
        return;
    struct ns_row *waits = row_of(top, other);
    if (!waits)
        return;
    waits->behind_ns += hold->cost;
    waits->holder = row_of(top, watched);
}

bool ns_top_is_shown(const struct ns_row *row)
{
    return !row->is_peer || row->holds_rate > 0;
}

static void count_connection(void *context, struct ns_watched *watched)
{
    struct ns_top *top = context;
    if (watched->is_behind)
        return;
    struct ns_row *row = row_of(top, watched);
    top->interval.forgotten += !row && watched->ended;
    if (!row)
        return;
    struct ns_row connection = ns_row_of(row->process, watched);
    ns_judge_take(&watched->judge, &connection.verdict);
    ns_row_add(row, &connection);
    row->ended += watched->ended;
    row->busy += watched->active_at >= top->begin;
}

/* The row that lost most comes first, and the end that holds before the end that waits. Peers that
 * hold nothing come last. */
static int compare_rows(const void *left, const void *right)
{
    const struct ns_row *a = *(const struct ns_row *const *)left;
    const struct ns_row *b = *(const struct ns_row *const *)right;
    const double keys[][2] = {
        {ns_top_is_shown(b), ns_top_is_shown(a)}, {b->lost_rate, a->lost_rate},
        {a->other != NULL, b->other != NULL},     {b->busy, a->busy},
        {b->connections, a->connections},         {a->process->pid, b->process->pid},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i][0] < keys[i][1] || keys[i][0] > keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

/* Look again at the processes that were examined long ago. */
static void look_again(struct ns_top *top, uint64_t now)
{
    const double most = (double)(top->interval.n_processes / LOOK_AGAIN_MOST) * top->seconds;
    unsigned looked = 0;
    for (size_t i = 0; i < top->interval.n_processes; i++) {
        struct ns_row_process *process = top->interval.processes[i];
        bool counts = top->counts && process->shim == NS_SHIM_WORKS;
        /* So long that those that are behind come next. Without a row, none was looked at. */
        double apart = LOOK_AGAIN_S + (counts ? 0 : most);
        if (!process->looked || (double)process->looked + apart * SECOND >= (double)now ||
            (!counts && looked >= LOOK_AGAIN_MOST))
            continue;
        look_at(process, now);
        looked += !counts;
    }
}

/* Remove the processes without rows. */
static void drop_unused(struct ns_diagnosis *rows)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->n_rows; i++)
        rows->rows[i]->process->has_row = true;
    for (size_t i = 0; i < rows->n_processes; i++) {
        struct ns_row_process *process = rows->processes[i];
        if (!process->has_row) {
            free(process);
            continue;
        }
        process->has_row = false;
        rows->processes[kept++] = process;
    }
    rows->n_processes = kept;
}

static void conclude(struct ns_top *top, struct ns_row *row)
{
    /* A hold may begin before the interval. A connection cannot lose more than the time. */
    double most = 1000 * (row->busy > 1 ? row->busy : 1), behind = 0;
    if (row->holder)
        behind = fmin((double)row->behind_ns / 1e6, row->holder->conclusion.lost_ms);
    row->connections -= row->ended;
    row->holds_rate = (double)(row->verdict.stalls + row->verdict.maybe) / top->seconds;
    row->lost_rate = fmin((row->conclusion.lost_ms + behind) / top->seconds, most);
    row->share = row->lost_rate / most;
    row->other = behind > 0 ? row->holder : NULL;
    row->is_held = ns_top_waits(row);
    row->behind_ns = 0;
    row->holder = NULL;
    /* Ended connections have been forgotten, so that none has such a row. */
    row->is_needless = row->connections == 0 && row->holds_rate <= 0;
    if (top->counts)
        ns_metrics_take_row(row);
}

void ns_top_refresh(struct ns_top *top, uint64_t now)
{
    struct ns_diagnosis *rows = &top->interval;
    for (size_t i = 0; i < rows->n_rows; i++) {
        struct ns_row *row = rows->rows[i];
        row->connections = row->ended = row->busy = 0;
        row->verdict = (struct ns_verdict){0};
    }
    ns_watch_each(top->watch, count_connection, top);
    top->before = top->tally;
    ns_watch_tally(top->watch, &top->tally);
    top->tally.forgotten += rows->forgotten;
    top->seconds = (double)(now - top->begin) / SECOND;
    top->begin = now;
    for (size_t i = 0; i < rows->n_rows; i++)
        rows->rows[i]->conclusion = ns_verdict_conclude(&rows->rows[i]->verdict, NULL);
    for (size_t i = 0; i < rows->n_rows; i++)
        conclude(top, rows->rows[i]);
    top->newest = top->newer;
    look_again(top, now);
    ns_diagnosis_drop_needless(rows);
    drop_unused(rows);
    if (rows->n_rows > 0)
        qsort(rows->rows, rows->n_rows, sizeof rows->rows[0], compare_rows);
}
