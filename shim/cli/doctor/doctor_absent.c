/* SPDX-License-Identifier: MIT */
/* Owns the reasons why the shim is not in a process's memory: what kind of program it is, how it
 * was started, and whether the library is to be had where the process lives. It must find a reason,
 * if only the loader's own. Not async-signal-safe. */
#include "cli/process/process_report.h"

#include "cli/cli.h"

#include "cli/process/preload.h"
#include "cli/process/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static enum ns_finding_kind cause_of(enum ns_reach_verdict verdict)
{
    switch (verdict) {
    case NS_REACH_OTHER_MACHINE:
        return NS_FINDING_OTHER_MACHINE;
    case NS_REACH_GO:
        return NS_FINDING_GO;
    case NS_REACH_PASCAL:
        return NS_FINDING_PASCAL;
    case NS_REACH_OTHER_LOADER:
        return NS_FINDING_OTHER_LOADER;
    case NS_REACH_SET_ID:
    case NS_REACH_CAPABILITIES:
        return NS_FINDING_SECURE;
    case NS_REACH_STATIC:
    case NS_REACH_YES:
    case NS_REACH_UNKNOWN:
        break;
    }
    return NS_FINDING_STATIC;
}

/* What is wrong with the file of the program; false if nothing is, or it could not be read. */
static bool judge_program(struct ns_process_report *patient)
{
    enum ns_reach_verdict verdict = ns_reach_judge_elf(patient->proc.exe, &patient->elf);
    const char *reason = patient->has_elf ? ns_reach_reason(verdict) : NULL;

    if (reason)
        ns_findings_add(&patient->findings, cause_of(verdict), "it %s", reason);
    return reason != NULL;
}

/* Where a loader looks for a bare name, whatever its cache says. */
static const char *const directories[] = {
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/usr/local/lib",
    NS_LIBDIR,
#if defined(__x86_64__)
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
#endif
};

static int open_library(const struct ns_proc *proc, const char *entry)
{
    char path[PATH_MAX];

    if (strchr(entry, '/'))
        return ns_proc_find_file(proc, entry);
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
        int fd;

        snprintf(path, sizeof(path), "%s/%s", directories[i], entry);
        fd = ns_proc_find_file(proc, path);
        if (fd >= 0)
            return fd;
    }
    return -ENOENT;
}

static double changed_at(const struct stat *st)
{
    return (double)st->st_ctim.tv_sec + (double)st->st_ctim.tv_nsec / 1e9;
}

/* The opened file (O_PATH): why a loader could not have taken it. False if that cannot be told. */
static bool judge_file(const struct ns_proc *proc, int fd, const char *entry,
                       struct ns_findings *findings)
{
    struct stat st;
    struct statvfs fs;
    char link[32], reason[128];
    double changed;
    int readable;

    if (fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_NOEXEC)) {
        ns_findings_add(findings, NS_FINDING_UNFIT,
                        "%s lies on a file system that is mounted noexec", entry);
        return true;
    }
    if (fstat(fd, &st) != 0)
        return false;
    if (!S_ISREG(st.st_mode)) {
        ns_findings_add(findings, NS_FINDING_UNFIT, "%s is not a regular file", entry);
        return true;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    readable = open(link, O_RDONLY | O_CLOEXEC);
    if (readable >= 0) {
        bool unfit = ns_elf_is_unfit(readable, reason, sizeof(reason));

        close(readable);
        if (unfit) {
            ns_findings_add(findings, NS_FINDING_UNFIT, "%s %s", entry, reason);
            return true;
        }
    }
    if (!(st.st_mode & S_IROTH) && st.st_uid != proc->user && proc->user != 0) {
        ns_findings_add(findings, NS_FINDING_UNFIT, "%s cannot be read by user %u (mode %04o)",
                        entry, proc->user, st.st_mode & 07777);
        return true;
    }
    changed = changed_at(&st);
    if (ns_proc_started(proc) > 0 && changed > ns_proc_started(proc)) {
        ns_findings_add(findings, NS_FINDING_EARLIER,
                        "%s was put there, or changed, after the process was started: start it "
                        "again",
                        entry);
        return true;
    }
    return false;
}

static void judge_entry(const struct ns_proc *proc, const char *entry, const char *source,
                        struct ns_findings *findings)
{
    const char *where = ns_proc_lives_elsewhere(proc)
                            ? " in the root or mount namespace that the process has of its own"
                            : "";
    int fd = open_library(proc, entry);

    if (fd == -ENOENT && !strchr(entry, '/'))
        ns_findings_add(findings, NS_FINDING_MISSING,
                        "%s names %s, which is in no directory that a loader searches%s; a full "
                        "path works from everywhere",
                        source, entry, where);
    else if (fd == -ENOENT)
        ns_findings_add(findings, NS_FINDING_MISSING, "%s names %s, which does not exist%s", source,
                        entry, where);
    else if (fd < 0)
        ns_findings_add(findings, NS_FINDING_MISSING,
                        "%s names %s, which cannot be looked at%s: %s", source, entry, where,
                        strerror(-fd));
    if (fd < 0)
        return;
    if (!judge_file(proc, fd, entry, findings))
        ns_findings_add(findings, NS_FINDING_REFUSED,
                        "%s names %s, and its loader did not load it; it says why on stderr when "
                        "the program starts",
                        source, entry);
    close(fd);
}

/* The file of names that glibc's loader preloads into every program. */
#define PRELOAD_FILE "/etc/ld.so.preload"

/* Does the process's own name it? changed: when the file was. */
static bool find_in_preload_file(const struct ns_proc *proc, char entry[PATH_MAX], double *changed)
{
    char text[4096];
    int fd = ns_proc_open_file(proc, PRELOAD_FILE);
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return false;
    n = read(fd, text, sizeof(text) - 1);
    *changed = fstat(fd, &st) == 0 ? changed_at(&st) : 0;
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return ns_preload_find_in_file(text, entry);
}

/* The process's own /etc/ld.so.preload names the library. */
static void judge_preload_file(struct ns_process_report *patient, const char *entry, double changed)
{
    const char *libc = ns_reach_libc(patient->elf.interpreter);
    double started = ns_proc_started(&patient->proc);

    if (libc && strcmp(libc, "musl") == 0)
        ns_findings_add(&patient->findings, NS_FINDING_MUSL,
                        PRELOAD_FILE " names %s, and musl's loader reads no such file: set "
                                     "LD_PRELOAD",
                        entry);
    else if (started > 0 && changed > started)
        ns_findings_add(&patient->findings, NS_FINDING_EARLIER,
                        PRELOAD_FILE " was changed after the process was started, and names %s "
                                     "now: start it again",
                        entry);
    else
        judge_entry(&patient->proc, entry, PRELOAD_FILE, &patient->findings);
}

/* LD_PRELOAD did not name it: who took it out? */
static void judge_starter(const struct ns_proc *proc, const char *list,
                          struct ns_findings *findings)
{
    struct ns_proc parent;
    char entry[PATH_MAX], copy[256] = "", name[64];
    const char *inherited = NULL;

    if (list)
        snprintf(copy, sizeof(copy), "%s", list);
    if (list && *list)
        ns_findings_add(findings, NS_FINDING_OTHERS_ONLY,
                        "it was started with LD_PRELOAD=%s, which does not name the shim: a "
                        "wrapper or a unit may have set it anew",
                        ns_sanitize(copy));
    else
        ns_findings_add(findings, NS_FINDING_UNSET,
                        "LD_PRELOAD was not set when it was started ('nagleshim run' sets it)");
    if (ns_proc_open(proc->parent, &parent) != 0)
        return;
    if (ns_proc_look(&parent) == 0)
        inherited = ns_proc_getenv(&parent, "LD_PRELOAD");
    if (inherited && ns_preload_find(inherited, entry))
        ns_findings_add(findings, NS_FINDING_LOST,
                        "its parent, process %d (%s), was started with the shim in LD_PRELOAD: "
                        "it was lost between the two",
                        parent.process, ns_proc_name(&parent, name, sizeof(name)));
    ns_proc_close(&parent);
}

void ns_process_report_judge_absent(struct ns_process_report *patient)
{
    const struct ns_proc *proc = &patient->proc;
    struct ns_findings *findings = &patient->findings;
    const char *list = ns_proc_getenv(proc, "LD_PRELOAD");
    char entry[PATH_MAX];
    double changed;

    if (judge_program(patient))
        return;
    if (proc->secure) {
        ns_findings_add(findings, NS_FINDING_SECURE,
                        "it was started with more rights than its user's (set-user-ID, "
                        "set-group-ID or file capabilities), and the loader ignores LD_PRELOAD "
                        "there");
        return;
    }
    if (list && ns_preload_find(list, entry))
        judge_entry(proc, ns_sanitize(entry), "LD_PRELOAD", findings);
    else if (find_in_preload_file(proc, entry, &changed))
        judge_preload_file(patient, ns_sanitize(entry), changed);
    else
        judge_starter(proc, list, findings);
}
