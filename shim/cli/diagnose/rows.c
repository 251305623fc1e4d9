/* SPDX-License-Identifier: MIT */
/* See diagnose.h. Decides which connections form a row, and the order of rows. It must not judge:
 * verdicts and conclusions come from judge/judge.h. */
#include "cli/diagnose/diagnose.h"

#include "process/scope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNNAMED "?" /* it may have ended already */

struct ns_row_process *ns_diagnosis_new_process(struct ns_diagnosis *diagnosis, pid_t pid)
{
    struct ns_row_process *process = ns_allocate(1, sizeof *process);
    process->pid = pid;
    NS_GROW(diagnosis->processes, diagnosis->n_processes);
    diagnosis->processes[diagnosis->n_processes++] = process;
    return process;
}

struct ns_row_process *ns_diagnosis_process(struct ns_diagnosis *diagnosis, pid_t pid,
                                            uint64_t started)
{
    for (size_t i = 0; i < diagnosis->n_processes; i++)
        if (diagnosis->processes[i]->pid == pid && diagnosis->processes[i]->started == started)
            return diagnosis->processes[i];
    if (pid && diagnosis->n_processes >= NS_DIAGNOSIS_PROCESSES_MOST)
        return ns_diagnosis_process(diagnosis, 0, 1); /* the rest */
    struct ns_row_process *made = ns_diagnosis_new_process(diagnosis, pid);
    made->started = started;
    return made;
}

struct ns_row_process *ns_diagnosis_process_of(struct ns_diagnosis *diagnosis,
                                               const struct ns_watched *watched)
{
    struct ns_row_process *process =
        ns_diagnosis_process(diagnosis, watched->pid, watched->started);
    if (!process->name[0])
        snprintf(process->name, sizeof process->name, "%s",
                 watched->pid == 0   ? "another user's process"
                 : process->pid == 0 ? "other processes"
                 : watched->name[0]  ? watched->name
                                     : UNNAMED);
    return process;
}

int ns_row_process_look(struct ns_row_process *process, enum ns_facts_depth depth,
                        struct ns_facts *facts)
{
    int error = ns_facts_ask(process->pid, depth, facts);
    if (process->started && facts->proc.state.start != process->started)
        return -ESRCH;
    if (facts->name[0] && (error != -ESRCH || strcmp(process->name, UNNAMED) == 0))
        snprintf(process->name, sizeof process->name, "%s", facts->name);
    process->has_other_number |= facts->has_other_number;
    if (error == -ESRCH)
        return error;
    process->shim = error == -ETIMEDOUT        ? NS_SHIM_STUCK
                    : ns_proc_is_denied(error) ? NS_SHIM_DENIED
                                               : facts->loaded.shim;
    return error;
}

struct ns_row ns_row_of(struct ns_row_process *process, const struct ns_watched *watched)
{
    return (struct ns_row){
        .process = process,
        .source = NS_SOURCE_OUTSIDE,
        .role = watched->role,
        .is_peer = watched->is_peer,
        .is_mptcp = watched->is_mptcp,
        .local = watched->local,
        .remote = watched->remote,
    };
}

static const struct ns_address *service_of(const struct ns_row *connection)
{
    return connection->role == NS_ROLE_SERVER ? &connection->local : &connection->remote;
}

static bool is_in_row(const struct ns_row *row, const struct ns_row *connection)
{
    const struct ns_address *service = service_of(connection);
    bool both_unknown = !row->service.known && !service->known;
    /* Connections of unknown role to one local port are those of a service, whose peers have
     * ephemeral ports. */
    bool same_peer = row->role == NS_ROLE_UNKNOWN && row->service.known &&
                     connection->remote.known && row->local.known &&
                     row->local.port == connection->local.port &&
                     memcmp(&row->service.addr, &service->addr, sizeof service->addr) == 0;
    return row->process == connection->process && row->source == connection->source &&
           row->role == connection->role &&
           (both_unknown || same_peer || ns_address_is_same(&row->service, service));
}

struct ns_row *ns_diagnosis_row(struct ns_diagnosis *diagnosis, const struct ns_row *connection)
{
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        if (is_in_row(diagnosis->rows[i], connection)) {
            if (diagnosis->rows[i]->service.port != service_of(connection)->port)
                diagnosis->rows[i]->service.port = 0;
            return diagnosis->rows[i];
        }
    if (diagnosis->n_rows == NS_DIAGNOSIS_ROWS_MOST)
        return NULL;
    struct ns_row *row = ns_allocate(1, sizeof *row);
    *row = *connection;
    row->connections = 0;
    row->id = (unsigned)diagnosis->n_rows;
    NS_GROW(diagnosis->rows, diagnosis->n_rows);
    diagnosis->rows[diagnosis->n_rows++] = row;
    row->service = *service_of(connection);
    return row;
}

static uint64_t lost(const struct ns_verdict *verdict)
{
    return verdict->most_ns + verdict->receiving_ns;
}

void ns_row_add(struct ns_row *row, const struct ns_row *connection)
{
    bool is_first = row->connections == 0;
    if (is_first)
        row->verdict = connection->verdict;
    else
        ns_verdict_add(&row->verdict, &connection->verdict);
    if (is_first || lost(&connection->verdict) > row->worst_ns) {
        row->worst_ns = lost(&connection->verdict);
        row->local = connection->local;
        row->remote = connection->remote;
        row->pattern = connection->pattern;
    }
    row->connections += connection->connections ? connection->connections : 1;
}

void ns_diagnosis_add(struct ns_diagnosis *diagnosis, const struct ns_row *connection)
{
    struct ns_row *row = ns_diagnosis_row(diagnosis, connection);
    if (row)
        ns_row_add(row, connection);
    else
        diagnosis->forgotten++;
}

void ns_diagnosis_add_hold(struct ns_diagnosis *diagnosis, struct ns_row *row,
                           const struct ns_hold *hold)
{
    if (diagnosis->n_holds == NS_DIAGNOSIS_HOLDS_MOST) {
        diagnosis->holds_untold++;
        return;
    }
    NS_GROW(diagnosis->holds, diagnosis->n_holds);
    diagnosis->holds[diagnosis->n_holds++] = (struct ns_row_hold){row, *hold};
}

void ns_diagnosis_drop_needless(struct ns_diagnosis *diagnosis)
{
    size_t rows = 0, holds = 0;
    for (size_t i = 0; i < diagnosis->n_holds; i++)
        if (!diagnosis->holds[i].row->is_needless)
            diagnosis->holds[holds++] = diagnosis->holds[i];
    diagnosis->n_holds = holds;
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        struct ns_row *row = diagnosis->rows[i];
        row->id = (unsigned)rows;
        if (row->is_needless)
            free(row);
        else
            diagnosis->rows[rows++] = row;
    }
    diagnosis->n_rows = rows;
}

void ns_diagnosis_note(struct ns_diagnosis *diagnosis, const char *text)
{
    if (diagnosis->n_notes < sizeof diagnosis->notes / sizeof diagnosis->notes[0])
        diagnosis->notes[diagnosis->n_notes++] = text;
}

/* Are these the two ends of a connection? */
static bool are_ends(const struct ns_row *one, const struct ns_row *other)
{
    return ns_address_is_same(&other->local, &one->remote) &&
           ns_address_is_same(&other->remote, &one->local);
}

/* Are they the two ends of a connection, or a client and a server of the same service? */
static bool meet(const struct ns_row *one, const struct ns_row *other)
{
    return one != other &&
           (are_ends(one, other) ||
            (ns_address_is_same(&other->service, &one->service) && one->role != other->role &&
             one->role != NS_ROLE_UNKNOWN && other->role != NS_ROLE_UNKNOWN));
}

static struct ns_row *other_end(const struct ns_diagnosis *diagnosis, const struct ns_row *row)
{
    struct ns_row *found = NULL;
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        struct ns_row *other = diagnosis->rows[i];
        if (other != row && are_ends(row, other))
            return other;
        if (!found && meet(row, other))
            found = other;
    }
    return found;
}

/* Apply an experiment to its row: the only one of its process with something to try. If there are
 * several, nobody knows whose waits were tried. */
static void apply_experiment(struct ns_diagnosis *diagnosis, const struct ns_row_process *process)
{
    struct ns_row *found = NULL;
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        struct ns_row *row = diagnosis->rows[i];
        const struct ns_verdict *verdict = &row->verdict;
        uint64_t tried = process->trial.what == NS_EXPERIMENT_PUSH
                             ? verdict->stalls + verdict->maybe + verdict->late
                             : verdict->receiving + verdict->delays[NS_DELAY_PEER];
        if (row->process != process || tried == 0)
            continue;
        if (found)
            return;
        found = row;
    }
    if (!found || ns_verdict_effect(&process->trial) == NS_EFFECT_UNKNOWN)
        return;
    found->trial = &process->trial;
    found->is_cured = ns_verdict_try(&found->verdict, found->trial);
}

void ns_diagnosis_behind(struct ns_row_process *process, const struct ns_verdict *verdict,
                         const struct ns_address *at)
{
    const uint64_t waits[][2] = {
        {verdict->delays_ns[NS_DELAY_PEER], verdict->delays[NS_DELAY_PEER]},
        {verdict->receiving_ns, verdict->receiving},
        {verdict->most_ns, verdict->stalls + verdict->maybe},
    };
    if (!process->behind.at.known)
        process->behind.at = *at;
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
        if (waits[i][0] > process->behind.ns) {
            process->behind.ns = waits[i][0];
            process->behind.n = waits[i][1];
            process->behind.at = *at;
        }
}

/* Did this end hold bytes until our ACK came, and for so long? From outside, its waits are not
 * known. */
static bool may_hold(const struct ns_row *row, const struct ns_verdict *ours)
{
    const struct ns_verdict *verdict = &row->verdict;
    bool unknown = verdict->grade == NS_GRADE_CANNOT_TELL && verdict->doubt != NS_DOUBT_PEER;
    return (unknown && verdict->late + verdict->maybe == 0) ||
           ((unknown || verdict->grade >= NS_GRADE_LIKELY || row->source == NS_SOURCE_OUTSIDE) &&
            ns_verdict_may_explain(verdict, ours));
}

/* Has the process of this row other connections to servers? */
static bool waits_behind(struct ns_diagnosis *diagnosis, struct ns_row *row)
{
    for (size_t i = 0; i < diagnosis->n_rows && !row->waits_behind; i++) {
        const struct ns_row *other = diagnosis->rows[i];
        if (other != row && other->process == row->process && other->role == NS_ROLE_CLIENT &&
            !meet(row, other))
            ns_diagnosis_behind(row->process, &other->verdict, &other->service);
    }
    row->waits_behind = true;
    return row->process->behind.at.known;
}

/* A peer that was watched as well, and that held nothing for so long, is not delayed by our ACKs in
 * that way. If several rows may be the peer, none of them may be held. Its program may still wait
 * for an ACK of ours, unless it has connections of its own, behind which it may wait as long. Where
 * our program never answers, a peer that seems to wait for our delayed-ACK timer waits for the ACK
 * itself. */
static void apply_other_ends(struct ns_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        struct ns_row *row = diagnosis->rows[i];
        const struct ns_row *other = other_end(diagnosis, row);
        row->peer = other ? other->process : NULL;
        if (other)
            ns_verdict_meet(&row->verdict, &other->verdict);
    }
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        struct ns_row *row = diagnosis->rows[i];
        const struct ns_verdict *verdict = &row->verdict;
        bool answers = row->source == NS_SOURCE_OUTSIDE || verdict->requests > 0;
        bool receives = verdict->grade == NS_GRADE_LIKELY && verdict->receiving > 0 && answers;
        bool holds = false, relays = false;
        uint64_t held = 0, held_ns = 0;
        for (size_t j = 0; j < diagnosis->n_rows; j++)
            if (meet(row, diagnosis->rows[j])) {
                const struct ns_verdict *other = &diagnosis->rows[j]->verdict;
                holds |= may_hold(diagnosis->rows[j], verdict);
                held += other->late + other->maybe + other->stalls;
                held_ns += other->late_ns + other->most_ns;
                relays |= waits_behind(diagnosis, diagnosis->rows[j]);
            }
        if (receives && row->peer && (held > 0 || !holds))
            ns_verdict_bound_receiving(&row->verdict, holds ? held : 0, holds ? held_ns : 0);
        if (relays && !holds)
            ns_verdict_clear_gaps(&row->verdict);
    }
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        struct ns_row *row = diagnosis->rows[i];
        const struct ns_row *other = row->is_peer ? other_end(diagnosis, row) : NULL;
        if (other)
            ns_verdict_outweigh(&row->verdict, other->verdict.delays_ns[NS_DELAY_PEER]);
    }
}

/* The row of a process at the other end is reported only if one of the two ends stalls, or is in
 * doubt about this one. */
static bool is_needless(const struct ns_diagnosis *diagnosis, const struct ns_row *row)
{
    if (!row->is_peer || row->verdict.grade >= NS_GRADE_LIKELY)
        return false;
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_verdict *verdict = &diagnosis->rows[i]->verdict;
        if ((verdict->grade >= NS_GRADE_LIKELY || verdict->doubt == NS_DOUBT_PEER) &&
            meet(row, diagnosis->rows[i]))
            return false;
    }
    return true;
}

/* CANNOT_TELL is the lowest grade, and so comes last. */
static int by_loss(const void *left, const void *right)
{
    const struct ns_row *one = *(struct ns_row *const *)left;
    const struct ns_row *other = *(struct ns_row *const *)right;
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
    const struct ns_row_hold *one = left, *other = right;
    return one->hold.begin < other->hold.begin ? -1 : one->hold.begin > other->hold.begin;
}

/* A hold is not more certain than the verdict of its row. */
static void finish_holds(struct ns_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->n_holds; i++) {
        struct ns_row_hold *hold = &diagnosis->holds[i];
        hold->hold.certain &= hold->row->verdict.stalls > 0;
        hold->hold.waited &= hold->row->verdict.stalls + hold->row->verdict.maybe > 0;
    }
    if (diagnosis->n_holds)
        qsort(diagnosis->holds, diagnosis->n_holds, sizeof diagnosis->holds[0], by_time);
}

static void find_cures(struct ns_row *row)
{
    const struct ns_row *other = row->other;
    const struct ns_verdict *verdict = &row->verdict;
    bool holds = row->conclusion.holds;
    double rtt = (double)verdict->rtt_us / 1e3, answer = rtt;
    if (row->conclusion.stalled == 0)
        return;
    /* What the peer takes after the release, it takes in any case. Of certain stalls, that is not
     * much, and known to a tick. */
    if (holds && !row->conclusion.certain && verdict->maybe > 0)
        answer = fmax(rtt, (double)verdict->answered_ns / 1e6 / (double)verdict->maybe);
    double stalled = row->conclusion.lost_ms / (double)row->conclusion.stalled + answer;
    for (unsigned i = 0; i < 2; i++) {
        bool here = (i == 0) != row->is_peer; /* at the end of this row */
        bool pushes = here == holds;
        /* An experiment measures the cure at its own end. */
        const struct ns_trial *trial = here && row->is_cured ? row->trial : NULL;
        /* An ACK must travel to the other end before the held bytes can. */
        double best = row->both_hold ? 2 * rtt + answer : pushes ? answer : rtt + answer;
        row->cures[i] = (struct ns_cure){
            .at = here ? row : other,
            .does = row->both_hold ? "send adaptive, ack before-wait"
                    : pushes       ? "send adaptive"
                                   : "ack before-wait",
            .from_ms = trial ? trial->left_ms : stalled,
            .to_ms = trial ? trial->done_ms : fmin(best, stalled),
            .measured = trial,
        };
    }
    /* If the other end was seen to hold nothing, it has nothing to push. */
    row->n_cures =
        !holds && other && other->verdict.stalls + other->verdict.maybe + other->verdict.late == 0
            ? 1
            : 2;
}

/* What the other end's holds explain is no delay of the peer: their number, if they are most of the
 * time, and never more than the time. Returns whether they are. */
static bool take_delays(struct ns_verdict *verdict, const struct ns_conclusion *other)
{
    uint64_t *times = &verdict->delays[NS_DELAY_PEER], *ns = &verdict->delays_ns[NS_DELAY_PEER];
    uint64_t least = *times < other->stalled ? *times : other->stalled;
    uint64_t waited = least ? *ns / *times * least : 0, held = (uint64_t)(other->lost_ms * 1e6);
    bool explains = held >= waited / 2;
    *ns -= explains ? waited : held;
    *times -= explains ? least : 0;
    return explains;
}

/* Compare a row with that of the other end, of which at least one stalls. */
static void compare_ends(struct ns_row *row, struct ns_row *other)
{
    bool holds = row->conclusion.stalls && row->conclusion.holds;
    /* Of a server's connections, those of another client may be the held ones. */
    bool others = other->other != row && row->verdict.gaps == 0 && !row->conclusion.stalls;
    if (!other->conclusion.stalls || !other->conclusion.holds || others)
        return;
    bool explains = take_delays(&row->verdict, &other->conclusion);
    row->both_hold = holds && other->other == row;
    row->is_held = explains && !row->both_hold && !row->is_cured &&
                   !(holds && row->verdict.grade == NS_GRADE_PROVEN);
    if (row->is_held)
        row->misses = other->misses;
    if (row->is_held && row->conclusion.stalls) { /* they have the same stalls */
        row->conclusion.stalled = other->conclusion.stalled;
        row->conclusion.lost_ms = other->conclusion.lost_ms;
    } else if (row->both_hold) {
        row->conclusion.lost_ms = row->own_ms + other->own_ms;
    }
}

void ns_diagnosis_finish(struct ns_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        ns_verdict_doubt_few(&diagnosis->rows[i]->verdict);
    apply_other_ends(diagnosis);
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        diagnosis->rows[i]->is_needless = is_needless(diagnosis, diagnosis->rows[i]);
    ns_diagnosis_drop_needless(diagnosis);
    for (size_t i = 0; i < diagnosis->n_processes; i++)
        if (diagnosis->processes[i]->trial.what != NS_EXPERIMENT_NONE)
            apply_experiment(diagnosis, diagnosis->processes[i]);
    if (diagnosis->n_rows)
        qsort(diagnosis->rows, diagnosis->n_rows, sizeof diagnosis->rows[0], by_loss);
    diagnosis->grade = diagnosis->n_rows ? diagnosis->rows[0]->verdict.grade : NS_GRADE_CANNOT_TELL;
    finish_holds(diagnosis);
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        struct ns_row *row = diagnosis->rows[i];
        row->id = (unsigned)i;
        row->conclusion = ns_verdict_conclude(&row->verdict, row->is_cured ? row->trial : NULL);
        row->own_ms = row->conclusion.lost_ms;
        row->other = other_end(diagnosis, row);
        row->misses = row->source == NS_SOURCE_OUTSIDE;
    }
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        if (diagnosis->rows[i]->other)
            compare_ends(diagnosis->rows[i], diagnosis->rows[i]->other);
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        struct ns_row *row = diagnosis->rows[i];
        const struct ns_row *other = row->other;
        find_cures(row);
        row->is_repeated = row->conclusion.stalls && other && other->id < row->id &&
                           other->conclusion.stalls && !other->is_held;
        /* If the other end holds the bytes, its row has this loss already. */
        row->counts = row->conclusion.stalls && !(row->is_repeated && row->both_hold) &&
                      (row->conclusion.holds || !other || !other->conclusion.stalls ||
                       !other->conclusion.holds);
        if (row->counts)
            diagnosis->lost_ms += row->conclusion.lost_ms;
        /* Then it is unknown whether the program stalls. Too few samples of one connection say
         * nothing about the others. */
        if (diagnosis->grade < NS_GRADE_LIKELY && !row->is_held &&
            row->verdict.grade == NS_GRADE_CANNOT_TELL && row->verdict.doubt != NS_DOUBT_NO_LOOKS)
            diagnosis->grade = NS_GRADE_CANNOT_TELL;
    }
}

const char *ns_row_grade(const struct ns_row *row)
{
    return row->is_held ? "held by the peer" : ns_grade_name(row->verdict.grade);
}

void ns_diagnosis_release(struct ns_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->n_processes; i++)
        free(diagnosis->processes[i]);
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        free(diagnosis->rows[i]);
    free(diagnosis->processes);
    free(diagnosis->rows);
    free(diagnosis->holds);
    *diagnosis = (struct ns_diagnosis){0};
}
