/* SPDX-License-Identifier: MIT */
/* Owns the examination of a running process. It only reads, prints nothing, and takes nothing of
 * what it reads for granted: the process may be anybody's. Not async-signal-safe. */
#include "cli/process/process_report.h"

#include "cli/cli.h"

#include "cli/process/preload.h"
#include "cli/process/reach.h"

#include "policy/find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STEP_MS = 20 };

static void inspect_program(struct ns_process_report *patient)
{
    int fd = openat(patient->proc.dir, "exe", O_RDONLY | O_CLOEXEC);

    patient->has_elf = fd >= 0 && ns_elf_inspect(fd, &patient->elf) == 0;
    if (!patient->has_elf)
        patient->elf = (struct ns_elf){0};
    if (fd >= 0)
        close(fd);
    ns_sanitize(patient->elf.interpreter);
}

static void take_rule(void *context, unsigned number, const struct ns_status_rule *rule)
{
    struct ns_process_report *patient = context;
    struct ns_process_report_rule *taken = &patient->rules[patient->n_rules];

    *taken = (struct ns_process_report_rule){
        .number = number,
        .send = (enum ns_send)rule->send,
        .ack = (enum ns_ack)rule->ack,
        .sockets = rule->sockets,
    };
    if (rule->name)
        ns_proc_text(&patient->proc, rule->name, taken->name, sizeof(taken->name));
    patient->n_rules++;
}

static void read_rules(struct ns_process_report *patient)
{
    const struct ns_status *status = &patient->loaded.status;
    unsigned most = status->n_rules < NS_LOADED_RULES_MOST ? status->n_rules : NS_LOADED_RULES_MOST;

    patient->rules = calloc(most ? most : 1, sizeof(*patient->rules));
    if (patient->rules && ns_loaded_each_rule(&patient->proc, status, take_rule, patient) != 0)
        ns_findings_add(&patient->findings, NS_FINDING_UNREAD, "its rules cannot be read");
}

static void read_stats(struct ns_process_report *patient)
{
    const struct ns_status *status = &patient->loaded.status;

    patient->has_stats = status->n_counters >= sizeof(patient->stats) / sizeof(uint64_t) &&
                         ns_proc_memory(&patient->proc, status->counters, &patient->stats,
                                        sizeof(patient->stats)) == 0;
    if (!patient->has_stats)
        patient->stats = (struct ns_stats){0};
}

static void read_policy(struct ns_process_report *patient)
{
    const struct ns_status *status = &patient->loaded.status;

    if (!status->policy)
        return;
    if (ns_proc_text(&patient->proc, status->policy, patient->policy, sizeof(patient->policy)) !=
        0) {
        ns_findings_add(&patient->findings, NS_FINDING_UNREAD,
                        "the name of its policy cannot be read");
        return;
    }
    patient->has_policy = true;
    ns_process_report_judge_policy(patient);
}

/* Does it stand aside because its policy is broken? It names the file first then. */
static bool is_broken_policy(const struct ns_process_report *patient, const char *reason)
{
    size_t length = strlen(patient->policy);

    return length > 0 && strncmp(reason, patient->policy, length) == 0 && reason[length] == ':';
}

static void judge_state(struct ns_process_report *patient)
{
    const struct ns_status *status = &patient->loaded.status;
    char reason[NS_FINDING_SIZE - 32] = "";

    if (status->state == NS_STATUS_OFF)
        ns_findings_add(&patient->findings, NS_FINDING_OFF,
                        "NAGLESHIM_OFF was set when it was started, which switches the shim off");
    if (status->state != NS_STATUS_ASIDE)
        return;
    if (!status->reason ||
        ns_proc_text(&patient->proc, status->reason, reason, sizeof(reason)) != 0)
        snprintf(reason, sizeof(reason), "it does not say why");
    ns_findings_add(&patient->findings,
                    is_broken_policy(patient, reason) ? NS_FINDING_BROKEN : NS_FINDING_ASIDE,
                    "the shim stands aside: %s", reason);
}

/* Is the shim asked for what the process does with its sockets? */
static void judge_sockets(struct ns_process_report *patient)
{
    struct ns_findings *findings = &patient->findings;
    const struct ns_elf *program = &patient->elf;
    uint64_t seen = patient->stats.sockets + patient->stats.left_alone;

    if (program->is_bun)
        ns_findings_add(findings, NS_FINDING_BUN, "it %s", NS_REACH_BUN);
    if (!patient->has_sockets)
        return;
    if (seen == 0 && program->is_go)
        ns_findings_add(findings, NS_FINDING_GO, "it %s", ns_reach_reason(NS_REACH_GO));
    else if (seen == 0 && program->is_pascal)
        ns_findings_add(findings, NS_FINDING_PASCAL, "it %s", ns_reach_reason(NS_REACH_PASCAL));
    else if (seen == 0 && patient->sockets > 0)
        ns_findings_add(findings, NS_FINDING_UNSEEN,
                        "the shim has seen none of its TCP sockets in use: the program has not "
                        "used them yet, makes its system calls without libc, or uses them in "
                        "code that was loaded with RTLD_DEEPBIND");
    if (patient->loaded.libcs > 1)
        ns_findings_add(findings, NS_FINDING_TWICE,
                        "libc is in its memory %u times (dlmopen): the shim is asked by the "
                        "code of one only",
                        patient->loaded.libcs);
    if (patient->loaded.copies > 1)
        ns_findings_add(findings, NS_FINDING_TWICE, "the shim is in its memory %u times",
                        patient->loaded.copies);
}

/* The library is there, and its status was read. */
static void judge_loaded(struct ns_process_report *patient)
{
    const struct ns_loaded *loaded = &patient->loaded;

    if (strcmp(loaded->library, NS_VERSION) != 0)
        ns_findings_add(&patient->findings, NS_FINDING_VERSION,
                        "the shim in it is version %s, and this command is " NS_VERSION,
                        loaded->library[0] ? loaded->library : "unknown");
    read_policy(patient);
    if (loaded->status.state == NS_STATUS_ACTIVE) {
        read_rules(patient);
        read_stats(patient);
        judge_sockets(patient);
    }
    judge_state(patient);
}

bool ns_process_report_wants_shim(const struct ns_process_report *patient)
{
    const char *list = ns_proc_getenv(&patient->proc, "LD_PRELOAD");
    char entry[PATH_MAX];

    return list && ns_preload_find(list, entry);
}

/* Started within the last second? It may still be a copy of its parent, or env(1) and its like,
 * before the execve that counts; and musl's loader is its libc, so that the maps do not tell
 * whether it has got to what it preloads. */
static bool is_young(const struct ns_proc *proc)
{
    double started = ns_proc_started(proc);
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return started > 0 && (double)now.tv_sec + (double)now.tv_nsec / 1e9 < started + 1;
}

/* Is it between execve and main? Before glibc's loader has mapped the libc it may not have got to
 * what it preloads. */
static bool is_starting(const struct ns_process_report *patient)
{
    const struct ns_loaded *loaded = &patient->loaded;

    if (loaded->state == NS_LOADED_STARTING)
        return true;
    return loaded->state == NS_LOADED_NO && !loaded->denied && patient->elf.has_interpreter &&
           (is_young(&patient->proc) ||
            (loaded->libcs == 0 && ns_process_report_wants_shim(patient)));
}

/* What it was started with and what is in its memory, once its start is over, or after that time.
 */
static int look(struct ns_process_report *patient, int patience_ms)
{
    const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};

    for (int waited = 0;; waited += STEP_MS) {
        int error = ns_proc_look(&patient->proc);

        if (!error)
            error = ns_loaded_find(&patient->proc, &patient->loaded);
        if (error)
            return error;
        inspect_program(patient);
        if (waited >= patience_ms || !is_starting(patient))
            return 0;
        nanosleep(&step, NULL);
    }
}

static enum ns_process_report_state state_of(int error)
{
    if (error == -ESRCH || error == -ENOENT)
        return NS_PROCESS_REPORT_ENDED;
    return error == -EACCES || error == -EPERM ? NS_PROCESS_REPORT_DENIED
                                               : NS_PROCESS_REPORT_FAILED;
}

/* What is in its memory is known: what follows from it? */
static enum ns_process_report_state judge(struct ns_process_report *patient,
                                          struct ns_sockets *sockets)
{
    const struct ns_loaded *loaded = &patient->loaded;

    patient->has_sockets = ns_proc_sockets(&patient->proc, sockets, &patient->sockets) == 0;
    if (is_starting(patient))
        return NS_PROCESS_REPORT_STARTING;
    if (loaded->state != NS_LOADED_NO && loaded->deleted)
        ns_findings_add(&patient->findings, NS_FINDING_REPLACED,
                        "the file of its library was replaced or removed since it was started: "
                        "start it again for a new one to take hold");
    if (loaded->state == NS_LOADED_YES) {
        judge_loaded(patient);
        return NS_PROCESS_REPORT_JUDGED;
    }
    if (loaded->state != NS_LOADED_NO)
        return NS_PROCESS_REPORT_UNREADABLE;
    if (loaded->denied)
        ns_findings_add(&patient->findings, NS_FINDING_UNREAD,
                        "its memory cannot be read (see kernel.yama.ptrace_scope): the shim "
                        "was looked for by its name");
    ns_process_report_judge_absent(patient);
    return NS_PROCESS_REPORT_JUDGED;
}

static enum ns_process_report_state examine(struct ns_process_report *patient, int patience_ms,
                                            struct ns_sockets *sockets)
{
    const struct ns_proc *proc = &patient->proc;
    enum ns_process_report_state state;

    if (proc->state == 'Z' || proc->state == 'X')
        return NS_PROCESS_REPORT_ZOMBIE;
    if (proc->is_kernel_thread)
        return NS_PROCESS_REPORT_KERNEL;
    patient->error = look(patient, patience_ms);
    if (patient->error)
        return state_of(patient->error);
    state = judge(patient, sockets);
    /* Half of what was read may be of a process that was ending. */
    return ns_proc_is_gone(proc) ? NS_PROCESS_REPORT_ENDED : state;
}

/* Whichever thread's number was asked for: the process, by its main thread, or by one that lives if
 * that has ended. */
static int open_process(pid_t pid, struct ns_proc *proc)
{
    int error = ns_proc_open(pid, proc);
    pid_t other = 0;

    if (!error && proc->process != pid)
        other = proc->process;
    else if (!error && proc->state == 'Z')
        other = ns_proc_other_thread(proc);
    if (!other)
        return error;
    ns_proc_close(proc);
    error = ns_proc_open(other, proc);
    if (error || proc->state != 'Z')
        return error;
    ns_proc_close(proc);
    return ns_proc_open(pid, proc);
}

void ns_process_report_examine(struct ns_process_report *patient, pid_t pid, int patience_ms,
                               struct ns_sockets *sockets)
{
    *patient = (struct ns_process_report){0};
    patient->error = open_process(pid, &patient->proc);
    if (patient->error)
        patient->state =
            patient->error == -ESRCH ? NS_PROCESS_REPORT_NONE : NS_PROCESS_REPORT_HIDDEN;
    else
        patient->state = examine(patient, patience_ms, sockets);
}

void ns_process_report_end(struct ns_process_report *patient)
{
    ns_proc_close(&patient->proc);
    for (unsigned i = 0; i < patient->n_tried; i++)
        free(patient->tried[i].path);
    free(patient->tried);
    free(patient->rules);
    patient->tried = NULL;
    patient->rules = NULL;
    patient->n_tried = patient->n_rules = 0;
}
