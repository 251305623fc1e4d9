/* SPDX-License-Identifier: MIT */
/* Owns the reasons why the library is not in a process's memory: the kind of program, its rights,
 * and whether the process names a library that its loader can load. It must find a reason, if only
 * that the loader refused it. Not async-signal-safe. */
#include "cli/doctor/doctor.h"
#include "cli/doctor/process_report.h"

#include "cli/cli.h"
#include "cli/process/preload.h"
#include "cli/process/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ADD(kind, ...) ns_findings_add(&report->findings, NS_FINDING_##kind, __VA_ARGS__)

/* Is something wrong with the program's file? */
static bool judge_program(struct ns_process_report *report)
{
    static const enum ns_finding_kind kinds[] = {
        [NS_REACH_OTHER_MACHINE] = NS_FINDING_OTHER_MACHINE,
        [NS_REACH_GO] = NS_FINDING_GO,
        [NS_REACH_PASCAL] = NS_FINDING_PASCAL,
        [NS_REACH_STATIC] = NS_FINDING_STATIC,
        [NS_REACH_OTHER_LOADER] = NS_FINDING_OTHER_LOADER,
    };
    enum ns_reach_verdict verdict = ns_reach_judge_elf(report->proc.exe, &report->elf);
    const char *reason = report->has_elf ? ns_reach_reason(verdict) : NULL;

    if (reason)
        ns_findings_add(&report->findings, kinds[verdict], "it %s", reason);
    return reason != NULL;
}

static bool is_unfit(int fd, char *reason, size_t size)
{
    char link[32];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int readable = open(link, O_RDONLY | O_CLOEXEC);
    bool unfit = readable >= 0 && ns_elf_is_unfit(readable, reason, size);
    if (readable >= 0)
        close(readable);
    return unfit;
}

/* fd (O_PATH) is the file that source names by entry. */
static void judge_file(struct ns_process_report *report, int fd, const char *entry,
                       const char *source)
{
    const struct ns_proc *proc = &report->proc;
    struct stat st;
    struct statvfs fs;
    char reason[128];

    if (fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_NOEXEC))
        ADD(UNFIT, "%s is on a file system that is mounted noexec", entry);
    else if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
        ADD(UNFIT, "%s is not a regular file", entry);
    else if (is_unfit(fd, reason, sizeof reason))
        ADD(UNFIT, "%s %s", entry, reason);
    else if (!(st.st_mode & S_IROTH) && st.st_uid != proc->user && proc->user != 0)
        ADD(UNFIT, "%s cannot be read by user %u (mode %04o)", entry, proc->user,
            st.st_mode & 07777);
    else if (ns_proc_started(proc) > 0 && ns_proc_changed(&st) > ns_proc_started(proc))
        ADD(EARLIER, "%s was put there, or changed, after the process was started: restart it",
            entry);
    else
        ADD(REFUSED,
            "%s names %s, and its loader did not load it; the loader says why on stderr when the "
            "program starts",
            source, entry);
}

static void judge_entry(struct ns_process_report *report, const char *entry, const char *source)
{
    const char *where = ns_proc_lives_elsewhere(&report->proc)
                            ? " in the process's own root or mount namespace"
                            : "";

    if (!strchr(entry, '/')) {
        ADD(MISSING, "%s names %s, which its loader did not load%s; write the full path", source,
            entry, where);
        return;
    }
    int fd = ns_proc_find_file(&report->proc, entry);
    if (fd < 0) {
        ADD(MISSING, "%s names %s%s: %s", source, entry, where, strerror(-fd));
        return;
    }
    judge_file(report, fd, entry, source);
    close(fd);
}

bool ns_doctor_read_preload_file(int fd, char entry[PATH_MAX])
{
    char text[4096];

    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return ns_preload_find(text, entry);
}

/* The process's own ld.so.preload names the library. */
static void judge_preload_file(struct ns_process_report *report, const char *entry)
{
    const char *libc = ns_reach_libc(report->elf.interpreter);
    int fd = ns_proc_find_file(&report->proc, NS_DOCTOR_PRELOAD_FILE);
    double started = ns_proc_started(&report->proc);
    struct stat st = {0};

    if (fd >= 0) {
        fstat(fd, &st);
        close(fd);
    }
    if (libc && strcmp(libc, "musl") == 0)
        ADD(MUSL,
            NS_DOCTOR_PRELOAD_FILE " names %s, but musl's loader does not read this file: set "
                                   "LD_PRELOAD",
            entry);
    else if (started > 0 && ns_proc_changed(&st) > started)
        ADD(EARLIER,
            NS_DOCTOR_PRELOAD_FILE " names %s, but was changed after the process was started: "
                                   "restart it",
            entry);
    else
        judge_entry(report, entry, NS_DOCTOR_PRELOAD_FILE);
}

void ns_process_report_judge_absent(struct ns_process_report *report)
{
    const struct ns_proc *proc = &report->proc;
    const char *list = ns_proc_getenv(proc, "LD_PRELOAD");
    char entry[PATH_MAX];

    if (judge_program(report))
        return;
    if (report->loaded.observes) {
        ADD(OTHERS_ONLY, "it has " NS_OBSERVER_NAME " instead, which only observes: 'nagleshim "
                         "diagnose' started it");
    } else if (proc->secure) {
        ADD(SECURE, "it was started with more rights than its user's (set-user-ID, set-group-ID or "
                    "file capabilities), and the loader ignores LD_PRELOAD there");
    } else if (list && ns_preload_find(list, entry)) {
        judge_entry(report, ns_sanitize(entry), "LD_PRELOAD");
    } else if (ns_doctor_read_preload_file(ns_proc_open_file(proc, NS_DOCTOR_PRELOAD_FILE),
                                           entry)) {
        judge_preload_file(report, ns_sanitize(entry));
    } else if (list && *list) {
        snprintf(entry, 256, "%s", list);
        ADD(OTHERS_ONLY, "it was started with LD_PRELOAD=%s, which does not name the shim",
            ns_sanitize(entry));
    } else {
        ADD(UNSET, "LD_PRELOAD was not set when it was started ('nagleshim run' sets it)");
    }
}
