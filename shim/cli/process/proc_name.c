/* SPDX-License-Identifier: MIT */
/* Owns the question what a process was called when it was started. A process may write over its
 * arguments and its name, and many daemons do: their titles are not to be taken for either. Not
 * async-signal-safe. */
#include "cli/process/proc.h"

#include "cli/cli.h"

#include "base/path.h"

#include <stdio.h>
#include <string.h>

/* The executable's base name, in buffer. */
static const char *executable(const struct ns_proc *proc, char *buffer, size_t size)
{
    snprintf(buffer, size, "%.*s", (int)ns_path_length(proc->exe), proc->exe);
    return ns_path_base(buffer);
}

/* Is argv[0] a title: none of the names that the file has, and it has a blank, or nothing behind it
 * but what setproctitle has wiped out? */
static bool is_title(const struct ns_proc *proc, const char *argv0)
{
    char exe[PATH_MAX];
    const char *base = ns_path_base(argv0), *argument;
    unsigned n = 1;

    if (*base == '-') /* a login shell */
        base++;
    if (strcmp(base, executable(proc, exe, sizeof(exe))) == 0 ||
        strcmp(base, ns_path_base(proc->execfn)) == 0)
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
    const char *name = ns_path_program(proc->execfn, executable(proc, exe, sizeof(exe)));

    /* The kernel has the beginning of it, unless the process has given itself another name. */
    if (strncmp(proc->name, name, KERNEL_MOST) != 0)
        name = *exe ? ns_path_base(exe) : proc->name;
    snprintf(buffer, size, "%s", name);
    return ns_sanitize(buffer);
}
