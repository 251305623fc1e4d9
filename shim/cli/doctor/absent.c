/* SPDX-License-Identifier: MIT */
/* Owns the reasons why the library is not in a process's memory: the kind of program, its rights,
 * and whether the process names a library that its loader can load. Not async-signal-safe. */
#include "cli/doctor/doctor.h"

#include "cli/cli.h"
#include "cli/process/preload.h"
#include "cli/process/reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADD(id, ...) ns_findings_add(&examination->findings, NS_FINDING_##id, __VA_ARGS__)

/* Is something wrong with the program's file? */
static bool judge_program(struct ns_examination *examination)
{
    static const enum ns_finding_id ids[] = {
        [NS_REACH_OTHER_MACHINE] = NS_FINDING_OTHER_MACHINE,
        [NS_REACH_GO] = NS_FINDING_GO,
        [NS_REACH_STATIC] = NS_FINDING_STATIC,
        [NS_REACH_OTHER_LOADER] = NS_FINDING_OTHER_LOADER,
    };
    enum ns_reach_verdict verdict = ns_reach_judge_elf(examination->proc.exe, &examination->elf);
    const char *reason = examination->has_elf ? ns_reach_reason(verdict) : NULL;

    if (reason)
        ns_findings_add(&examination->findings, ids[verdict], "it %s", reason);
    return reason != NULL;
}

/* Was the open file changed after the process was started? */
static bool is_newer(int fd, const struct ns_proc *proc)
{
    double started = ns_proc_started(proc);
    struct stat st;

    return started > 0 && fstat(fd, &st) == 0 && ns_proc_changed(&st) > started;
}

/* source, which is LD_PRELOAD or ld.so.preload, names the library by entry. */
static void judge_entry(struct ns_examination *examination, const char *entry, const char *source)
{
    const struct ns_proc *proc = &examination->proc;
    const char *where =
        ns_proc_lives_elsewhere(proc) ? " in the process's own root or mount namespace" : "";
    char reason[128], link[32];

    if (!strchr(entry, '/')) {
        ADD(MISSING, "%s names %s, which its loader did not load%s; write the full path", source,
            entry, where);
        return;
    }
    int fd = ns_proc_find_file(proc, entry);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fd < 0)
        ADD(MISSING, "%s names %s%s: %s", source, entry, where, strerror(-fd));
    else if (ns_elf_path_is_unfit(link, reason, sizeof reason))
        ADD(UNFIT, "%s %s", entry, reason);
    else if (is_newer(fd, proc))
        ADD(EARLIER, "%s was put there, or changed, after the process was started: restart it",
            entry);
    else
        ADD(REFUSED,
            "%s names %s, and its loader did not load it; the loader says why on stderr when the "
            "program starts",
            source, entry);
    if (fd >= 0)
        close(fd);
}

/* Is the process's own ld.so.preload the reason? */
static bool judge_preload_file(struct ns_examination *examination)
{
    const char *libc = ns_reach_libc(examination->elf.interpreter);
    int fd = ns_proc_find_file(&examination->proc, NS_PRELOAD_FILE);
    char link[32], entry[PATH_MAX];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    bool is_named = fd >= 0 && ns_preload_find_in_file(link, entry);
    if (!is_named)
        ;
    else if (libc && strcmp(libc, "musl") == 0)
        ADD(MUSL,
            NS_PRELOAD_FILE " names %s, but musl's loader does not read this file: set LD_PRELOAD",
            ns_sanitize(entry));
    else if (is_newer(fd, &examination->proc))
        ADD(EARLIER,
            NS_PRELOAD_FILE " names %s, but was changed after the process was started: restart it",
            ns_sanitize(entry));
    else
        judge_entry(examination, ns_sanitize(entry), NS_PRELOAD_FILE);
    if (fd >= 0)
        close(fd);
    return is_named;
}

void ns_examine_absent(struct ns_examination *examination)
{
    const struct ns_proc *proc = &examination->proc;
    char *list = ns_proc_preload(proc), entry[PATH_MAX];

    if (judge_program(examination)) {
        ;
    } else if (examination->loaded.shim == NS_SHIM_OBSERVES) {
        ADD(OTHERS_ONLY, "it has " NS_OBSERVER_NAME " instead, which only observes: 'nagleshim "
                         "diagnose' started it");
    } else if (proc->secure) {
        ADD(SECURE, "it was started with more rights than its user's (set-user-ID, set-group-ID or "
                    "file capabilities), and the loader ignores LD_PRELOAD there");
    } else if (list && ns_preload_find(list, entry)) {
        judge_entry(examination, ns_sanitize(entry), "LD_PRELOAD");
    } else if (judge_preload_file(examination)) {
        ;
    } else if (list && *list) {
        ADD(OTHERS_ONLY, "it was started with LD_PRELOAD=%.256s, which does not name the shim",
            ns_sanitize(list));
    } else {
        ADD(UNSET, "LD_PRELOAD was not set when it was started ('nagleshim run' sets it)");
    }
    free(list);
}
