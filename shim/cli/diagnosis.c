/* SPDX-License-Identifier: MIT */
/* Owns the rows of a diagnosis: which connections are one row, and in which order rows are told. It
 * must not judge: verdicts come from the judge. Not async-signal-safe. */
#include "cli/diagnosis.h"

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

const struct ns_diagnosed *ns_diagnosis_other_end(const struct ns_diagnosis *diagnosis,
                                                  const struct ns_diagnosed *row)
{
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_diagnosed *other = &diagnosis->rows[i];

        if (other == row)
            continue;
        if (same_address(&other->local, &row->remote) && same_address(&other->remote, &row->local))
            return other;
        if (same_address(&other->service, &row->service) &&
            ((row->role == NS_ROLE_CLIENT && other->role == NS_ROLE_SERVER) ||
             (row->role == NS_ROLE_SERVER && other->role == NS_ROLE_CLIENT)))
            return other;
    }
    return NULL;
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

/* An experiment tells what counting cannot: whether the answers wait for what is held. */
static void weigh_experiments(struct ns_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->n_experiments * diagnosis->n_rows; i++) {
        const struct ns_diagnosed_experiment *experiment =
            &diagnosis->experiments[i / diagnosis->n_rows];
        struct ns_diagnosed *row = &diagnosis->rows[i % diagnosis->n_rows];
        const struct ns_verdict *verdict = &row->verdict;
        bool pushes = strcmp(experiment->what, "push") == 0;
        bool is_its_matter = pushes ? verdict->stalls + verdict->maybe > 0 : verdict->receiving > 0;

        if (row->process != experiment->process || !is_its_matter)
            continue;
        if (gains_nothing(experiment)) {
            take_back(diagnosis, row, pushes);
        } else if (cures(experiment)) {
            row->measured = experiment;
            row->verdict.grade = NS_GRADE_PROVEN;
            row->verdict.doubt = NS_DOUBT_NOTHING;
        }
    }
}

/* A peer that was looked at, too, and of which nothing was held that anybody waited for, is held by
 * no late ACK of ours. */
static void weigh_other_ends(struct ns_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        struct ns_diagnosed *row = &diagnosis->rows[i];
        const struct ns_diagnosed *other = ns_diagnosis_other_end(diagnosis, row);

        if (row->verdict.grade == NS_GRADE_LIKELY && row->verdict.receiving > 0 && other &&
            (other->verdict.grade == NS_GRADE_NONE || other->verdict.grade == NS_GRADE_LATE))
            take_back(diagnosis, row, false);
    }
}

void ns_diagnosis_finish(struct ns_diagnosis *diagnosis)
{
    weigh_other_ends(diagnosis);
    weigh_experiments(diagnosis);
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
