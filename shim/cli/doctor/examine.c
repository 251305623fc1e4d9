/* SPDX-License-Identifier: MIT */
/* Owns the judgement of a running process, of which it knows the facts. It prints nothing. */
#include "cli/doctor/doctor.h"

#include "base/clock.h"
#include "cli/output.h"
#include "cli/program/program.h"
#include "policy/find.h"

#include <string.h>
#include <time.h>

/* The cause is a word of --json. */
#define ADD(kind, cause, ...)                                                                      \
    ns_findings_add(&examination->findings, NS_FINDING_##kind, cause, ns_words(__VA_ARGS__))

static void judge_policy(struct ns_examination *examination)
{
    const struct ns_facts *facts = &examination->facts;
    const struct ns_status *status = &facts->loaded.status;
    if (status->origin == NS_POLICY_NO_DIRECTORY)
        ADD(WARNING, "no-directory", "NAGLESHIM_POLICY_DIR did not exist when it was started");
    if (status->policy && !facts->has_policy)
        ADD(WARNING, "unread", "the name of its policy cannot be read");
    /* A policy that was edited takes effect at the next start, which is easily forgotten. */
    if (facts->has_policy && ns_found_is_newer(&facts->policy_file, (double)status->looked / 1e9))
        ADD(WARNING, "stale",
            "%s was changed after the process had read it: restart the process to use the new "
            "version",
            facts->policy);
}

/* The library is disabled: why? */
static void judge_disabled(struct ns_examination *examination)
{
    const struct ns_facts *facts = &examination->facts;
    const char *reason = facts->reason[0] ? facts->reason : "the reason is unknown";
    size_t length = strlen(facts->policy);
    /* A message about a policy begins with its file. */
    bool is_of_policy =
        length > 0 && strncmp(reason, facts->policy, length) == 0 && reason[length] == ':';
    ADD(REASON, is_of_policy ? "policy" : "disabled", "the library is disabled: %s", reason);
}

/* Does the library not see what the process does, whatever LD_PRELOAD is? */
static bool judge_program(struct ns_examination *examination)
{
    const struct ns_facts *facts = &examination->facts;
    enum ns_reach_verdict verdict = ns_reach_judge_process(facts);
    const char *reason = ns_reach_reason(verdict);
    if (reason)
        ADD(REASON, ns_reach_cause(verdict), "it %s%s", reason,
            facts->sockets == 0 ? ""
                                : "; 'nagleshim cure' changes its sockets, and the library may "
                                  "work at the other end");
    return reason != NULL;
}

/* Does the library see what the process does with its sockets? */
static void judge_sockets(struct ns_examination *examination)
{
    const struct ns_facts *facts = &examination->facts;
    const struct ns_loaded *loaded = &facts->loaded;
    if (loaded->status.n_rules > 0 && !facts->has_rules)
        ADD(WARNING, "unread", "its rules cannot be read");
    if (loaded->has_stats && loaded->stats.sockets + loaded->stats.left_alone > 0)
        return;
    if (loaded->shim == NS_SHIM_NO)
        judge_program(examination);
    else if (facts->sockets > 0)
        ADD(UNKNOWN, "unseen",
            "the library is loaded, but has seen none of its TCP sockets in use: the program "
            "has not used them yet, or its calls do not go through libc (see nagleshim(7); "
            "'nagleshim cure --pid %d' reaches them)",
            facts->proc.process);
}

/* The library is there, and its status was read. */
static void judge_status(struct ns_examination *examination)
{
    const struct ns_loaded *loaded = &examination->facts.loaded;
    if (strcmp(loaded->library, NS_VERSION) != 0)
        ADD(WARNING, "version", "the library in it is version %s, and this command is " NS_VERSION,
            loaded->library[0] ? loaded->library : "unknown");
    judge_policy(examination);
    if (loaded->status.state == NS_STATUS_OFF)
        ADD(REASON, "off",
            "NAGLESHIM_OFF was set when it was started, which switches the library off");
    else if (loaded->status.state == NS_STATUS_DISABLED)
        judge_disabled(examination);
    else
        judge_sockets(examination);
}

/* LD_PRELOAD or ld.so.preload names the library. */
static void judge_entry(struct ns_examination *examination)
{
    const struct ns_facts *facts = &examination->facts;
    const char *entry = facts->entry, *source = facts->is_of_file ? NS_PRELOAD_FILE : "LD_PRELOAD";
    const char *where =
        facts->lives_elsewhere ? " in the process's own root or mount namespace" : "";
    const char *libc = ns_reach_libc(facts->elf.interpreter);
    const double started = ns_state_started(&facts->proc.state);
    if (facts->is_of_file && libc && strcmp(libc, "musl") == 0)
        ADD(REASON, "musl",
            NS_PRELOAD_FILE " names %s, but musl's loader does not read this file: set LD_PRELOAD",
            entry);
    else if (facts->is_of_file && ns_found_is_newer(&facts->preload_file, started))
        ADD(REASON, "earlier",
            NS_PRELOAD_FILE " names %s, but was changed after the process was started: restart it",
            entry);
    else if (ns_preload_is_searched(entry))
        ADD(REASON, "missing", "%s names %s, which its loader did not load%s; write the full path",
            source, entry, where);
    else if (facts->entry_file.error)
        ADD(REASON, "missing", "%s names %s%s: %s", source, entry, where,
            strerror(-facts->entry_file.error));
    else if (facts->entry_file.unfit[0])
        ADD(REASON, "unfit", "%s %s", entry, facts->entry_file.unfit);
    else if (ns_found_is_newer(&facts->entry_file, started))
        ADD(REASON, "earlier",
            "%s was put there, or changed, after the process was started: restart it", entry);
    else
        ADD(REASON, "refused",
            "%s names %s, and its loader did not load it; the loader says why on stderr when the "
            "program starts",
            source, entry);
}

/* Finds out why the library is not in its memory: adds at least one reason. */
static void judge_absent(struct ns_examination *examination)
{
    const struct ns_facts *facts = &examination->facts;
    if (judge_program(examination)) {
        ;
    } else if (facts->loaded.shim == NS_SHIM_OBSERVES) {
        ADD(REASON, "others-only",
            "it has " NS_OBSERVER_NAME " instead, which only observes: 'nagleshim "
            "diagnose' started it");
    } else if (facts->entry[0]) {
        judge_entry(examination);
    } else if (facts->preload[0]) {
        ADD(REASON, "others-only",
            "it was started with LD_PRELOAD=%.256s, which does not name the library",
            facts->preload);
    } else if (facts->has_lost_preload) {
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
    const struct ns_loaded *loaded = &examination->facts.loaded;
    if (loaded->shim == NS_SHIM_UNNAMED)
        ADD(WARNING, "unread",
            "its memory cannot be read (see kernel.yama.ptrace_scope), or has too many files: "
            "the library was searched for by its name");
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
            "of %s%s",
            *loaded->library ? "version " : "the library's own version", loaded->library);
    else if (loaded->error)
        ADD(UNKNOWN, "unread", "the status of its library cannot be read: %s%s",
            strerror(-loaded->error),
            ns_proc_is_denied(loaded->error) ? " (see kernel.yama.ptrace_scope)" : "");
    else
        ADD(UNKNOWN, "unread", "the status of its library has been overwritten");
}

/* A process that was just started may still be a copy of its parent, or be loading libraries: it is
 * examined again until it is a second old. Waits a little; false if there is no need to. */
static bool await(const struct ns_facts *facts)
{
    double age = (double)ns_clock_now(CLOCK_REALTIME) / 1e9 - ns_state_started(&facts->proc.state);
    return !facts->loaded.has_status && age < 1 &&
           nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL) == 0;
}

int ns_examine(struct ns_examination *examination, pid_t pid, bool wait)
{
    struct ns_facts *facts = &examination->facts;
    int error;
    examination->findings.n = 0;
    do
        error = ns_facts_ask(pid, NS_FACTS_ALL, facts);
    while (!error && wait && !facts->proc.state.is_kernel_thread && await(facts));
    if (!error && facts->proc.state.is_kernel_thread)
        ADD(REASON, "kernel", "it is a kernel thread, which runs no program");
    else if (!error)
        judge(examination);
    return error;
}
