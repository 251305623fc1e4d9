/* SPDX-License-Identifier: MIT */
/* Owns the loop of `nagleshim diagnose`: it takes samples when they are due, adds connections that
 * have ended to their rows, looks at their processes, and decides when to stop. It must not stop or
 * change what it watches. */
#include "cli/diagnose/diagnose.h"

#include "base/clock.h"
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/program/program.h"
#include "cli/verbs.h"
#include "process/facts.h"
#include "watch/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define MS UINT64_C(1000000)

enum {
    QUEUED_MS = 200, /* how often it is read how long processes have waited for a CPU */
    SHARE = 50,      /* and no more often than takes 1/SHARE of a processor */
    HARVEST_MS = 20, /* the name of a process that ends sooner stays unknown */
    IDLE_MS = 50,    /* a connection without traffic for so long is idle */
};

struct session {
    struct ns_child *child; /* NULL: running processes are watched */
    struct ns_diagnosis *diagnosis;
    struct ns_watch *watch;
    uint64_t deadline; /* 0: none */
    uint64_t next_harvest, next_queued, next_progress;
    size_t queued; /* the process that is read next */
    bool final;    /* harvest all connections, not only those that have ended */
    int error;     /* the first one of the watch; 0: none */
};

/* Fill in what the reader finds. Fields that cannot be read stay unchanged. */
static void look_at(struct ns_diagnosis *diagnosis, struct ns_row_process *process)
{
    static struct ns_facts facts;
    int error = ns_row_process_look(process, NS_FACTS_PROGRAM, &facts);
    if (error == -ETIMEDOUT) {
        diagnosis->n_stuck++;
        diagnosis->stuck = process->pid;
    }
    if (error)
        return;
    snprintf(process->exe, sizeof process->exe, "%s", facts.proc.exe);
    process->words_size = facts.words_size <= sizeof process->words ? facts.words_size : 0;
    memcpy(process->words, facts.words, process->words_size);
    process->origin = facts.origin;
    process->unreachable = ns_reach_reason(ns_reach_judge_process(&facts));
    process->is_reachable = facts.has_elf && !process->unreachable;
    process->has_ring = facts.has_ring;
}

/* The process of a connection. It is examined at once, since it may end the next moment. */
static struct ns_row_process *process_of(struct session *session, struct ns_watched *watched)
{
    if (watched->owner)
        return watched->owner;
    struct ns_row_process *process = ns_diagnosis_process_of(session->diagnosis, watched);
    if (process->pid && !process->exe[0] && process->shim != NS_SHIM_STUCK)
        look_at(session->diagnosis, process);
    return watched->owner = process;
}

static void take_hold(void *context, struct ns_watched *watched, const struct ns_hold *hold)
{
    struct session *session = context;
    if (watched->is_behind)
        return;
    const struct ns_row connection = ns_row_of(process_of(session, watched), watched);
    struct ns_row *row = ns_diagnosis_row(session->diagnosis, &connection);
    if (row)
        ns_diagnosis_add_hold(session->diagnosis, row, hold);
}

static void harvest(void *context, struct ns_watched *watched)
{
    struct session *session = context;
    struct ns_row_process *process = process_of(session, watched);
    if (!watched->ended && !session->final)
        return;
    struct ns_row connection = ns_row_of(process, watched);
    ns_judge_verdict(&watched->judge, &connection.verdict);
    if (watched->is_behind && watched->traffic)
        ns_diagnosis_behind(process, &connection.verdict, &watched->remote);
    if (watched->is_behind)
        return;
    if (!watched->ended && !watched->traffic &&
        (watched->active_at == 0 || connection.verdict.watched_ns >= IDLE_MS * MS)) {
        session->diagnosis->idle++;
        return;
    }
    ns_diagnosis_add(session->diagnosis, &connection);
}

static void count(struct ns_counted *counted, uint64_t now)
{
    if (counted->before == 0)
        counted->before = now;
    if (now > counted->before + counted->since)
        counted->since = now - counted->before;
}

/* Of one process or more, until this time. Is there more? */
static bool take_queued(struct session *session, uint64_t until)
{
    const struct ns_diagnosis *diagnosis = session->diagnosis;
    const uint64_t stolen = ns_proc_stolen();
    while (session->queued < diagnosis->n_processes) {
        struct ns_row_process *process = diagnosis->processes[session->queued++];
        count(&process->queued, ns_proc_queued(process->pid));
        count(&process->stolen, stolen);
        if (session->queued < diagnosis->n_processes && ns_clock_now(CLOCK_MONOTONIC) >= until)
            return true;
    }
    session->queued = 0;
    return false;
}

/* Examine new processes; take and forget connections that have ended. */
static void do_due(struct session *session, uint64_t now)
{
    struct ns_watch_tally tally;
    if (now < session->next_harvest)
        return;
    session->next_harvest = now + HARVEST_MS * MS;
    if (now >= session->next_queued) {
        bool more = take_queued(session, now + MS);
        uint64_t apart = (ns_clock_now(CLOCK_MONOTONIC) - now) * SHARE;
        session->next_queued = now + (more || apart > QUEUED_MS * MS ? apart : QUEUED_MS * MS);
    }
    ns_watch_each(session->watch, harvest, session);
    ns_watch_tally(session->watch, &tally);
    if (tally.denied > session->diagnosis->denied)
        session->diagnosis->denied = tally.denied;
}

/* Is it time to stop? */
static bool is_over(struct session *session)
{
    bool asked = ns_child_take_signals(session->child);
    session->diagnosis->interrupted |= asked;
    if (session->child)
        return ns_child_has_ended(session->child);
    return asked || ns_proc_are_gone(ns_option_pids());
}

/* Without a program, which may print, a line on the terminal shows that the command works. */
static void show_progress(struct session *session, uint64_t now)
{
    struct ns_watch_tally tally;
    if (session->child || now < session->next_progress || !ns_output_is_screen(stderr))
        return;
    session->next_progress = now + SECOND;
    ns_watch_tally(session->watch, &tally);
    ns_print(stderr, "\r\033[K%.0f s, %s, %s; ^C ends and reports",
             (double)(now - session->diagnosis->begin) / 1e9,
             ns_count(tally.connections, "connection"), ns_count(tally.looks, "sample"));
}

static void watch(struct session *session)
{
    for (bool over = false; !over;) {
        uint64_t now = ns_clock_now(CLOCK_MONOTONIC), next = now + SECOND / 100;
        over = is_over(session) || (session->deadline && now >= session->deadline);
        const int error = ns_watch_look(session->watch, now, &next);
        session->error = session->error ? session->error : error;
        do_due(session, now);
        show_progress(session, now);
        /* The end of a process that is not our child is only noticed by asking. */
        if (next > now + SECOND / 5)
            next = now + SECOND / 5;
        if (session->deadline && next > session->deadline)
            next = session->deadline;
        if (!over)
            ns_child_wait(next);
    }
    if (session->next_progress)
        ns_print(stderr, "\r\033[K");
}

/* The program has ended but may have left processes in the background. */
static void note_left(struct session *session)
{
    struct ns_diagnosis *diagnosis = session->diagnosis;
    unsigned n = 0;
    pid_t left = 0, pid;
    if (!session->child || !session->child->ended)
        return;
    for (size_t i = 0; (pid = ns_watch_process(session->watch, i)); i++)
        if (pid != session->child->pid && !ns_proc_is_gone(pid)) {
            left = pid;
            n++;
        }
    if (n)
        NS_NOTE(
            diagnosis,
            "the program has ended, but %s that it started %s still running; 'nagleshim diagnose "
            "--pid %d' examines %s",
            ns_count(n, "process"), n == 1 ? "is" : "are", left, n == 1 ? "it" : "one of them");
}

static void take_tally(struct session *session)
{
    struct ns_diagnosis *diagnosis = session->diagnosis;
    struct ns_watch_tally tally;
    ns_watch_tally(session->watch, &tally);
    diagnosis->looks = tally.looks;
    diagnosis->missed = tally.missed;
    diagnosis->forgotten += tally.forgotten;
    diagnosis->idle += tally.idle;
    if (tally.missed > tally.rounds / 20)
        NS_NOTE(diagnosis,
                "%" PRIu64 " of %" PRIu64
                " samples from outside were late: holds may have been missed",
                tally.missed, tally.rounds);
    if (session->error)
        NS_NOTE(diagnosis,
                "TCP sockets could not be listed at some time, and some may be missing: %s",
                strerror(-session->error));
    if (diagnosis->forgotten)
        NS_NOTE(diagnosis, "at least %s %s not sampled: too short, or too many",
                ns_count(diagnosis->forgotten, "connection"),
                diagnosis->forgotten == 1 ? "was" : "were");
    if (diagnosis->denied)
        NS_NOTE(diagnosis, "%s", ns_watch_refused(diagnosis->denied, tally.refused, tally.refusal));
    if (diagnosis->n_stuck)
        NS_NOTE(diagnosis, "%s",
                ns_watch_refused(diagnosis->n_stuck, diagnosis->stuck, -ETIMEDOUT));
}

int ns_diagnose_watch(struct ns_child *child, struct ns_diagnosis *diagnosis)
{
    struct session session = {.child = child, .diagnosis = diagnosis};
    /* ns_watch_open takes the first samples, which may take a while. */
    diagnosis->began = (double)ns_clock_now(CLOCK_REALTIME) / 1e9;
    diagnosis->begin = ns_clock_now(CLOCK_MONOTONIC);
    const pid_t of_child[] = {child ? child->pid : 0, 0};
    const pid_t *pids = child ? of_child : ns_option_pids();
    int error = ns_watch_open(&pids, take_hold, &session, &session.watch);
    if (error)
        return ns_process_say_error(*pids, error);
    if (ns_option_text(NS_DIAGNOSE_FOR))
        session.deadline = ns_clock_now(CLOCK_MONOTONIC) +
                           (uint64_t)(ns_option_number(NS_DIAGNOSE_FOR, 0) * (double)SECOND);
    error = child ? ns_child_release(child) : 0;
    if (!error)
        watch(&session);
    diagnosis->end = ns_clock_now(CLOCK_MONOTONIC);
    session.final = true;
    session.queued = 0;
    take_queued(&session, UINT64_MAX);
    ns_watch_each(session.watch, harvest, &session);
    take_tally(&session);
    note_left(&session);
    ns_watch_close(session.watch);
    return error ? ns_program_say_failure(ns_operands.words[0], -error) : 0;
}
