/* SPDX-License-Identifier: MIT */
/* Owns the question what a process was called when it was started. A process may write over its
 * arguments and its name, and many daemons do: their titles are not to be taken for either. Not
 * async-signal-safe. */
#include "cli/proc.h"

#include <stdio.h>
#include <string.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The executable's base name, in buffer: an upgraded program's "app (deleted)" is app. */
static const char *executable(const struct ns_proc *proc, char *buffer, size_t size)
{
    static const char deleted[] = " (deleted)";
    const char *base = base_name(proc->exe);
    size_t length = strlen(base), suffix = sizeof(deleted) - 1;

    if (length > suffix && strcmp(base + length - suffix, deleted) == 0)
        length -= suffix;
    snprintf(buffer, size, "%.*s", (int)length, base);
    return buffer;
}

/* Is argv[0] a title: none of the names that the file has, and it has a blank, or nothing behind it
 * but what setproctitle has wiped out? */
static bool is_title(const struct ns_proc *proc, const char *argv0)
{
    char exe[PATH_MAX];
    const char *base = base_name(argv0), *argument;
    unsigned n = 1;

    if (*base == '-') /* a login shell */
        base++;
    if (strcmp(base, executable(proc, exe, sizeof(exe))) == 0 ||
        strcmp(base, base_name(proc->execfn)) == 0)
        return false;
    if (strchr(argv0, ' '))
        return true;
    while ((argument = ns_proc_argument(proc, n)) && *argument == '\0')
        n++;
    return !argument && n > 1;
}

const char *ns_proc_argv0(const struct ns_proc *proc)
{
    const char *argv0 = ns_proc_argument(proc, 0);

    if (argv0 && !is_title(proc, argv0))
        return argv0;
    return proc->execfn[0] ? proc->execfn : proc->exe;
}

const char *ns_proc_name(const struct ns_proc *proc, char *buffer, size_t size)
{
    enum { KERNEL_MOST = 15 }; /* TASK_COMM_LEN without its end */
    char exe[PATH_MAX];

    executable(proc, exe, sizeof(exe));
    if (*exe == '\0' || strncmp(proc->name, base_name(proc->execfn), KERNEL_MOST) == 0)
        snprintf(buffer, size, "%s", proc->name);
    else
        snprintf(buffer, size, "%s", exe);
    return ns_proc_tame(buffer);
}
