/* SPDX-License-Identifier: MIT */
/* Owns the comparison of the policy that a process took when it was started with the one that it
 * would get now: a policy that was edited takes hold with the next start, which is easily
 * forgotten. It must search as the shim does, where the process lives. Not async-signal-safe. */
#include "cli/doctor.h"

#include "cli/output.h"
#include "cli/trust.h"

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

static void print_tried(void *context, const char *path, int error)
{
    char text[PATH_MAX];
    const char *result = error == 0         ? "would be taken"
                         : error == -ENOENT ? "not there"
                         : error == -EINVAL ? "invalid"
                                            : ns_policy_error_reason(error);
    cJSON *entry = ns_output_entry("tried");

    (void)context;
    snprintf(text, sizeof(text), "%s", path);
    ns_proc_tame(text);
    ns_output_text(entry, "path", text);
    ns_output_text(entry, "result", result);
    ns_output_line("tried now: %s: %s", text, result);
}

static void warn_distrust(void *context, const char *text)
{
    void *const *both = context;

    ns_findings_warning(both[0], "%s %s", (const char *)both[1], text);
}

static bool stat_there(const struct ns_proc *proc, const char *path, struct stat *st)
{
    int fd = ns_proc_find_file(proc, path);
    bool found = fd >= 0 && fstat(fd, st) == 0;

    if (fd >= 0)
        close(fd);
    return found;
}

/* What has become of the file that the process took. */
static void judge_taken(const struct ns_proc *proc, const char *path, double looked,
                        struct ns_findings *findings)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct stat file, above;
    bool has_above;
    void *both[] = {findings, (void *)path};
    double changed;

    if (!stat_there(proc, path, &file)) {
        ns_findings_warning(findings, "%s, which the process took, is not there any more", path);
        return;
    }
    changed = (double)file.st_ctim.tv_sec + (double)file.st_ctim.tv_nsec / 1e9;
    if (changed > looked)
        ns_findings_warning(
            findings,
            "%s was changed after the process had read it: start it again for that to "
            "take hold",
            path);
    snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    has_above = stat_there(proc, directory, &above);
    ns_trust_judge(&file, has_above ? &above : NULL, proc->user, warn_distrust, both);
}

void ns_doctor_policy(const struct ns_proc *proc, const char *path, double looked, bool taken,
                      struct ns_findings *findings)
{
    static struct ns_policy_found found;
    const struct ns_policy_request request = {
        .policy = ns_proc_getenv(proc, "NAGLESHIM_POLICY"),
        .policy_dir = ns_proc_getenv(proc, "NAGLESHIM_POLICY_DIR"),
        .argv0 = ns_proc_argv0(proc),
        .exe = proc->exe,
        .open = open_there,
        .open_context = proc,
    };

    ns_policy_find(&request, &found, print_tried, NULL);
    ns_proc_tame(found.path);
    if (strcmp(found.path, path) != 0)
        ns_findings_warning(findings, "started now, it would take %s, as far as can be told",
                            found.path[0] ? found.path : "the built-in policy");
    else if (taken && (found.origin == NS_POLICY_NAMED || found.origin == NS_POLICY_IN_DIRECTORY))
        judge_taken(proc, path, looked, findings);
    if (found.origin != NS_POLICY_BUILTIN)
        ns_policy_free((struct ns_policy *)found.policy);
}
