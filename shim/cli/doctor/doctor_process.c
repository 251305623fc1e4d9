/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim doctor --pid` prints of a process. It must not judge: process_report.h does.
 * Not async-signal-safe. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/process/preload.h"
#include "cli/process/reach.h"

#include "policy/find.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FACT(...) ns_output_fact("facts", __VA_ARGS__)

enum { START_MS = 2000 }; /* how long a program that is being loaded is waited for */

static int say_denied(const struct ns_proc *proc)
{
    if (geteuid() == 0)
        ns_say(
            "doctor",
            "permission denied: looking into process %d takes CAP_SYS_PTRACE, which this command "
            "lacks, or a security module protects it",
            proc->process);
    else if (proc->user != geteuid())
        ns_say("doctor",
               "permission denied: process %d runs as user %u; ask as that user, or as root",
               proc->process, proc->user);
    else
        ns_say("doctor",
               "permission denied: process %d does not let others look into it, even of its own "
               "user; ask as root",
               proc->process);
    return NS_EXIT_DENIED;
}

static int say_gone(pid_t pid)
{
    ns_say("doctor", "process %d ended while it was looked at", pid);
    return NS_EXIT_ERROR;
}

static int say_error(const struct ns_proc *proc, int error)
{
    ns_say("doctor", "cannot look into process %d: %s", proc->process, strerror(-error));
    return NS_EXIT_ERROR;
}

static void print_process(const struct ns_proc *proc, pid_t asked)
{
    char exe[PATH_MAX], thread[64] = "";

    snprintf(exe, sizeof(exe), "%s", proc->exe[0] ? proc->exe : proc->name);
    if (asked != proc->process)
        snprintf(thread, sizeof(thread), " (%d is one of its threads)", asked);
    FACT("process", "%d, %s%s", proc->process, ns_sanitize(exe), thread);
    if (proc->seccomp)
        FACT("seccomp", "%s",
             proc->seccomp == 1 ? "strict mode" : "a filter is in force; it must allow setsockopt");
}

static void print_library(const struct ns_process_report *patient)
{
    const struct ns_loaded *loaded = &patient->loaded;
    const char *list = ns_proc_getenv(&patient->proc, "LD_PRELOAD");
    char entry[PATH_MAX];

    FACT("library", "%s%s%s%s", loaded->path, loaded->library[0] ? ", version " : "",
         loaded->library,
         loaded->deleted ? " (its file was replaced or removed; the process keeps the old one)"
                         : "");
    if (!list || !ns_preload_find(list, entry))
        FACT("LD_PRELOAD", "did not name it when the process was started (/etc/ld.so.preload may)");
}

static void print_loader(const struct ns_process_report *patient)
{
    const char *loader = patient->elf.interpreter, *libc = ns_reach_libc(loader);

    if (loader[0])
        FACT("loader", "%s%s%s%s", loader, libc ? " (" : "", libc ? libc : "", libc ? ")" : "");
}

static void print_rules(const struct ns_process_report *patient)
{
    for (unsigned i = 0; i < patient->n_rules; i++) {
        const struct ns_process_report_rule *rule = &patient->rules[i];
        const char *send = ns_send_name(rule->send), *ack = ns_ack_name(rule->ack);
        const char *quote = rule->name[0] ? "\"" : "";
        char title[160];

        snprintf(title, sizeof(title), "rule %u%s%s%s%s", rule->number, rule->name[0] ? " " : "",
                 quote, rule->name, quote);
        FACT(title, "send %s, ack %s; it took %" PRIu32 " socket%s", send ? send : "unknown",
             ack ? ack : "unknown", rule->sockets, rule->sockets == 1 ? "" : "s");
    }
}

static void print_counters(const struct ns_process_report *patient)
{
    char line[1024]; /* a counter is one or two words and 20 digits at most */
    size_t used = 0;

    if (!patient->has_stats)
        return;
#define NS_COUNTER(name, text)                                                                     \
    used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s %" PRIu64, used ? ", " : "",  \
                             text, patient->stats.name);
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
    FACT("so far", "%s", line);
}

static const char *result_of(int error)
{
    return error == 0         ? "would be taken"
           : error == -ENOENT ? "not there"
           : error == -EINVAL ? "invalid"
                              : ns_policy_error_reason(error);
}

static void print_policy(const struct ns_process_report *patient)
{
    const struct ns_status *status = &patient->loaded.status;
    char rules[32] = "";

    if (!patient->has_policy)
        return;
    if (status->origin != NS_POLICY_BUILTIN && status->n_rules > 0)
        snprintf(rules, sizeof(rules), ", %" PRIu32 " rule%s", status->n_rules,
                 status->n_rules == 1 ? "" : "s");
    FACT("policy", "%s%s",
         status->origin == NS_POLICY_BUILTIN  ? "built in"
         : status->origin == NS_POLICY_INLINE ? "the text in NAGLESHIM_POLICY"
                                              : patient->policy,
         rules);
    for (unsigned i = 0; i < patient->n_tried; i++) {
        const struct ns_process_report_tried *tried = &patient->tried[i];
        cJSON *entry = ns_output_entry("tried");

        ns_output_text(entry, "path", tried->path);
        ns_output_text(entry, "result", result_of(tried->error));
        ns_output_line("tried now: %s: %s", tried->path, result_of(tried->error));
    }
}

/* The library is there, and its status was read. */
static void print_loaded(const struct ns_process_report *patient)
{
    print_policy(patient);
    if (patient->loaded.status.state != NS_STATUS_ACTIVE)
        return;
    print_rules(patient);
    print_counters(patient);
    if (patient->has_sockets)
        FACT("TCP sockets that are connected or listen now", "%u", patient->sockets);
}

/* The library is there, and nothing can be said of what it does. */
static int say_unreadable(const struct ns_process_report *patient)
{
    const struct ns_loaded *loaded = &patient->loaded;
    int error = loaded->error;

    if (loaded->state == NS_LOADED_VERSION) {
        ns_say("doctor",
               "the shim in process %d keeps its status in a form that this command does not know: "
               "use the command of version %s",
               patient->proc.process,
               loaded->library[0] ? loaded->library : "the shim, if it has a doctor");
    } else if (loaded->state == NS_LOADED_BROKEN) {
        ns_say("doctor",
               "the shim in process %d keeps no status where it should be: something has "
               "overwritten its memory",
               patient->proc.process);
    } else if (error == -EPERM || error == -EACCES) {
        ns_say("doctor",
               "permission denied: the shim is in process %d, and reading its memory takes "
               "CAP_SYS_PTRACE here (see kernel.yama.ptrace_scope)",
               patient->proc.process);
        return NS_EXIT_DENIED;
    } else {
        return error == -ESRCH ? say_gone(patient->proc.process) : say_error(&patient->proc, error);
    }
    return NS_EXIT_ERROR;
}

static int conclude(const struct ns_process_report *patient)
{
    bool works = !ns_findings_have_reason(&patient->findings);

    ns_findings_print(&patient->findings);
    ns_findings_conclude(works ? "yes" : "no", "the shim %s in process %d",
                         works ? "works" : "does not work", patient->proc.process);
    return works ? NS_EXIT_YES : NS_EXIT_NO;
}

/* A process that has not come to main is not blamed. */
static int conclude_later(const struct ns_process_report *patient)
{
    ns_findings_print(&patient->findings);
    ns_findings_conclude("unknown",
                         "process %d has not finished starting: ask again in a moment; if that "
                         "stays so, it hangs in what runs before main",
                         patient->proc.process);
    return NS_EXIT_ERROR;
}

/* Nothing was found out but that there is nothing to look at. */
static int say_missing(const struct ns_process_report *patient, pid_t pid)
{
    if (patient->state == NS_PROCESS_REPORT_NONE) {
        ns_say("doctor",
               access("/proc/self", F_OK) == 0
                   ? "there is no process %d"
                   : "/proc is not mounted: process %d cannot be looked at",
               pid);
        return NS_EXIT_ERROR;
    }
    if (patient->state == NS_PROCESS_REPORT_ENDED)
        return say_gone(patient->proc.process);
    if (patient->state == NS_PROCESS_REPORT_ZOMBIE) {
        ns_say("doctor", "process %d (%s) has ended, and waits for its parent (a zombie)",
               patient->proc.process, patient->proc.name);
        return NS_EXIT_ERROR;
    }
    ns_say("doctor", "permission denied: process %d is hidden from this user; ask as root", pid);
    return NS_EXIT_DENIED;
}

static int report(struct ns_process_report *patient, pid_t asked)
{
    print_process(&patient->proc, asked);
    if (patient->state == NS_PROCESS_REPORT_DENIED)
        return say_denied(&patient->proc);
    if (patient->state == NS_PROCESS_REPORT_FAILED)
        return say_error(&patient->proc, patient->error);
    if (patient->state == NS_PROCESS_REPORT_KERNEL) {
        ns_findings_add(&patient->findings, NS_FINDING_KERNEL,
                        "it is a thread of the kernel, and runs no program");
        return conclude(patient);
    }
    if (patient->loaded.state != NS_LOADED_NO)
        print_library(patient);
    if (patient->state == NS_PROCESS_REPORT_STARTING)
        return conclude_later(patient);
    if (patient->state == NS_PROCESS_REPORT_UNREADABLE)
        return say_unreadable(patient);
    if (patient->loaded.state == NS_LOADED_NO)
        print_loader(patient);
    else
        print_loaded(patient);
    return conclude(patient);
}

int ns_doctor_process(pid_t pid)
{
    static struct ns_process_report patient;
    struct ns_sockets sockets = {0};
    int status;

    ns_process_report_examine(&patient, pid, START_MS, &sockets);
    switch (patient.state) {
    case NS_PROCESS_REPORT_NONE:
    case NS_PROCESS_REPORT_HIDDEN:
    case NS_PROCESS_REPORT_ENDED:
    case NS_PROCESS_REPORT_ZOMBIE:
        status = say_missing(&patient, pid);
        break;
    default:
        status = report(&patient, pid);
    }
    ns_process_report_end(&patient);
    ns_proc_sockets_end(&sockets);
    return status;
}
