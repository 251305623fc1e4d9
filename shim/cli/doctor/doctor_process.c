/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim doctor --pid` prints about a process. process_report.h judges it. Not
 * async-signal-safe. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/doctor/process_report.h"
#include "cli/output.h"
#include "cli/process/preload.h"
#include "cli/process/reach.h"

#include "policy/find.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SAY(...) ns_say("doctor", __VA_ARGS__)
#define FACT(...) ns_output_fact("facts", __VA_ARGS__)

static int say_denied(const struct ns_proc *proc)
{
    SAY("permission denied: process %d runs as user %u; %s", proc->process, proc->user,
        geteuid() == 0 ? "this command lacks CAP_SYS_PTRACE, or a security module protects the "
                         "process"
                       : "run doctor as root");
    return NS_EXIT_DENIED;
}

static int say_failed(const struct ns_proc *proc, int error)
{
    if (error == -ESRCH || error == -ENOENT)
        SAY("process %d ended during the examination", proc->process);
    else
        SAY("cannot read process %d: %s", proc->process, strerror(-error));
    return NS_EXIT_ERROR;
}

static void print_process(const struct ns_proc *proc, pid_t asked)
{
    char exe[PATH_MAX], thread[64] = "";

    snprintf(exe, sizeof exe, "%s", proc->exe[0] ? proc->exe : proc->name);
    if (asked != proc->process)
        snprintf(thread, sizeof thread, " (%d is one of its threads)", asked);
    FACT("process", "%d, %s%s", proc->process, ns_sanitize(exe), thread);
    if (proc->seccomp)
        FACT("seccomp", "%s",
             proc->seccomp == 1 ? "strict mode"
                                : "a filter is active, which must allow setsockopt");
}

static void print_library(const struct ns_process_report *report)
{
    const struct ns_loaded *loaded = &report->loaded;
    const char *list = ns_proc_getenv(&report->proc, "LD_PRELOAD");
    char entry[PATH_MAX];

    FACT("library", "%s%s%s%s", loaded->path, loaded->library[0] ? ", version " : "",
         loaded->library,
         loaded->deleted ? " (its file was replaced or removed; the process keeps the old one)"
                         : "");
    if (!list || !ns_preload_find(list, entry))
        FACT("LD_PRELOAD", "did not name it when the process was started (/etc/ld.so.preload may)");
}

static void print_loader(const struct ns_process_report *report)
{
    const char *loader = report->elf.interpreter, *libc = ns_reach_libc(loader);

    if (loader[0])
        FACT("loader", "%s%s%s%s", loader, libc ? " (" : "", libc ? libc : "", libc ? ")" : "");
}

static void print_rules(const struct ns_process_report *report)
{
    for (unsigned i = 0; i < report->n_rules; i++) {
        const struct ns_process_report_rule *rule = &report->rules[i];
        const char *send = ns_send_name(rule->send), *ack = ns_ack_name(rule->ack);
        const char *quote = rule->name[0] ? "\"" : "";
        char title[160];

        snprintf(title, sizeof title, "rule %u%s%s%s%s", rule->number, rule->name[0] ? " " : "",
                 quote, rule->name, quote);
        FACT(title, "send %s, ack %s; used for %" PRIu32 " socket%s", send ? send : "unknown",
             ack ? ack : "unknown", rule->sockets, rule->sockets == 1 ? "" : "s");
    }
}

static void print_counters(const struct ns_process_report *report)
{
    char line[1024]; /* a counter is one or two words and at most 20 digits */
    size_t used = 0;

    if (!report->has_stats)
        return;
#define NS_COUNTER(name, text)                                                                     \
    used += (size_t)snprintf(line + used, sizeof line - used, "%s%s %" PRIu64, used ? ", " : "",   \
                             text, report->stats.name);
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
    FACT("so far", "%s", line);
}

static void print_policy(const struct ns_process_report *report)
{
    const struct ns_status *status = &report->loaded.status;
    char rules[32] = "";

    if (!report->has_policy)
        return;
    if (status->origin != NS_POLICY_BUILTIN && status->n_rules > 0)
        snprintf(rules, sizeof rules, ", %" PRIu32 " rule%s", status->n_rules,
                 status->n_rules == 1 ? "" : "s");
    FACT("policy", "%s%s",
         status->origin == NS_POLICY_BUILTIN  ? "built in"
         : status->origin == NS_POLICY_INLINE ? "the text in NAGLESHIM_POLICY"
                                              : report->policy,
         rules);
}

/* The library is there, and its status was read. */
static void print_loaded(const struct ns_process_report *report)
{
    print_policy(report);
    if (report->loaded.status.state != NS_STATUS_ACTIVE)
        return;
    print_rules(report);
    print_counters(report);
    if (report->has_sockets)
        FACT("TCP sockets that are connected or listening", "%u", report->sockets);
}

/* The library is there, but its status is unknown. */
static int say_unreadable(const struct ns_process_report *report)
{
    int error = report->loaded.error;

    if (error == -ESRCH || error == -ENOENT)
        return say_failed(&report->proc, error);
    SAY("process %d: %s", report->proc.process, report->findings.list[report->findings.n - 1].text);
    return error == -EPERM || error == -EACCES ? NS_EXIT_DENIED : NS_EXIT_ERROR;
}

static int conclude(const struct ns_process_report *report)
{
    bool works = !ns_findings_first_reason(&report->findings);

    ns_findings_print(&report->findings);
    if (report->state == NS_PROCESS_REPORT_STARTING) {
        ns_findings_conclude("unknown",
                             "process %d has not finished starting; if this verdict stays, it "
                             "hangs in code that runs before main",
                             report->proc.process);
        return NS_EXIT_ERROR;
    }
    ns_findings_conclude(works ? "yes" : "no", "the shim %s in process %d",
                         works ? "works" : "does not work", report->proc.process);
    return works ? NS_EXIT_YES : NS_EXIT_NO;
}

/* The process is there: print what was found. */
static int print(struct ns_process_report *report, pid_t asked)
{
    print_process(&report->proc, asked);
    if (report->state == NS_PROCESS_REPORT_DENIED)
        return say_denied(&report->proc);
    if (report->state == NS_PROCESS_REPORT_FAILED)
        return say_failed(&report->proc, report->error);
    if (report->state == NS_PROCESS_REPORT_KERNEL) {
        ns_findings_add(&report->findings, NS_FINDING_KERNEL,
                        "it is a kernel thread, which runs no program");
        return conclude(report);
    }
    if (report->loaded.state != NS_LOADED_NO)
        print_library(report);
    if (report->state == NS_PROCESS_REPORT_UNREADABLE)
        return say_unreadable(report);
    if (report->loaded.state == NS_LOADED_NO)
        print_loader(report);
    else if (report->state == NS_PROCESS_REPORT_JUDGED)
        print_loaded(report);
    return conclude(report);
}

int ns_doctor_process(pid_t pid)
{
    static struct ns_process_report report;
    struct ns_sockets sockets = {0};
    int status = NS_EXIT_ERROR;

    ns_process_report_examine(&report, pid, true, &sockets);
    switch (report.state) {
    case NS_PROCESS_REPORT_NONE:
        SAY(access("/proc/self", F_OK) == 0 ? "there is no process %d"
                                            : "cannot read process %d: /proc is not mounted",
            pid);
        break;
    case NS_PROCESS_REPORT_HIDDEN:
        SAY("permission denied: process %d is hidden from this user; run doctor as root", pid);
        status = NS_EXIT_DENIED;
        break;
    case NS_PROCESS_REPORT_ENDED:
        say_failed(&report.proc, -ESRCH);
        break;
    case NS_PROCESS_REPORT_ZOMBIE:
        SAY("process %d (%s) has ended and is a zombie: its parent has not waited for it",
            report.proc.process, report.proc.name);
        break;
    default:
        status = print(&report, pid);
    }
    ns_process_report_end(&report);
    ns_proc_sockets_end(&sockets);
    return status;
}
