/* SPDX-License-Identifier: MIT */
/* Owns the comparison of the policy that a process took when it was started with the one that it
 * would get now: a policy that was edited takes hold with the next start, which is easily
 * forgotten. It must search as the shim does, where the process lives. Not async-signal-safe. */
#include "cli/process/process_report.h"

#include "cli/cli.h"

#include "cli/process/trust.h"

#include "policy/find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_there(const char *path, const void *context)
{
    return ns_proc_open_file(context, path);
}

static void keep_tried(void *context, const char *path, int error)
{
    struct ns_process_report *patient = context;
    struct ns_process_report_tried *tried =
        realloc(patient->tried, (patient->n_tried + 1) * sizeof(*tried));
    char *copy = strdup(path);

    if (tried)
        patient->tried = tried;
    if (!tried || !copy) {
        free(copy);
        return;
    }
    tried[patient->n_tried++] = (struct ns_process_report_tried){ns_sanitize(copy), error};
}

static void warn_distrust(void *context, const char *text)
{
    void *const *both = context;

    ns_findings_add(both[0], NS_FINDING_DISTRUST, "%s %s", (const char *)both[1], text);
}

static bool stat_there(const struct ns_proc *proc, const char *path, struct stat *st)
{
    int fd = ns_proc_find_file(proc, path);
    bool found = fd >= 0 && fstat(fd, st) == 0;

    if (fd >= 0)
        close(fd);
    return found;
}

/* What has become of the file that the process took; path: the name that it has, be it tame or not.
 */
static void judge_taken(struct ns_process_report *patient, const char *path)
{
    const struct ns_proc *proc = &patient->proc;
    struct ns_findings *findings = &patient->findings;
    double looked = (double)patient->loaded.status.looked / 1e9;
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct stat file, above;
    bool has_above;
    void *both[] = {findings, patient->policy};
    double changed;

    if (!stat_there(proc, path, &file)) {
        ns_findings_add(findings, NS_FINDING_REMOVED,
                        "%s, which the process took, is not there any more", patient->policy);
        return;
    }
    changed = (double)file.st_ctim.tv_sec + (double)file.st_ctim.tv_nsec / 1e9;
    if (changed > looked)
        ns_findings_add(findings, NS_FINDING_STALE,
                        "%s was changed after the process had read it: start it again for that to "
                        "take hold",
                        patient->policy);
    snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    has_above = stat_there(proc, directory, &above);
    ns_trust_judge(&file, has_above ? &above : NULL, proc->user, warn_distrust, both);
}

/* The file that it would get now is broken, or was and is not any more. */
static void judge_validity(struct ns_process_report *patient, const struct ns_policy_found *found)
{
    uint32_t state = patient->loaded.status.state;
    bool took = patient->loaded.status.n_rules > 0;
    char text[PATH_MAX + sizeof(found->where.message) + 32];

    if (!found->policy && (took || state == NS_STATUS_ACTIVE))
        ns_findings_add(&patient->findings, NS_FINDING_BROKEN_NOW,
                        "started now, the shim would stand aside in it: %s",
                        ns_sanitize(ns_policy_error_text(found, text, sizeof(text))));
    else if (found->policy && !took && state == NS_STATUS_ASIDE && found->policy->n_rules > 0)
        ns_findings_add(&patient->findings, NS_FINDING_MENDED,
                        "%s is valid now: start it again for that to take hold", found->path);
}

void ns_process_report_judge_policy(struct ns_process_report *patient)
{
    static struct ns_policy_found found;
    char path[PATH_MAX]; /* as it is; the others are tame */
    const struct ns_proc *proc = &patient->proc;
    const struct ns_status *status = &patient->loaded.status;
    const struct ns_policy_request request = {
        .policy = ns_proc_getenv(proc, "NAGLESHIM_POLICY"),
        .policy_dir = ns_proc_getenv(proc, "NAGLESHIM_POLICY_DIR"),
        .argv0 = ns_proc_argv0(proc),
        .exe = proc->exe,
        .open = open_there,
        .open_context = proc,
    };

    ns_policy_find(&request, &found, keep_tried, patient);
    snprintf(path, sizeof(path), "%s", found.path);
    ns_sanitize(found.path);
    if (strcmp(found.path, patient->policy) != 0)
        ns_findings_add(&patient->findings, NS_FINDING_ELSEWHERE,
                        "started now, it would take %s, as far as can be told",
                        found.path[0] ? found.path : "the built-in policy");
    else if (status->n_rules > 0 && found.policy &&
             (found.origin == NS_POLICY_NAMED || found.origin == NS_POLICY_IN_DIRECTORY))
        judge_taken(patient, path);
    if (found.origin != NS_POLICY_BUILTIN && found.origin != NS_POLICY_INLINE)
        judge_validity(patient, &found);
    if (found.origin != NS_POLICY_BUILTIN)
        ns_policy_free((struct ns_policy *)found.policy);
}
