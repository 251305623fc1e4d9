/* SPDX-License-Identifier: MIT */
/* Owns the examination of a running process. It only reads, prints nothing, and trusts nothing that
 * it reads: the process may belong to any user. */
#include "cli/doctor/doctor.h"

#include "base/clock.h"
#include "cli/output.h"
#include "cli/program/program.h"
#include "policy/find.h"
#include "process/scope.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* The cause is a word of --json. */
#define ADD(kind, cause, ...)                                                                      \
    ns_findings_add(&examination->findings, NS_FINDING_##kind, cause, ns_words(__VA_ARGS__))

enum { RULES_MOST = 1000 }; /* further ones are not read */

bool ns_examine_rule(const struct ns_examination *examination, unsigned i,
                     struct ns_examined_rule *rule)
{
    const struct ns_status *status = &examination->loaded.status;
    struct ns_status_rule there;
    if (!examination->loaded.has_status || status->state != NS_STATUS_ACTIVE ||
        i >= status->n_rules || i >= RULES_MOST ||
        ns_proc_memory(&examination->proc, status->rules + i * sizeof there, &there,
                       sizeof there) != 0)
        return false;
    *rule = (struct ns_examined_rule){.applies = there.applies,
                                      .sockets = there.sockets,
                                      .send = ns_send_name((enum ns_send)there.send),
                                      .ack = ns_ack_name((enum ns_ack)there.ack)};
    if (there.name)
        ns_proc_text(&examination->proc, there.name, rule->name, sizeof rule->name);
    return true;
}

/* Was the open file changed after this time, in seconds of the clock that file times have? */
static bool is_newer(int fd, double seconds)
{
    struct stat st;
    return seconds > 0 && fstat(fd, &st) == 0 &&
           (double)st.st_ctim.tv_sec + (double)st.st_ctim.tv_nsec / 1e9 > seconds;
}

/* A policy that was edited takes effect at the next start, which is easily forgotten. */
static void judge_age(struct ns_examination *examination)
{
    const struct ns_status *status = &examination->loaded.status;
    if (status->origin != NS_POLICY_NAMED && status->origin != NS_POLICY_IN_DIRECTORY)
        return;
    NS_AUTO_CLOSE int fd = ns_proc_find_file(&examination->proc, examination->policy);
    if (is_newer(fd, (double)status->looked / 1e9))
        ADD(WARNING, "stale",
            "%s was changed after the process had read it: restart the process to use the new "
            "version",
            examination->policy);
}

static void read_policy(struct ns_examination *examination)
{
    const struct ns_status *status = &examination->loaded.status;
    if (status->origin == NS_POLICY_NO_DIRECTORY)
        ADD(WARNING, "no-directory", "NAGLESHIM_POLICY_DIR did not exist when it was started");
    if (!status->policy)
        return;
    examination->has_policy = ns_proc_text(&examination->proc, status->policy, examination->policy,
                                           sizeof examination->policy) == 0;
    if (examination->has_policy) {
        judge_age(examination);
    } else {
        examination->policy[0] = '\0';
        ADD(WARNING, "unread", "the name of its policy cannot be read");
    }
}

/* The library is disabled: why? */
static void judge_disabled(struct ns_examination *examination)
{
    const struct ns_status *status = &examination->loaded.status;
    size_t length = strlen(examination->policy);
    char reason[1024] = "";
    if (!status->reason ||
        ns_proc_text(&examination->proc, status->reason, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "the reason is unknown");
    /* A message about a policy begins with its file. */
    if (length > 0 && strncmp(reason, examination->policy, length) == 0 && reason[length] == ':')
        ADD(REASON, "policy", "the library is disabled: %s", reason);
    else
        ADD(REASON, "aside", "the library is disabled: %s", reason);
}

/* Does the library see what the process does with its sockets? */
static void judge_sockets(struct ns_examination *examination)
{
    const struct ns_loaded *loaded = &examination->loaded;
    struct ns_examined_rule rule;
    if (loaded->status.n_rules > 0 && !ns_examine_rule(examination, 0, &rule))
        ADD(WARNING, "unread", "its rules cannot be read");
    if (loaded->has_stats && loaded->stats.sockets + loaded->stats.left_alone > 0)
        return;
    if (examination->elf.is_go)
        ADD(REASON, "go", "it %s", ns_reach_reason(NS_REACH_GO));
    else if (examination->sockets > 0)
        ADD(UNKNOWN, "unseen",
            "the library is loaded, but has seen none of its TCP sockets in use: the program "
            "has not used them yet, or its calls do not go through libc (see nagleshim(7); "
            "'nagleshim cure --pid %d' reaches them)",
            examination->proc.process);
}

/* The library is there, and its status was read. */
static void judge_status(struct ns_examination *examination)
{
    const struct ns_loaded *loaded = &examination->loaded;
    if (strcmp(loaded->library, NS_VERSION) != 0)
        ADD(WARNING, "version", "the library in it is version %s, and this command is " NS_VERSION,
            loaded->library[0] ? loaded->library : "unknown");
    read_policy(examination);
    if (loaded->status.state == NS_STATUS_OFF)
        ADD(REASON, "off",
            "NAGLESHIM_OFF was set when it was started, which switches the library off");
    else if (loaded->status.state == NS_STATUS_DISABLED)
        judge_disabled(examination);
    else
        judge_sockets(examination);
}

/* Is something wrong with the program's file? */
static bool judge_program(struct ns_examination *examination)
{
    static const char *const causes[] = {
        [NS_REACH_OTHER_MACHINE] = "machine",
        [NS_REACH_GO] = "go",
        [NS_REACH_STATIC] = "static",
        [NS_REACH_OTHER_LOADER] = "libc",
    };
    enum ns_reach_verdict verdict = ns_reach_judge_elf(examination->proc.exe, &examination->elf);
    const char *reason = examination->has_elf ? ns_reach_reason(verdict) : NULL;
    const char *cause = causes[verdict];
    if (!reason && examination->sockets > 0) {
        reason = ns_reach_running(&examination->proc);
        cause = "own-calls";
    }
    if (reason)
        ADD(REASON, cause, "it %s%s", reason,
            examination->sockets == 0 ? ""
                                      : "; 'nagleshim cure' changes its sockets, and the library "
                                        "may work at the other end");
    return reason != NULL;
}

/* source, which is LD_PRELOAD or ld.so.preload, names the library by entry. */
static void judge_entry(struct ns_examination *examination, const char *entry, const char *source)
{
    const struct ns_proc *proc = &examination->proc;
    const char *where =
        ns_proc_lives_elsewhere(proc) ? " in the process's own root or mount namespace" : "";
    const char *unfit;
    char link[32];
    if (ns_preload_is_searched(entry)) {
        ADD(REASON, "missing", "%s names %s, which its loader did not load%s; write the full path",
            source, entry, where);
        return;
    }
    NS_AUTO_CLOSE int fd = ns_proc_find_file(proc, entry);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fd < 0)
        ADD(REASON, "missing", "%s names %s%s: %s", source, entry, where, strerror(-fd));
    else if ((unfit = ns_elf_path_unfit(link, examination->elf.narrow)))
        ADD(REASON, "unfit", "%s %s", entry, unfit);
    else if (is_newer(fd, ns_proc_started(proc)))
        ADD(REASON, "earlier",
            "%s was put there, or changed, after the process was started: restart it", entry);
    else
        ADD(REASON, "refused",
            "%s names %s, and its loader did not load it; the loader says why on stderr when the "
            "program starts",
            source, entry);
}

/* Is the process's own ld.so.preload the reason? */
static bool judge_preload_file(struct ns_examination *examination)
{
    const char *libc = ns_reach_libc(examination->elf.interpreter);
    NS_AUTO_CLOSE int fd = ns_proc_find_file(&examination->proc, NS_PRELOAD_FILE);
    char link[32], entry[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fd < 0 || !ns_preload_find_in_file(link, entry))
        return false;
    if (libc && strcmp(libc, "musl") == 0)
        ADD(REASON, "musl",
            NS_PRELOAD_FILE " names %s, but musl's loader does not read this file: set LD_PRELOAD",
            entry);
    else if (is_newer(fd, ns_proc_started(&examination->proc)))
        ADD(REASON, "earlier",
            NS_PRELOAD_FILE " names %s, but was changed after the process was started: restart it",
            entry);
    else
        judge_entry(examination, entry, NS_PRELOAD_FILE);
    return true;
}

/* Finds out why the library is not in its memory: adds at least one reason. */
static void judge_absent(struct ns_examination *examination)
{
    const struct ns_proc *proc = &examination->proc;
    bool is_lost;
    NS_AUTO_FREE char *list = ns_proc_preload(proc, &is_lost);
    char entry[PATH_MAX];
    if (judge_program(examination)) {
        ;
    } else if (examination->loaded.shim == NS_SHIM_OBSERVES) {
        ADD(REASON, "others-only",
            "it has " NS_OBSERVER_NAME " instead, which only observes: 'nagleshim "
            "diagnose' started it");
    } else if (proc->secure) {
        ADD(REASON, "secure",
            "it was started with more rights than its user's (set-user-ID, set-group-ID or "
            "file capabilities), and the loader ignores LD_PRELOAD there");
    } else if (list && ns_preload_find(list, entry)) {
        judge_entry(examination, entry, "LD_PRELOAD");
    } else if (judge_preload_file(examination)) {
        ;
    } else if (list && *list) {
        ADD(REASON, "others-only",
            "it was started with LD_PRELOAD=%.256s, which does not name the library", list);
    } else if (is_lost) {
        ADD(REASON, "overwritten",
            "the library is not loaded, and whether LD_PRELOAD was set is not known, as it has "
            "overwritten its environment");
    } else {
        ADD(REASON, "unset",
            "LD_PRELOAD was not set when it was started ('nagleshim run' sets it)");
    }
}

static void judge(struct ns_examination *examination)
{
    const struct ns_loaded *loaded = &examination->loaded;
    if (loaded->shim == NS_SHIM_UNNAMED)
        ADD(WARNING, "unread",
            "its memory cannot be read (see kernel.yama.ptrace_scope): the library was "
            "searched for by its name");
    if (loaded->deleted)
        ADD(WARNING, "replaced",
            "the library's file was replaced or removed after the process was started: "
            "restart the process to use the new one");
    if (loaded->has_status)
        judge_status(examination);
    else if (loaded->path[0] == '\0')
        judge_absent(examination);
    else if (loaded->shim == NS_SHIM_STARTING)
        ADD(UNKNOWN, "starting",
            "it has not finished starting; if this does not change, it hangs in code "
            "that runs before main");
    else if (loaded->shim == NS_SHIM_VERSION)
        ADD(UNKNOWN, "version",
            "the status of its library has a form that this command does not know; use the command "
            "of "
            "version %s",
            loaded->library[0] ? loaded->library : "the library, if it has a doctor");
    else if (loaded->error)
        ADD(UNKNOWN, "unread",
            "the status of its library cannot be read: %s (see kernel.yama.ptrace_scope)",
            strerror(-loaded->error));
    else
        ADD(UNKNOWN, "unread", "the status of its library has been overwritten");
}

/* A process that was just started may still be a copy of its parent, or be loading libraries: it is
 * examined again until it is a second old. Waits a little; false if there is no need to. */
static bool await(const struct ns_examination *examination)
{
    double age = (double)ns_clock_now(CLOCK_REALTIME) / 1e9 - ns_proc_started(&examination->proc);
    bool has_started = examination->loaded.path[0] && examination->loaded.shim != NS_SHIM_STARTING;
    return !has_started && age < 1 && nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL) == 0;
}

int ns_examine(struct ns_examination *examination, pid_t pid, bool wait)
{
    struct ns_proc *proc = &examination->proc;
    bool has_ring;
    *examination = (struct ns_examination){0};
    int error = ns_proc_open(pid, proc);
    if (!error && proc->state.is_kernel_thread) {
        ADD(REASON, "kernel", "it is a kernel thread, which runs no program");
        return 0;
    }
    do {
        if (!error)
            error = ns_proc_look(proc);
        if (!error)
            error = ns_loaded_find(proc, &examination->loaded);
    } while (!error && wait && await(examination));
    if (!error) {
        examination->has_elf = ns_elf_inspect_exe(proc->dir, &examination->elf);
        examination->sockets = ns_proc_sockets(proc, &has_ring);
        judge(examination);
    }
    /* If it is ending, a part of what was read may be missing. */
    if (error == -ENOENT || (proc->dir >= 0 && ns_state_is_gone(proc->dir, "stat")))
        return -ESRCH;
    return error;
}
