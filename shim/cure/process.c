/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim cure` knows of the processes whose sockets it changes: their rules, and
 * whether the library cures them already. It only reads. */
#include "cure/cure.h"

#include "base/path.h"
#include "process/loaded.h"
#include "process/scope.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS_MOST = 256, ARGUMENTS_BYTES = 64 << 10 };

/* The rules for a running process, as the library would choose them there; none without memory. */
static void build_rules(struct ns_ruleset *rules, const struct ns_policy *policy,
                        const struct ns_proc *proc)
{
    static char bytes[ARGUMENTS_BYTES + 1];
    char *arguments[ARGUMENTS_MOST + 1];
    size_t size = ns_proc_words(proc, bytes, ARGUMENTS_BYTES), n = 0;
    for (size_t at = 0; at < size && n < ARGUMENTS_MOST; at += strlen(bytes + at) + 1)
        arguments[n++] = bytes + at;
    arguments[n] = NULL;
    char exe[PATH_MAX];
    snprintf(exe, sizeof exe, "%.*s", (int)ns_path_length(proc->exe), proc->exe);
    const struct ns_process process = {.exe = *exe ? exe : NULL,
                                       .execfn = *proc->execfn ? proc->execfn : NULL,
                                       .argv0 = arguments[0],
                                       .args = n ? arguments + 1 : NULL};
    ns_ruleset_build(rules, policy, &process);
}

static struct ns_cure_process *examine(const struct ns_policy *policy, const struct ns_owned *place)
{
    struct ns_proc proc;
    int error = ns_proc_open(place->pid, &proc);
    if (error && error != -ETIMEDOUT)
        return NULL;
    struct ns_cure_process *process = ns_allocate(1, sizeof *process);
    process->pid = place->pid;
    process->started = place->started;
    process->is_stuck = error != 0;
    if (error) {
        snprintf(process->name, sizeof process->name, "%s", proc.name);
        return process;
    }
    ns_proc_look(&proc); /* without the right to do so, patterns do not match */
    ns_proc_name(&proc, process->name, sizeof process->name);
    process->has_library = ns_loaded_works(&proc);
    build_rules(&process->rules, policy, &proc);
    ns_proc_close(&proc);
    return process;
}

struct ns_cure_process *ns_cure_process(struct ns_cure_process **list,
                                        const struct ns_policy *policy,
                                        const struct ns_owned *place)
{
    struct ns_cure_process *process = *list;
    while (process && (process->pid != place->pid || process->started != place->started))
        process = process->next;
    if (process)
        return process;
    process = examine(policy, place);
    if (process) {
        process->next = *list;
        *list = process;
    }
    return process;
}

void ns_cure_forget_processes(struct ns_cure_process **list)
{
    while (*list) {
        struct ns_cure_process *process = *list;
        *list = process->next;
        ns_ruleset_release(&process->rules);
        free(process);
    }
}

/* The unit's name is the last or an inner component of the path. */
static bool take_if_of_unit(void *context, pid_t pid)
{
    struct ns_cure *cure = context;
    char path[64], line[4096];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    NS_AUTO_FCLOSE FILE *stream = fopen(path, "re");
    while (stream && !found && fgets(line, sizeof line, stream))
        for (const char *name = strtok(line, "/\n"); name && !found; name = strtok(NULL, "/\n"))
            found = ns_group_is_of_unit(name, cure->unit);
    if (found)
        ns_owners_add(&cure->owners, pid);
    return true;
}

void ns_cure_add_unit(struct ns_cure *cure)
{
    ns_proc_each(take_if_of_unit, cure);
}
