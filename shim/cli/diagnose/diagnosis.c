/* SPDX-License-Identifier: MIT */
/* Owns the rows of a diagnosis: which connections are one row, and in which order rows are told. It
 * must not judge: verdicts come from the judge. Not async-signal-safe. */
#include "cli/diagnose/diagnosis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more; the list doubles. */
static void *grow(void *list, size_t n, size_t size)
{
    if (n & (n - 1))
        return list;
    return reallocarray(list, n ? 2 * n : 1, size);
}

struct ns_diagnosed_process *ns_diagnosis_new_process(struct ns_diagnosis *diagnosis, pid_t pid)
{
    struct ns_diagnosed_process **list, *process;

    list = grow(diagnosis->processes, diagnosis->n_processes, sizeof(*list));
    if (list)
        diagnosis->processes = list;
    process = list ? calloc(1, sizeof(*process)) : NULL;
    if (!process)
        return NULL;
    process->pid = pid;
    diagnosis->processes[diagnosis->n_processes++] = process;
    return process;
}

struct ns_diagnosed_process *ns_diagnosis_process(struct ns_diagnosis *diagnosis, pid_t pid,
                                                  uint64_t started)
{
    struct ns_diagnosed_process *made;

    for (size_t i = 0; i < diagnosis->n_processes; i++)
        if (diagnosis->processes[i]->pid == pid && diagnosis->processes[i]->started == started)
            return diagnosis->processes[i];
    made = ns_diagnosis_new_process(diagnosis, pid);
    if (made)
        made->started = started;
    return made;
}

/* Known to be the same. */
static bool same_address(const struct ns_address *one, const struct ns_address *other)
{
    return one->known && other->known && one->port == other->port &&
           memcmp(&one->addr, &other->addr, sizeof(one->addr)) == 0;
}

static bool same(const struct ns_address *one, const struct ns_address *other)
{
    return one->known || other->known ? same_address(one, other) : true;
}

static const struct ns_address *service_of(const struct ns_diagnosed_connection *connection)
{
    return connection->role == NS_ROLE_SERVER ? &connection->local : &connection->remote;
}

static struct ns_diagnosed *find_row(const struct ns_diagnosis *diagnosis,
                                     const struct ns_diagnosed_connection *connection)
{
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        struct ns_diagnosed *row = &diagnosis->rows[i];

        if (row->process == connection->process && row->source == connection->source &&
            row->role == connection->role && same(&row->service, service_of(connection)))
            return row;
    }
    return NULL;
}

static uint64_t lost(const struct ns_verdict *verdict)
{
    return verdict->most_ns + verdict->receiving_ns;
}

static void take_ends(struct ns_diagnosed *row, const struct ns_diagnosed_connection *connection)
{
    row->local = connection->local;
    row->remote = connection->remote;
    memset(row->pattern, 0, sizeof(row->pattern));
    strncpy(row->pattern, connection->pattern, sizeof(row->pattern) - 1);
}

/* Fewer waits of either kind tell nothing; and what takes nearly as long is no gain. */
enum { TRIED_LEAST = 4 };
#define NO_GAIN 0.9

static struct ns_diagnosed *row_of(struct ns_diagnosis *diagnosis,
                                   const struct ns_diagnosed_connection *connection)
{
    struct ns_diagnosed *row = find_row(diagnosis, connection), *list;

    if (row)
        return row;
    list = grow(diagnosis->rows, diagnosis->n_rows, sizeof(*list));
    if (!list)
        return NULL;
    diagnosis->rows = list;
    row = &list[diagnosis->n_rows];
    *row = (struct ns_diagnosed){
        .id = diagnosis->next_id++,
        .process = connection->process,
        .source = connection->source,
        .role = connection->role,
        .service = *service_of(connection),
    };
    diagnosis->n_rows++;
    return row;
}

int ns_diagnosis_row(struct ns_diagnosis *diagnosis,
                     const struct ns_diagnosed_connection *connection)
{
    const struct ns_diagnosed *row = row_of(diagnosis, connection);

    return row ? (int)row->id : -ENOMEM;
}

int ns_diagnosis_add(struct ns_diagnosis *diagnosis,
                     const struct ns_diagnosed_connection *connection)
{
    struct ns_diagnosed *row = row_of(diagnosis, connection);

    if (!row)
        return -ENOMEM;
    if (row->connections == 0)
        row->verdict = *connection->verdict;
    else
        ns_verdict_add(&row->verdict, connection->verdict);
    if (row->connections == 0 || lost(connection->verdict) > row->worst_ns) {
        row->worst_ns = lost(connection->verdict);
        take_ends(row, connection);
    }
    row->connections += connection->connections ? connection->connections : 1;
    return (int)row->id;
}

void ns_diagnosis_drop(struct ns_diagnosis *diagnosis,
                       bool (*drop)(const struct ns_diagnosis *diagnosis,
                                    const struct ns_diagnosed *row))
{
    for (size_t i = 0; i < diagnosis->n_rows;) {
        unsigned id = diagnosis->rows[i].id;
        size_t kept = 0;

        if (!drop(diagnosis, &diagnosis->rows[i])) {
            i++;
            continue;
        }
        for (size_t hold = 0; hold < diagnosis->n_holds; hold++)
            if (diagnosis->holds[hold].id != id)
                diagnosis->holds[kept++] = diagnosis->holds[hold];
        diagnosis->n_holds = kept;
        memmove(&diagnosis->rows[i], &diagnosis->rows[i + 1],
                (diagnosis->n_rows - i - 1) * sizeof(diagnosis->rows[0]));
        diagnosis->n_rows--;
    }
}

void ns_diagnosis_add_hold(struct ns_diagnosis *diagnosis, unsigned id, const struct ns_hold *hold)
{
    struct ns_diagnosed_hold *list = NULL;

    if (diagnosis->n_holds < NS_DIAGNOSIS_HOLDS_MOST)
        list = grow(diagnosis->holds, diagnosis->n_holds, sizeof(*list));
    if (!list) {
        diagnosis->holds_untold++;
        return;
    }
    diagnosis->holds = list;
    list[diagnosis->n_holds++] = (struct ns_diagnosed_hold){.id = id, .hold = *hold};
}

/* What nothing can be told of comes last, though CANNOT_TELL is no claim at all. */
static int by_loss(const void *left, const void *right)
{
    const struct ns_diagnosed *one = left, *other = right;
    uint64_t a = lost(&one->verdict), b = lost(&other->verdict);

    if (one->verdict.grade != other->verdict.grade)
        return one->verdict.grade > other->verdict.grade ? -1 : 1;
    if (a != b)
        return a > b ? -1 : 1;
    if (one->verdict.requests != other->verdict.requests)
        return one->verdict.requests > other->verdict.requests ? -1 : 1;
    return one->id < other->id ? -1 : 1;
}

static int by_time(const void *left, const void *right)
{
    const struct ns_diagnosed_hold *one = left, *other = right;

    return one->hold.begin < other->hold.begin ? -1 : one->hold.begin > other->hold.begin;
}

/* Are these the two ends of a connection? */
static bool are_ends(const struct ns_diagnosed *one, const struct ns_diagnosed *other)
{
    return same_address(&other->local, &one->remote) && same_address(&other->remote, &one->local);
}

/* Are they the two ends of some connection of a service? */
static bool may_be_ends(const struct ns_diagnosed *one, const struct ns_diagnosed *other)
{
    return same_address(&other->service, &one->service) &&
           ((one->role == NS_ROLE_CLIENT && other->role == NS_ROLE_SERVER) ||
            (one->role == NS_ROLE_SERVER && other->role == NS_ROLE_CLIENT));
}

const struct ns_diagnosed *ns_diagnosis_other_end(const struct ns_diagnosis *diagnosis,
                                                  const struct ns_diagnosed *row)
{
    const struct ns_diagnosed *found = NULL;

    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_diagnosed *other = &diagnosis->rows[i];

        if (other != row && are_ends(row, other))
            return other;
        if (other != row && !found && may_be_ends(row, other))
            found = other;
    }
    return found;
}

static bool cures(const struct ns_diagnosed_experiment *experiment)
{
    return experiment->done >= TRIED_LEAST && experiment->left >= TRIED_LEAST &&
           experiment->p < NS_DIAGNOSIS_P_BELIEVED && experiment->done_ms < experiment->left_ms;
}

static bool gains_nothing(const struct ns_diagnosed_experiment *experiment)
{
    return experiment->done >= TRIED_LEAST && experiment->left >= TRIED_LEAST &&
           !cures(experiment) && experiment->done_ms > experiment->left_ms * NO_GAIN;
}

/* What was held, or came late, does so all the same; but no answer waited for it. */
static void take_back(struct ns_diagnosis *diagnosis, struct ns_diagnosed *row, bool pushes)
{
    struct ns_verdict *verdict = &row->verdict;

    if (pushes) {
        ns_verdict_doubt(verdict);
        verdict->late += verdict->maybe;
        verdict->maybe = verdict->most_ns = 0;
    } else {
        verdict->receiving = verdict->receiving_ns = 0;
    }
    ns_verdict_grade(verdict);
    for (size_t i = 0; pushes && i < diagnosis->n_holds; i++)
        if (diagnosis->holds[i].id == row->id)
            diagnosis->holds[i].hold.certain = diagnosis->holds[i].hold.waited = false;
}

static bool is_pushed(const struct ns_diagnosed_experiment *experiment)
{
    return strcmp(experiment->what, "push") == 0;
}

/* The row that the experiment tells of: its process's only one in which there was something to try.
 * Of several nobody knows which of them its waits were. */
static struct ns_diagnosed *row_tried(struct ns_diagnosis *diagnosis,
                                      const struct ns_diagnosed_experiment *experiment)
{
    struct ns_diagnosed *found = NULL;

    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        struct ns_diagnosed *row = &diagnosis->rows[i];
        const struct ns_verdict *verdict = &row->verdict;
        bool tried = is_pushed(experiment)
                         ? verdict->stalls + verdict->maybe + verdict->late > 0
                         : verdict->receiving + verdict->causes[NS_CAUSE_PEER] > 0;

        if (row->process != experiment->process || !tried)
            continue;
        if (found)
            return NULL;
        found = row;
    }
    return found;
}

/* An experiment tells what counting cannot: whether the answers wait for what is held. */
static void weigh_experiments(struct ns_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->n_experiments; i++) {
        const struct ns_diagnosed_experiment *experiment = &diagnosis->experiments[i];
        struct ns_diagnosed *row = row_tried(diagnosis, experiment);
        const struct ns_verdict *verdict = row ? &row->verdict : NULL;

        if (!row ||
            (is_pushed(experiment) ? verdict->stalls + verdict->maybe : verdict->receiving) == 0)
            continue;
        if (gains_nothing(experiment)) {
            take_back(diagnosis, row, is_pushed(experiment));
        } else if (cures(experiment)) {
            row->measured = experiment;
            row->verdict.grade = NS_GRADE_PROVEN;
            row->verdict.doubt = NS_DOUBT_NOTHING;
        }
    }
}

/* A peer that was looked at, too, and of which nothing was held that anybody waited for, is held by
 * no late ACK of ours. Where several serve, it may be any of them. */
static void weigh_other_ends(struct ns_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        struct ns_diagnosed *row = &diagnosis->rows[i];
        bool seen = false, holds = false;

        for (size_t j = 0; j < diagnosis->n_rows; j++) {
            const struct ns_diagnosed *other = &diagnosis->rows[j];

            if (other == row || !(are_ends(row, other) || may_be_ends(row, other)))
                continue;
            seen = true;
            holds |= other->verdict.grade != NS_GRADE_NONE && other->verdict.grade != NS_GRADE_LATE;
        }
        if (row->verdict.grade == NS_GRADE_LIKELY && row->verdict.receiving > 0 && seen && !holds)
            take_back(diagnosis, row, false);
    }
}

/* What a verdict has taken back as a whole is certain of no hold. */
static void weigh_holds(struct ns_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->n_holds; i++)
        for (size_t row = 0; row < diagnosis->n_rows; row++)
            if (diagnosis->rows[row].id == diagnosis->holds[i].id &&
                diagnosis->rows[row].verdict.stalls == 0)
                diagnosis->holds[i].hold.certain = false;
}

void ns_diagnosis_finish(struct ns_diagnosis *diagnosis)
{
    weigh_other_ends(diagnosis);
    weigh_experiments(diagnosis);
    weigh_holds(diagnosis);
    if (diagnosis->n_rows)
        qsort(diagnosis->rows, diagnosis->n_rows, sizeof(*diagnosis->rows), by_loss);
    if (diagnosis->n_holds)
        qsort(diagnosis->holds, diagnosis->n_holds, sizeof(*diagnosis->holds), by_time);
    diagnosis->grade = diagnosis->n_rows ? diagnosis->rows[0].verdict.grade : NS_GRADE_CANNOT_TELL;
    for (size_t i = 0; i < diagnosis->n_holds; i++)
        for (size_t row = 0; row < diagnosis->n_rows; row++)
            if (diagnosis->rows[row].id == diagnosis->holds[i].id)
                diagnosis->holds[i].row = &diagnosis->rows[row];
}

void ns_diagnosis_release(struct ns_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->n_processes; i++)
        free(diagnosis->processes[i]);
    free(diagnosis->processes);
    free(diagnosis->rows);
    free(diagnosis->holds);
    *diagnosis = (struct ns_diagnosis){0};
}
