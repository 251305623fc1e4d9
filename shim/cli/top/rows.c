/* SPDX-License-Identifier: MIT */
/* Owns the rows of `nagleshim top`: which connections form one, what it lost, and what is known of
 * its process. */
#include "cli/top/top.h"

#include "cure/group.h"
#include "process/facts.h"
#include "process/scope.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND 1000000000U

enum {
    LOOK_AGAIN_S = 5,     /* a process may call execve */
    LOOK_AT_STUCK_S = 60, /* one that is stuck takes a second */
    LOOK_AT_GROUPS_S = 30,
    LOOK_AGAIN_MOST = 8, /* of those without counts, as no samples are taken meanwhile */
};

/* Does the kernel cure the new connections of the process's control group? */
static bool is_cured(pid_t pid, uint64_t now)
{
    static struct ns_groups cured;
    static uint64_t next;
    if (now >= next) {
        free(cured.at);
        cured = (struct ns_groups){0};
        ns_groups_find_cured(&cured);
        next = now + (uint64_t)LOOK_AT_GROUPS_S * SECOND;
    }
    return ns_groups_of(&cured, pid);
}

/* What was known of a process that has ended stays, and its pid may be another process's. */
static void look_at(struct ns_top_process *process, uint64_t now)
{
    static struct ns_facts facts;
    int error = ns_facts_ask(process->pid, NS_FACTS_LIBRARY, &facts);
    bool is_stuck = error == -ETIMEDOUT;
    process->looked = now + (is_stuck ? (uint64_t)LOOK_AT_STUCK_S * SECOND : 0);
    if (error != -ESRCH && (process->started == 0 || facts.proc.state.start == process->started)) {
        process->shim = is_stuck                                ? NS_SHIM_STUCK
                        : ns_proc_is_denied(error)              ? NS_SHIM_DENIED
                        : facts.loaded.shim == NS_SHIM_READY    ? NS_SHIM_WORKS
                        : facts.loaded.shim == NS_SHIM_BYPASSED ? NS_SHIM_NO
                        : facts.loaded.shim == NS_SHIM_UNSEEN   ? NS_SHIM_UNKNOWN
                                                                : facts.loaded.shim;
        process->is_cured = is_cured(process->pid, now);
        snprintf(process->name, sizeof process->name, "%s", facts.name);
        if (process->shim == NS_SHIM_WORKS)
            ns_metrics_take_library(process, &facts.loaded.stats);
    }
    if (process->name[0] == '\0')
        snprintf(process->name, sizeof process->name, "?");
}

static struct ns_top_row *find_row(struct ns_top *top, const struct ns_watched *watched)
{
    const struct ns_address *service =
        watched->role == NS_ROLE_SERVER ? &watched->local : &watched->remote;
    const struct ns_top_process *process = NULL; /* if another row has it already */
    for (size_t i = 0; i < top->n_rows; i++) {
        struct ns_top_row *row = top->rows[i];
        if (row->process.pid != watched->pid || row->process.started != watched->started)
            continue;
        process = &row->process;
        if (row->role == watched->role && ns_address_is_same(&row->service, service))
            return row;
    }
    struct ns_top_row *row = ns_allocate(1, sizeof *row);
    NS_GROW(top->rows, top->n_rows);
    top->rows[top->n_rows++] = row;
    row->role = watched->role;
    row->service = *service;
    row->is_peer = watched->is_peer;
    if (process) {
        row->process = *process;
    } else {
        row->process = (struct ns_top_process){.pid = watched->pid, .started = watched->started};
        /* What an older one has done before does not count, and no row does so twice. */
        row->process.has_done = watched->started > top->newest;
        top->newer = watched->started > top->newer ? watched->started : top->newer;
        /* It may have ended already. */
        snprintf(row->process.name, sizeof row->process.name, "%s", watched->name);
        look_at(&row->process, top->begin);
    }
    return row;
}

static struct ns_top_row *row_of(struct ns_top *top, struct ns_watched *watched)
{
    struct ns_top_row *row = watched->owner;
    if (!row || row->role != watched->role)
        watched->owner = row = find_row(top, watched);
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
    struct ns_top_row *waits = row_of(top, other);
    waits->behind_ns += hold->cost;
    waits->holder = row_of(top, watched);
}

bool ns_top_is_shown(const struct ns_top_row *row)
{
    return !row->is_peer || row->holds_rate > 0;
}

static void count_connection(void *context, struct ns_watched *watched)
{
    struct ns_top *top = context;
    if (watched->is_behind)
        return;
    struct ns_top_row *row = row_of(top, watched);
    row->busy += watched->active_at >= top->begin;
    row->peer = watched->remote;
    struct ns_verdict verdict;
    ns_judge_take(&watched->judge, &verdict);
    ns_verdict_add(&row->verdict, &verdict);
    row->connections += !watched->ended;
}

/* The row that lost most comes first, and the end that holds before the end that waits. Peers that
 * hold nothing come last. */
static int compare_rows(const void *left, const void *right)
{
    const struct ns_top_row *a = *(const struct ns_top_row *const *)left;
    const struct ns_top_row *b = *(const struct ns_top_row *const *)right;
    const double keys[][2] = {
        {ns_top_is_shown(b), ns_top_is_shown(a)}, {b->lost_rate, a->lost_rate},
        {a->held_by != NULL, b->held_by != NULL}, {b->busy, a->busy},
        {b->connections, a->connections},         {a->process.pid, b->process.pid},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i][0] < keys[i][1] || keys[i][0] > keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

/* Remove rows without connections and holds. Ended connections have been forgotten, so that none
 * points to such a row. */
static void drop_empty(struct ns_top *top)
{
    size_t kept = 0;
    for (size_t i = 0; i < top->n_rows; i++) {
        if (top->rows[i]->connections > 0 || top->rows[i]->holds_rate > 0)
            top->rows[kept++] = top->rows[i];
        else
            free(top->rows[i]);
    }
    top->n_rows = kept;
}

/* Look again at the processes that were examined long ago. */
static void look_again(struct ns_top *top, uint64_t now)
{
    const double most = (double)(top->n_rows / LOOK_AGAIN_MOST) * top->seconds;
    unsigned looked = 0;
    for (size_t i = 0; i < top->n_rows; i++) {
        struct ns_top_process *process = &top->rows[i]->process;
        bool counts = top->counts && process->shim == NS_SHIM_WORKS;
        /* So long that those that are behind come next. */
        double apart = LOOK_AGAIN_S + (counts ? 0 : most);
        if ((double)process->looked + apart * SECOND >= (double)now ||
            (!counts && looked >= LOOK_AGAIN_MOST))
            continue;
        look_at(process, now);
        looked += !counts;
        for (size_t j = i + 1; j < top->n_rows; j++)
            if (top->rows[j]->process.pid == process->pid &&
                top->rows[j]->process.started == process->started)
                top->rows[j]->process = *process;
    }
}

void ns_top_refresh(struct ns_top *top, uint64_t now)
{
    for (size_t i = 0; i < top->n_rows; i++) {
        top->rows[i]->connections = top->rows[i]->busy = 0;
        top->rows[i]->verdict = (struct ns_verdict){0};
    }
    ns_watch_each(top->watch, count_connection, top);
    top->before = top->tally;
    ns_watch_tally(top->watch, &top->tally);
    top->seconds = (double)(now - top->begin) / SECOND;
    top->begin = now;
    for (size_t i = 0; i < top->n_rows; i++) {
        struct ns_top_row *row = top->rows[i];
        const struct ns_conclusion own = ns_verdict_conclude(&row->verdict, NULL);
        double behind = 0;
        if (row->holder)
            behind = fmin((double)row->behind_ns / 1e6,
                          ns_verdict_conclude(&row->holder->verdict, NULL).lost_ms);
        /* A hold may begin before the interval. A connection cannot lose more than the time. */
        double most = 1000 * (row->busy > 1 ? row->busy : 1);
        row->holds_rate = (double)(row->verdict.stalls + row->verdict.maybe) / top->seconds;
        row->lost_rate = fmin((own.lost_ms + behind) / top->seconds, most);
        row->share = row->lost_rate / most;
        row->held_by = behind > 0 ? row->holder : NULL;
        row->behind_ns = 0;
        row->holder = NULL;
        if (top->counts)
            ns_metrics_take_row(row, &own);
    }
    top->newest = top->newer;
    look_again(top, now);
    drop_empty(top);
    if (top->n_rows > 0)
        qsort(top->rows, top->n_rows, sizeof top->rows[0], compare_rows);
}
