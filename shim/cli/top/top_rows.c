/* SPDX-License-Identifier: MIT */
/* Owns the rows of `nagleshim top`: which connections make one, and what it lost. Nothing is
 * printed here. Not async-signal-safe. */
#include "cli/top/top.h"

#include "cli/cli.h"

#include "cli/process/proc.h"

#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000U

enum {
    LOOK_AGAIN_S = 5,    /* at what a process is, which exec may change */
    LOOK_AGAIN_MOST = 8, /* of them in one refresh, during which no connection is looked at */
};

static void look_at(struct ns_top_process *process, uint64_t now)
{
    ns_top_look_at_process(process);
    process->looked = now;
}

static void look_again(struct ns_top *top, uint64_t now)
{
    unsigned looks = 0;

    for (size_t i = 0; i < top->n_processes && looks < LOOK_AGAIN_MOST; i++)
        if (top->processes[i]->looked + (uint64_t)LOOK_AGAIN_S * SECOND < now) {
            look_at(top->processes[i], now);
            looks++;
        }
}

/* A number may be another process's by now. */
static bool is_of(const struct ns_top_process *process, const struct ns_watched *watched)
{
    return process->pid == watched->pid && process->started == watched->started;
}

static struct ns_top_process *find_process(struct ns_top *top, const struct ns_watched *watched,
                                           uint64_t now)
{
    struct ns_top_process *process = NULL, **larger;

    for (size_t i = 0; i < top->n_processes && !process; i++)
        if (is_of(top->processes[i], watched))
            process = top->processes[i];
    if (!process) {
        larger = realloc(top->processes, (top->n_processes + 1) * sizeof(*larger));
        if (!larger)
            return NULL;
        top->processes = larger;
        process = calloc(1, sizeof(*process));
        if (!process)
            return NULL;
        process->pid = watched->pid;
        process->started = watched->started;
        /* It may be gone already. */
        snprintf(process->name, sizeof(process->name), "%s", watched->name);
        ns_sanitize(process->name);
        larger[top->n_processes++] = process;
        look_at(process, now);
    }
    return process;
}

static bool same_end(const struct ns_address *one, const struct ns_address *other)
{
    return one->port == other->port && memcmp(&one->addr, &other->addr, sizeof(one->addr)) == 0;
}

static struct ns_top_row *find_row(struct ns_top *top, const struct ns_watched *watched)
{
    const struct ns_address *service =
        watched->role == NS_ROLE_SERVER ? &watched->local : &watched->remote;
    struct ns_top_row *row, **larger;

    for (size_t i = 0; i < top->n_rows; i++) {
        row = top->rows[i];
        if (is_of(row->process, watched) && row->role == watched->role &&
            same_end(&row->service, service))
            return row;
    }
    larger = realloc(top->rows, (top->n_rows + 1) * sizeof(*larger));
    if (!larger)
        return NULL;
    top->rows = larger;
    row = calloc(1, sizeof(*row));
    if (!row)
        return NULL;
    row->process = find_process(top, watched, top->begin);
    if (!row->process) {
        free(row);
        return NULL;
    }
    row->role = watched->role;
    row->service = *service;
    larger[top->n_rows++] = row;
    return row;
}

void ns_top_take_hold(void *context, struct ns_watched *watched, const struct ns_hold *hold)
{
    struct ns_top *top = context;
    struct ns_top_row *row = watched->owner ? watched->owner : find_row(top, watched);

    watched->owner = row;
    if (!row || !hold->waited)
        return;
    row->holds++;
    row->lost_ns += hold->cost;
}

static bool count_connection(void *context, struct ns_watched *watched)
{
    struct ns_top *top = context;
    struct ns_top_row *row = watched->owner;

    if (!row || row->role != watched->role)
        row = find_row(top, watched);
    watched->owner = row;
    if (!row)
        return true;
    row->busy += watched->active_at >= top->begin;
    row->peer = watched->remote;
    row->connections += !watched->ended;
    return true;
}

static int compare(const struct ns_top *top, const struct ns_top_row *a, const struct ns_top_row *b)
{
    int order = 0;

    if (top->order == NS_TOP_BY_HOLDS)
        order = (a->holds_rate < b->holds_rate) - (a->holds_rate > b->holds_rate);
    else if (top->order == NS_TOP_BY_PID)
        order = (a->process->pid > b->process->pid) - (a->process->pid < b->process->pid);
    else if (top->order == NS_TOP_BY_NAME)
        order = strcmp(a->process->name, b->process->name);
    if (order == 0)
        order = (a->lost_rate < b->lost_rate) - (a->lost_rate > b->lost_rate);
    if (order == 0)
        order = (a->busy < b->busy) - (a->busy > b->busy);
    if (order == 0)
        order = (a->connections < b->connections) - (a->connections > b->connections);
    if (order == 0)
        order = (a->process->pid > b->process->pid) - (a->process->pid < b->process->pid);
    return top->reversed ? -order : order;
}

static int compare_rows(const void *left, const void *right, void *top)
{
    const struct ns_top_row *const *a = left, *const *b = right;

    return compare(top, *a, *b);
}

void ns_top_sort(struct ns_top *top)
{
    if (top->n_rows > 0)
        qsort_r(top->rows, top->n_rows, sizeof(*top->rows), compare_rows, top);
}

/* A row goes when it has no connection and lost nothing; those that have ended have been forgotten
 * by then, so that none points to it. */
static void drop_empty(struct ns_top *top)
{
    size_t kept = 0;

    for (size_t i = 0; i < top->n_processes; i++)
        top->processes[i]->used = false;
    for (size_t i = 0; i < top->n_rows; i++) {
        if (top->rows[i]->connections > 0 || top->rows[i]->holds_rate > 0) {
            top->rows[i]->process->used = true;
            top->rows[kept++] = top->rows[i];
        } else {
            free(top->rows[i]);
        }
    }
    top->n_rows = kept;
    kept = 0;
    for (size_t i = 0; i < top->n_processes; i++) {
        if (top->processes[i]->used)
            top->processes[kept++] = top->processes[i];
        else
            free(top->processes[i]);
    }
    top->n_processes = kept;
}

static void count_tally(struct ns_top *top)
{
    struct ns_watch_tally before = top->tally;

    ns_watch_tally(top->watch, &top->tally);
    top->since = top->tally;
    top->since.looks -= before.looks;
    top->since.missed -= before.missed;
    top->since.forgotten -= before.forgotten;
    top->since.busy_ns -= before.busy_ns;
}

void ns_top_refresh(struct ns_top *top, uint64_t now)
{
    for (size_t i = 0; i < top->n_rows; i++) {
        top->rows[i]->connections = 0;
        top->rows[i]->busy = 0;
    }
    ns_watch_each(top->watch, count_connection, top);
    ns_watch_forget_ended(top->watch);
    count_tally(top);
    top->seconds = (double)(now - top->begin) / SECOND;
    top->begin = now;
    for (size_t i = 0; i < top->n_rows; i++) {
        struct ns_top_row *row = top->rows[i];
        double each = row->busy > 1 ? row->busy : 1;

        row->holds_rate = top->seconds > 0 ? (double)row->holds / top->seconds : 0;
        row->lost_rate = top->seconds > 0 ? (double)row->lost_ns / 1e6 / top->seconds : 0;
        row->share = row->lost_rate / 1000 / each;
        if (row->share > 1) /* a hold that began before the interval */
            row->share = 1;
        row->holds = row->lost_ns = 0;
    }
    look_again(top, now);
    drop_empty(top);
    ns_top_sort(top);
}

void ns_top_release(struct ns_top *top)
{
    for (size_t i = 0; i < top->n_rows; i++)
        free(top->rows[i]);
    for (size_t i = 0; i < top->n_processes; i++)
        free(top->processes[i]);
    free(top->rows);
    free(top->processes);
}
