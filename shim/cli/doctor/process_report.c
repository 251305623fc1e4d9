/* SPDX-License-Identifier: MIT */
/* Owns the examination of a running process. It only reads, prints nothing, and trusts nothing that
 * it reads: the process may be anybody's. Not async-signal-safe. */
#include "cli/doctor/process_report.h"

#include "cli/cli.h"
#include "cli/process/reach.h"

#include "base/clock.h"
#include "policy/find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void inspect_program(struct ns_process_report *report)
{
    int fd = openat(report->proc.dir, "exe", O_RDONLY | O_CLOEXEC);

    report->has_elf = fd >= 0 && ns_elf_inspect(fd, &report->elf) == 0;
    if (!report->has_elf)
        report->elf = (struct ns_elf){0};
    if (fd >= 0)
        close(fd);
    ns_sanitize(report->elf.interpreter);
}

static void take_rule(void *context, unsigned number, const struct ns_status_rule *rule)
{
    struct ns_process_report *report = context;
    struct ns_process_report_rule *taken = &report->rules[report->n_rules++];

    *taken = (struct ns_process_report_rule){
        .number = number,
        .send = (enum ns_send)rule->send,
        .ack = (enum ns_ack)rule->ack,
        .sockets = rule->sockets,
    };
    if (rule->name)
        ns_proc_text(&report->proc, rule->name, taken->name, sizeof taken->name);
}

static void read_rules(struct ns_process_report *report)
{
    const struct ns_status *status = &report->loaded.status;
    unsigned most = status->n_rules < NS_LOADED_RULES_MOST ? status->n_rules : NS_LOADED_RULES_MOST;

    report->rules = calloc(most ? most : 1, sizeof *report->rules);
    if (report->rules && ns_loaded_each_rule(&report->proc, status, take_rule, report) != 0)
        ns_findings_add(&report->findings, NS_FINDING_UNREAD, "its rules cannot be read");
}

static void read_stats(struct ns_process_report *report)
{
    const struct ns_status *status = &report->loaded.status;

    report->has_stats =
        status->n_counters >= sizeof report->stats / sizeof(uint64_t) &&
        ns_proc_memory(&report->proc, status->counters, &report->stats, sizeof report->stats) == 0;
    if (!report->has_stats)
        report->stats = (struct ns_stats){0};
}

/* An edited policy takes effect at the next start, which is easily forgotten. */
static void judge_age(struct ns_process_report *report)
{
    const struct ns_status *status = &report->loaded.status;
    struct stat st;

    if (status->origin != NS_POLICY_NAMED && status->origin != NS_POLICY_IN_DIRECTORY)
        return;
    int fd = ns_proc_find_file(&report->proc, report->policy);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && ns_proc_changed(&st) > (double)status->looked / 1e9)
        ns_findings_add(&report->findings, NS_FINDING_STALE,
                        "%s was changed after the process had read it: restart the process to use "
                        "the new version",
                        report->policy);
    close(fd);
}

static void read_policy(struct ns_process_report *report)
{
    const struct ns_status *status = &report->loaded.status;

    if (!status->policy)
        return;
    if (ns_proc_text(&report->proc, status->policy, report->policy, sizeof report->policy) != 0) {
        ns_findings_add(&report->findings, NS_FINDING_UNREAD,
                        "the name of its policy cannot be read");
        return;
    }
    report->has_policy = true;
    judge_age(report);
}

static void judge_state(struct ns_process_report *report)
{
    const struct ns_status *status = &report->loaded.status;
    char reason[NS_FINDING_SIZE - 32] = "";

    if (status->state == NS_STATUS_OFF)
        ns_findings_add(&report->findings, NS_FINDING_OFF,
                        "NAGLESHIM_OFF was set when it was started, which switches the shim off");
    if (status->state != NS_STATUS_DISABLED)
        return;
    if (!status->reason || ns_proc_text(&report->proc, status->reason, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "the reason is unknown");
    /* A message about a policy begins with its file. */
    size_t length = strlen(report->policy);
    bool is_broken =
        length > 0 && strncmp(reason, report->policy, length) == 0 && reason[length] == ':';
    ns_findings_add(&report->findings, is_broken ? NS_FINDING_BROKEN : NS_FINDING_DISABLED,
                    "the shim is disabled: %s", reason);
}

/* Does the shim see what the process does with its sockets? */
static void judge_sockets(struct ns_process_report *report)
{
    struct ns_findings *findings = &report->findings;
    const struct ns_elf *program = &report->elf;
    uint64_t seen = report->stats.sockets + report->stats.left_alone;

    if (program->is_bun)
        ns_findings_add(findings, NS_FINDING_BUN, "it %s", NS_REACH_BUN);
    if (!report->has_sockets)
        return;
    if (seen == 0 && program->is_go)
        ns_findings_add(findings, NS_FINDING_GO, "it %s", ns_reach_reason(NS_REACH_GO));
    else if (seen == 0 && program->is_pascal)
        ns_findings_add(findings, NS_FINDING_PASCAL, "it %s", ns_reach_reason(NS_REACH_PASCAL));
    else if (seen == 0 && report->sockets > 0)
        ns_findings_add(
            findings, NS_FINDING_UNSEEN,
            "the shim has seen none of its TCP sockets in use: the program has not used "
            "them yet, or does not use them through libc (see nagleshim(7))");
    if (report->loaded.copies > 1)
        ns_findings_add(findings, NS_FINDING_TWICE, "the shim is in its memory %u times",
                        report->loaded.copies);
}

/* The library is there, and its status was read. */
static void judge_loaded(struct ns_process_report *report)
{
    const struct ns_loaded *loaded = &report->loaded;

    if (strcmp(loaded->library, NS_VERSION) != 0)
        ns_findings_add(&report->findings, NS_FINDING_VERSION,
                        "the shim in it is version %s, and this command is " NS_VERSION,
                        loaded->library[0] ? loaded->library : "unknown");
    read_policy(report);
    if (loaded->status.state == NS_STATUS_ACTIVE) {
        read_rules(report);
        read_stats(report);
        judge_sockets(report);
    }
    judge_state(report);
}

/* The library is there, but its status is unknown. */
static void judge_unreadable(struct ns_process_report *report)
{
    const struct ns_loaded *loaded = &report->loaded;

    if (loaded->state == NS_LOADED_VERSION)
        ns_findings_add(&report->findings, NS_FINDING_VERSION,
                        "the status of its shim has a form that this command does not know; use "
                        "the command of version %s",
                        loaded->library[0] ? loaded->library : "the shim, if it has a doctor");
    else if (loaded->state == NS_LOADED_BROKEN)
        ns_findings_add(&report->findings, NS_FINDING_UNREAD,
                        "the status of its shim has been overwritten");
    else
        ns_findings_add(&report->findings, NS_FINDING_UNREAD,
                        "the status of its shim cannot be read: %s (see kernel.yama.ptrace_scope)",
                        strerror(-loaded->error));
}

static int look_once(struct ns_process_report *report)
{
    int error = ns_proc_look(&report->proc);

    if (!error)
        error = ns_loaded_find(&report->proc, &report->loaded);
    if (!error)
        inspect_program(report);
    return error;
}

/* A process that was just started may still be a copy of its parent, or be loading libraries. */
static int look(struct ns_process_report *report, bool wait)
{
    for (;;) {
        int error = look_once(report);
        bool may_change =
            report->loaded.state == NS_LOADED_NO || report->loaded.state == NS_LOADED_STARTING;
        double started = ns_proc_started(&report->proc);
        double age = (double)ns_clock_now(CLOCK_REALTIME) / 1e9 - started;

        if (error || !wait || !may_change || started == 0 || age >= 1)
            return error;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

static enum ns_process_report_state judge(struct ns_process_report *report,
                                          struct ns_sockets *sockets)
{
    const struct ns_loaded *loaded = &report->loaded;

    report->has_sockets = ns_proc_sockets(&report->proc, sockets, &report->sockets) == 0;
    if (loaded->state == NS_LOADED_NO) {
        if (loaded->denied)
            ns_findings_add(&report->findings, NS_FINDING_UNREAD,
                            "its memory cannot be read (see kernel.yama.ptrace_scope): the library "
                            "was searched for by its name");
        ns_process_report_judge_absent(report);
        return NS_PROCESS_REPORT_JUDGED;
    }
    if (loaded->state == NS_LOADED_STARTING)
        return NS_PROCESS_REPORT_STARTING;
    if (loaded->deleted)
        ns_findings_add(&report->findings, NS_FINDING_REPLACED,
                        "the library's file was replaced or removed after the process was started: "
                        "restart the process to use the new one");
    if (loaded->state != NS_LOADED_YES) {
        judge_unreadable(report);
        return NS_PROCESS_REPORT_UNREADABLE;
    }
    judge_loaded(report);
    return NS_PROCESS_REPORT_JUDGED;
}

static enum ns_process_report_state examine(struct ns_process_report *report, bool wait,
                                            struct ns_sockets *sockets)
{
    const struct ns_proc *proc = &report->proc;

    if (proc->state == 'Z' || proc->state == 'X')
        return NS_PROCESS_REPORT_ZOMBIE;
    if (proc->is_kernel_thread)
        return NS_PROCESS_REPORT_KERNEL;
    report->error = look(report, wait);
    if (report->error == -ESRCH || report->error == -ENOENT)
        return NS_PROCESS_REPORT_ENDED;
    if (report->error == -EACCES || report->error == -EPERM)
        return NS_PROCESS_REPORT_DENIED;
    if (report->error)
        return NS_PROCESS_REPORT_FAILED;
    enum ns_process_report_state state = judge(report, sockets);
    /* If it is ending, a part of what was read may be missing. */
    return ns_proc_is_gone(proc) ? NS_PROCESS_REPORT_ENDED : state;
}

void ns_process_report_examine(struct ns_process_report *report, pid_t pid, bool wait,
                               struct ns_sockets *sockets)
{
    *report = (struct ns_process_report){0};
    report->error = ns_proc_open(pid, &report->proc);
    if (!report->error && report->proc.process != pid) { /* a thread's number */
        pid = report->proc.process;
        ns_proc_close(&report->proc);
        report->error = ns_proc_open(pid, &report->proc);
    }
    if (report->error)
        report->state = report->error == -ESRCH ? NS_PROCESS_REPORT_NONE : NS_PROCESS_REPORT_HIDDEN;
    else
        report->state = examine(report, wait, sockets);
}

void ns_process_report_end(struct ns_process_report *report)
{
    ns_proc_close(&report->proc);
    free(report->rules);
    report->rules = NULL;
    report->n_rules = 0;
}
