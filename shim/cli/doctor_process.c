/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim doctor --pid` says of a process that runs. It only reads, and takes nothing
 * of what it reads for granted: the process may be anybody's. Not async-signal-safe. */
#include "cli/doctor.h"

#include "cli/cli.h"
#include "cli/loaded.h"
#include "cli/reach.h"
#include "cli/output.h"
#include "cli/preload.h"

#include "base/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FACT(...) ns_output_fact("facts", __VA_ARGS__)

enum {
    RULES_MOST = 1000, /* more than anybody reads */
    START_MS = 2000,   /* how long a program that is being loaded is waited for */
    STEP_MS = 20,
};

struct patient {
    struct ns_proc proc;
    struct ns_loaded loaded;
    struct ns_findings findings;
    uint64_t seen; /* TCP sockets that the shim has come across */
};

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
    if (error == -ESRCH || error == -ENOENT)
        return say_gone(proc->process);
    if (error == -EACCES || error == -EPERM)
        return say_denied(proc);
    ns_say("doctor", "cannot look into process %d: %s", proc->process, strerror(-error));
    return NS_EXIT_ERROR;
}

static void print_process(const struct ns_proc *proc, pid_t asked)
{
    char exe[PATH_MAX], thread[64] = "";

    snprintf(exe, sizeof(exe), "%s", proc->exe[0] ? proc->exe : proc->name);
    if (asked != proc->process)
        snprintf(thread, sizeof(thread), " (%d is one of its threads)", asked);
    FACT("process", "%d, %s%s", proc->process, ns_proc_tame(exe), thread);
    if (proc->seccomp)
        FACT("seccomp", "%s",
             proc->seccomp == 1 ? "strict mode" : "a filter is in force; it must allow setsockopt");
}

static void print_library(const struct patient *patient)
{
    const struct ns_loaded *loaded = &patient->loaded;
    const char *list = ns_proc_getenv(&patient->proc, "LD_PRELOAD");
    char entry[PATH_MAX];

    if (loaded->state == NS_LOADED_NO)
        return;
    FACT("library", "%s%s%s%s", loaded->path, loaded->library[0] ? ", version " : "",
         loaded->library,
         loaded->deleted ? " (its file was replaced or removed; the process keeps the old one)"
                         : "");
    if (!list || !ns_preload_find(list, entry))
        FACT("LD_PRELOAD", "did not name it when the process was started (/etc/ld.so.preload may)");
}

static void print_rule(const struct patient *patient, unsigned number,
                       const struct ns_status_rule *rule)
{
    const char *send = ns_send_name((enum ns_send)rule->send);
    const char *ack = ns_ack_name((enum ns_ack)rule->ack);
    char name[128] = "", title[160];

    if (!rule->applies)
        return;
    if (rule->name)
        ns_proc_text(&patient->proc, rule->name, name, sizeof(name));
    snprintf(title, sizeof(title), "rule %u%s%s%s", number, name[0] ? " \"" : "", name,
             name[0] ? "\"" : "");
    FACT(title, "send %s, ack %s; it took %" PRIu32 " socket%s", send ? send : "unknown",
         ack ? ack : "unknown", rule->sockets, rule->sockets == 1 ? "" : "s");
}

static void print_rules(struct patient *patient)
{
    const struct ns_status *status = &patient->loaded.status;

    for (unsigned i = 0; i < status->n_rules && i < RULES_MOST; i++) {
        struct ns_status_rule rule;

        if (ns_proc_memory(&patient->proc, status->rules + i * sizeof(rule), &rule, sizeof(rule)) !=
            0) {
            ns_findings_warning(&patient->findings, "its rules cannot be read");
            return;
        }
        print_rule(patient, i + 1, &rule);
    }
}

static void print_counters(struct patient *patient)
{
    const struct ns_status *status = &patient->loaded.status;
    struct ns_stats stats;
    char line[1024]; /* a counter is one or two words and 20 digits at most */
    size_t used = 0;

    if (status->n_counters < sizeof(stats) / sizeof(uint64_t) ||
        ns_proc_memory(&patient->proc, status->counters, &stats, sizeof(stats)) != 0)
        return;
    patient->seen = stats.sockets + stats.left_alone;
#define NS_COUNTER(name, text)                                                                     \
    used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s %" PRIu64, used ? ", " : "",  \
                             text, stats.name);
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
    FACT("so far", "%s", line);
}

static void print_policy(struct patient *patient)
{
    const struct ns_status *status = &patient->loaded.status;
    char path[PATH_MAX] = "", rules[32] = "";

    if (!status->policy)
        return;
    if (ns_proc_text(&patient->proc, status->policy, path, sizeof(path)) != 0) {
        ns_findings_warning(&patient->findings, "the name of its policy cannot be read");
        return;
    }
    if (status->origin != NS_POLICY_BUILTIN && status->n_rules > 0)
        snprintf(rules, sizeof(rules), ", %" PRIu32 " rule%s", status->n_rules,
                 status->n_rules == 1 ? "" : "s");
    FACT("policy", "%s%s",
         status->origin == NS_POLICY_BUILTIN  ? "built in"
         : status->origin == NS_POLICY_INLINE ? "the text in NAGLESHIM_POLICY"
                                              : path,
         rules);
    ns_doctor_policy(&patient->proc, path, (double)status->looked / 1e9, status->n_rules > 0,
                     &patient->findings);
}

static void judge_state(struct patient *patient)
{
    const struct ns_status *status = &patient->loaded.status;
    char reason[NS_FINDING_SIZE - 32] = "";

    if (status->state == NS_STATUS_OFF)
        ns_findings_reason(
            &patient->findings,
            "NAGLESHIM_OFF was set when it was started, which switches the shim off");
    if (status->state != NS_STATUS_ASIDE)
        return;
    if (!status->reason ||
        ns_proc_text(&patient->proc, status->reason, reason, sizeof(reason)) != 0)
        snprintf(reason, sizeof(reason), "it does not say why");
    ns_findings_reason(&patient->findings, "the shim stands aside: %s", reason);
}

/* What kind of program it runs; all false where that cannot be read. */
static const struct ns_elf *program_of(const struct ns_proc *proc)
{
    static struct ns_elf elf;
    int fd = openat(proc->dir, "exe", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || ns_elf_inspect(fd, &elf) != 0)
        elf = (struct ns_elf){0};
    if (fd >= 0)
        close(fd);
    return &elf;
}

/* Is the shim asked for what the process does with its sockets? */
static void judge_sockets(struct patient *patient)
{
    struct ns_findings *findings = &patient->findings;
    const struct ns_elf *program = program_of(&patient->proc);
    unsigned open = 0;

    if (program->is_bun)
        ns_findings_warning(findings, "it %s", NS_REACH_BUN);
    if (ns_proc_sockets(&patient->proc, &open) != 0)
        return;
    FACT("TCP sockets that are connected or listen now", "%u", open);
    if (patient->seen == 0 && (program->is_go || program->is_pascal))
        ns_findings_reason(findings, "it %s",
                           ns_reach_reason(program->is_go ? NS_REACH_GO : NS_REACH_PASCAL));
    else if (patient->seen == 0 && open > 0)
        ns_findings_warning(findings,
                            "the shim has seen none of its TCP sockets in use: the program has not "
                            "used them yet, makes its system calls without libc, or uses them in "
                            "code that was loaded with RTLD_DEEPBIND");
    if (patient->loaded.libcs > 1)
        ns_findings_warning(findings,
                            "libc is in its memory %u times (dlmopen): the shim is asked by the "
                            "code of one only",
                            patient->loaded.libcs);
    if (patient->loaded.copies > 1)
        ns_findings_warning(findings, "the shim is in its memory %u times", patient->loaded.copies);
}

/* The library is there, and its status was read. */
static void judge_loaded(struct patient *patient)
{
    print_policy(patient);
    if (patient->loaded.status.state == NS_STATUS_ACTIVE) {
        print_rules(patient);
        print_counters(patient);
        judge_sockets(patient);
    }
    judge_state(patient);
}

/* The library is there, and nothing can be said of what it does. */
static int say_unreadable(const struct patient *patient)
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
        return say_error(&patient->proc, error);
    }
    return NS_EXIT_ERROR;
}

static int conclude(struct patient *patient)
{
    bool works = !ns_findings_have_reason(&patient->findings);

    ns_findings_print(&patient->findings);
    ns_findings_conclude(works ? "yes" : "no", "the shim %s in process %d",
                         works ? "works" : "does not work", patient->proc.process);
    return works ? NS_EXIT_YES : NS_EXIT_NO;
}

/* A process that has not come to main is not blamed. */
static int conclude_later(struct patient *patient)
{
    ns_findings_print(&patient->findings);
    ns_findings_conclude("unknown",
                         "process %d has not finished starting: ask again in a moment; if that "
                         "stays so, it hangs in what runs before main",
                         patient->proc.process);
    return NS_EXIT_ERROR;
}

static bool wants_shim(const struct ns_proc *proc)
{
    const char *list = ns_proc_getenv(proc, "LD_PRELOAD");
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
static bool is_starting(const struct patient *patient)
{
    const struct ns_loaded *loaded = &patient->loaded;
    bool wants = wants_shim(&patient->proc);

    if (loaded->state == NS_LOADED_STARTING)
        return true;
    return loaded->state == NS_LOADED_NO && !loaded->denied &&
           (is_young(&patient->proc) || (loaded->libcs == 0 && wants)) &&
           program_of(&patient->proc)->has_interpreter;
}

/* What it was started with and what is in its memory, once its start is over, or after START_MS. */
static int look(struct patient *patient)
{
    const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};
    int error = 0;

    for (int waited = 0; waited <= START_MS; waited += STEP_MS) {
        error = ns_proc_look(&patient->proc);
        if (!error)
            error = ns_loaded_find(&patient->proc, &patient->loaded);
        if (error || !is_starting(patient))
            break;
        nanosleep(&step, NULL);
    }
    return error;
}

static int examine(struct patient *patient, pid_t asked)
{
    struct ns_proc *proc = &patient->proc;
    int error = look(patient);

    print_process(proc, asked);
    if (error)
        return say_error(proc, error);
    print_library(patient);
    if (is_starting(patient))
        return ns_proc_is_gone(proc) ? say_gone(proc->process) : conclude_later(patient);
    switch (patient->loaded.state) {
    case NS_LOADED_NO:
        if (patient->loaded.denied)
            ns_findings_warning(
                &patient->findings,
                "its memory cannot be read (see kernel.yama.ptrace_scope): the shim "
                "was looked for by its name");
        ns_doctor_absent(proc, &patient->findings);
        break;
    case NS_LOADED_STARTING:
    case NS_LOADED_YES:
        judge_loaded(patient);
        break;
    case NS_LOADED_UNREADABLE:
    case NS_LOADED_BROKEN:
    case NS_LOADED_VERSION:
        return ns_proc_is_gone(proc) ? say_gone(proc->process) : say_unreadable(patient);
    }
    /* Half of what was read may be of a process that was ending. */
    return ns_proc_is_gone(proc) ? say_gone(proc->process) : conclude(patient);
}

static int examine_any(struct patient *patient, pid_t asked)
{
    const struct ns_proc *proc = &patient->proc;

    if (proc->state == 'Z' || proc->state == 'X') {
        ns_say("doctor", "process %d (%s) has ended, and waits for its parent (a zombie)",
               proc->process, proc->name);
        return NS_EXIT_ERROR;
    }
    if (proc->is_kernel_thread) {
        print_process(proc, asked);
        ns_findings_reason(&patient->findings, "it is a thread of the kernel, and runs no program");
        return conclude(patient);
    }
    return examine(patient, asked);
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

int ns_doctor_process(pid_t pid)
{
    static struct patient patient;
    int error = open_process(pid, &patient.proc);
    int status;

    if (error == -ESRCH) {
        ns_say("doctor",
               access("/proc/self", F_OK) == 0
                   ? "there is no process %d"
                   : "/proc is not mounted: process %d cannot be looked at",
               pid);
        return NS_EXIT_ERROR;
    }
    if (error) {
        ns_say("doctor", "permission denied: process %d is hidden from this user; ask as root",
               pid);
        return NS_EXIT_DENIED;
    }
    status = examine_any(&patient, pid);
    ns_proc_close(&patient.proc);
    return status;
}
