/* SPDX-License-Identifier: MIT */
/* Owns what a diagnosis knows of a process: its name, whether the shim is in it, and whether a
 * preload can reach it. It reads /proc and nothing else, and takes nothing there for granted. Not
 * async-signal-safe. */
#include "cli/diagnosis.h"

#include "cli/elf.h"
#include "cli/loaded.h"
#include "cli/reach.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RULES_MOST = 1000 };

/* Does a rule of the shim in it do more than look? */
static bool acts(const struct ns_proc *proc, const struct ns_status *status)
{
    for (unsigned i = 0; i < status->n_rules && i < RULES_MOST; i++) {
        struct ns_status_rule rule;
        const char *send;

        if (ns_proc_memory(proc, status->rules + i * sizeof(rule), &rule, sizeof(rule)) != 0)
            return false;
        send = ns_send_name((enum ns_send)rule.send);
        if (rule.applies && !(send && strcmp(send, "observe") == 0))
            return true;
    }
    return false;
}

static bool has_shim(const struct ns_proc *proc)
{
    static struct ns_loaded loaded;

    return ns_loaded_find(proc, &loaded) == 0 && loaded.state == NS_LOADED_YES &&
           loaded.status.state == NS_STATUS_ACTIVE && acts(proc, &loaded.status);
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
        snprintf(curable->reason, sizeof(curable->reason), "%s%s", reason ? "it " : "",
                 reason ? reason : "");
    }
    close(fd);
}

void ns_diagnosed_process_look(struct ns_diagnosed_process *process)
{
    struct ns_proc proc;

    if (ns_proc_open(process->pid, &proc) != 0)
        return;
    process->is_apart = proc.user != geteuid() || ns_proc_lives_elsewhere(&proc);
    if (ns_proc_look(&proc) == 0) {
        snprintf(process->exe, sizeof(process->exe), "%s", proc.exe);
        process->has_shim = has_shim(&proc);
        judge_reach(&proc, &process->curable);
    }
    ns_proc_name(&proc, process->name, sizeof(process->name));
    ns_proc_close(&proc);
}
