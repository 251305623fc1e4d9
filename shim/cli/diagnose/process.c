/* SPDX-License-Identifier: MIT */
/* Fills what a diagnosis knows of a process from /proc: its name, whether the library is loaded in
 * it, and whether a preload can reach it. Not async-signal-safe. */
#include "cli/diagnose/rows.h"

#include "cli/cli.h"
#include "cli/process/elf.h"
#include "cli/process/loaded.h"
#include "cli/process/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_shim(const struct ns_proc *proc)
{
    static struct ns_loaded loaded;
    ns_loaded_find(proc, &loaded);
    return loaded.shim == NS_SHIM_READY || loaded.shim == NS_SHIM_WORKS;
}

static void judge_reach(const struct ns_proc *proc, struct ns_curable *curable)
{
    static struct ns_elf elf;
    int fd = openat(proc->dir, "exe", O_RDONLY | O_CLOEXEC);
    const char *reason = NULL;
    if (fd < 0)
        return;
    if (ns_elf_inspect(fd, &elf) == 0) {
        reason = ns_reach_reason(ns_reach_judge_elf(proc->exe, &elf));
        if (!reason && proc->secure)
            reason = ns_reach_reason(NS_REACH_SET_ID);
        curable->yes = !reason;
        snprintf(curable->reason, sizeof curable->reason, "%s%s", reason ? "it " : "",
                 reason ? reason : "");
    }
    close(fd);
}

/* The control group names the unit or the container of a process. */
static void take_group(const struct ns_proc *proc, struct ns_diagnosed_process *process)
{
    FILE *stream = ns_proc_stream(proc, "cgroup");
    char line[1024];
    while (stream && fgets(line, sizeof line, stream)) {
        const char *slice = strstr(line, "/system.slice/"), *end;
        process->in_container |=
            strstr(line, "kubepods") || strstr(line, "libpod") || strstr(line, "docker");
        if (!slice || process->in_container)
            continue;
        slice += strlen("/system.slice/");
        end = strstr(slice, ".service");
        if (end && !memchr(slice, '/', (size_t)(end - slice)))
            snprintf(process->unit, sizeof process->unit, "%.*s", (int)(end - slice), slice);
    }
    if (stream)
        fclose(stream);
}

void ns_diagnosed_process_look(struct ns_diagnosed_process *process)
{
    struct ns_proc proc;
    if (ns_proc_open(process->pid, &proc) != 0)
        return;
    process->has_other_number = ns_proc_has_other_number(&proc);
    if (ns_proc_look(&proc) == 0) {
        snprintf(process->exe, sizeof process->exe, "%s", proc.exe);
        process->has_shim = has_shim(&proc);
        process->words_size = ns_proc_words(&proc, process->words, sizeof process->words);
        if (process->words_size == sizeof process->words || process->words[0] == '\0')
            process->words_size = 0;
        take_group(&proc, process);
        judge_reach(&proc, &process->curable);
    }
    ns_proc_name(&proc, process->name, sizeof process->name);
    ns_proc_close(&proc);
}

int ns_diagnosed_say_error(const char *verb, pid_t pid, int error)
{
    if (error == -EPERM || error == -EACCES) {
        ns_say(verb,
               "permission denied: process %d is another user's, or protected; run this command as "
               "that user, or as root",
               pid);
        return NS_EXIT_DENIED;
    }
    if (error == -ESRCH)
        ns_say(verb, "there is no process %d", pid);
    else if (error == -EPROTONOSUPPORT)
        ns_say(verb, "this kernel has no INET_DIAG for TCP (the module tcp_diag)");
    else
        ns_say(verb, "cannot list TCP sockets: %s", strerror(-error));
    return NS_EXIT_ERROR;
}
