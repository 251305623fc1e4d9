/* SPDX-License-Identifier: MIT */
/* The exported calls that make, replace and end processes, and those that install a seccomp filter.
 * If another process has the socket, too, held bytes would leave 200 ms after an exec or an exit,
 * so they are pushed first. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"
#include "report/report.h"

#include <alloca.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

void ns_in_child(void)
{
    ns_process_forked(ns_fd_any());
    ns_report_forked();
}

#define FORKS(name)                                                                                \
    NS_EXPORT pid_t name(void)                                                                     \
    {                                                                                              \
        ns_handover_begins(NS_FORK);                                                               \
        pid_t pid = NS_REAL(name)();                                                               \
        if (pid == 0)                                                                              \
            ns_in_child();                                                                         \
        return pid;                                                                                \
    }
FORKS(fork)
FORKS(_Fork)

/* Forks inside libc; only the child returns. */
NS_EXPORT int daemon(int keep_directory, int keep_files)
{
    ns_handover_begins(NS_FORK);
    int result = NS_REAL(daemon)(keep_directory, keep_files);
    if (result == 0) {
        if (!keep_files) /* 0 to 2 are /dev/null now */
            for (int fd = 0; fd < 3; fd++)
                ns_socket_closing(fd);
        ns_in_child();
    }
    return result;
}

#define NS_CALL(...)
#define NS_BEFORE(type, name, parameters, arguments, before, failure)                              \
    NS_EXPORT type name parameters                                                                 \
    {                                                                                              \
        before;                                                                                    \
        return NS_REAL(name) arguments;                                                            \
    }
#include "base/calls.def"
#undef NS_CALL

/* The list forms of exec are made as the array forms. The array is on the caller's stack, since a
 * child of vfork may not allocate. Counts the arguments from first on, up to the NULL, and copies
 * them with it to array if that is not NULL. */
static size_t gather(char **array, const char *first, va_list *list)
{
    size_t count = 0;
    for (const char *each = first; each; each = va_arg(*list, const char *)) {
        if (array)
            array[count] = (char *)(uintptr_t)each;
        count++;
    }
    if (array)
        array[count] = NULL;
    return count;
}

#define NS_LIST_TO_ARRAY(array, first)                                                             \
    va_list list;                                                                                  \
    va_start(list, first);                                                                         \
    char **array = alloca((gather(NULL, first, &list) + 1) * sizeof *array);                       \
    va_end(list);                                                                                  \
    va_start(list, first);                                                                         \
    gather(array, first, &list)

#define EXEC_LIST(name, array_form)                                                                \
    NS_EXPORT int name(const char *program, const char *first, ...)                                \
    {                                                                                              \
        NS_LIST_TO_ARRAY(arguments, first);                                                        \
        va_end(list);                                                                              \
        ns_handover_begins(NS_EXEC);                                                               \
        return NS_REAL(array_form)(program, arguments);                                            \
    }
EXEC_LIST(execl, execv)
EXEC_LIST(execlp, execvp)

NS_EXPORT int execle(const char *path, const char *first, ...)
{
    NS_LIST_TO_ARRAY(arguments, first);
    char *const *environment = va_arg(list, char *const *);
    va_end(list);
    ns_handover_begins(NS_EXEC);
    return NS_REAL(execve)(path, arguments, environment);
}

void ns_before_end(void)
{
    if (!ns_has_other_fds())
        ns_flush_process();
    ns_report_end();
}

#define ENDS(name, parameters, arguments)                                                          \
    NS_EXPORT void name parameters                                                                 \
    {                                                                                              \
        ns_before_end();                                                                           \
        NS_REAL(name) arguments;                                                                   \
        __builtin_unreachable();                                                                   \
    }
ENDS(abort, (void), ())
ENDS(quick_exit, (int status), (status))
ENDS(_exit, (int status), (status))
ENDS(_Exit, (int status), (status))

void ns_before_clone(unsigned long flags)
{
    if (ns_has_other_fds()) /* in a child of vfork that calls vfork, the first parent stays noted */
        return;
    if (!(flags & CLONE_VM)) {
        ns_handover_begins(NS_FORK);
    } else if (flags & (CLONE_THREAD | CLONE_FILES)) {
        if (!(flags & CLONE_THREAD))
            ns_process_shares_all();
    } else if (ns_process_is_disabled()) {
        return;
    } else if ((flags & (CLONE_VFORK | CLONE_SETTLS)) == CLONE_VFORK) {
        ns_handover_begins(NS_SPAWN); /* only this thread waits */
        ns_vfork_parent = getpid();
    } else {
        ns_clone_parent = getpid();
    }
}

/* vfork returns twice into its caller's frame, so no C function can call it. The exported one jumps
 * to the address that this returns, with the stack as it was. */
void *ns_vfork_begin(void);
__attribute__((used)) void *ns_vfork_begin(void)
{
    ns_before_clone(CLONE_VM | CLONE_VFORK);
    return (void *)NS_REAL(vfork);
}
NS_JUMPS("vfork", "ns_vfork_begin");

/* The function of a child that has its own memory, and with it a copy of this. */
struct body {
    int (*run)(void *);
    void *argument;
};

static int run_in_child(void *at)
{
    const struct body *body = at;
    ns_in_child();
    int status = body->run(body->argument);
    ns_before_end(); /* libc ends the child by a raw system call */
    return status;
}

/* The child may share this memory and not the descriptors. clone() takes at most three more
 * arguments of register size. */
NS_EXPORT int clone(int (*body)(void *), void *stack, int flags, void *argument, ...)
{
    NS_GATHER(long, more, 3, argument);
    ns_before_clone((unsigned long)flags);
    struct body own = {body, argument};
    bool apart = body && !(flags & CLONE_VM);
    return NS_REAL(clone)(apart ? run_in_child : body, stack, flags, apart ? &own : argument,
                          more[0], more[1], more[2]);
}

NS_EXPORT int unshare(int flags)
{
    bool leaves = flags & CLONE_FILES && !ns_has_other_fds() && ns_process_has_threads();
    int result = NS_REAL(unshare)(flags);
    if (result == 0 && leaves) /* this thread has its own descriptor table now */
        ns_vfork_parent = NS_PROCESS_NONE;
    return result;
}

/* Installs a filter by the call. It may kill the process at a setsockopt, and also at a call that
 * would check for such a filter. So the library is disabled before, and not for long if the kernel
 * refuses the filter. */
#define INSTALLS(installs, call)                                                                   \
    ({                                                                                             \
        bool disables = (installs) && !ns_has_other_fds();                                         \
        if (disables)                                                                              \
            ns_handover_disable();                                                                 \
        __auto_type installed = call;                                                              \
        if (disables && installed < 0)                                                             \
            ns_handover_enable();                                                                  \
        installed;                                                                                 \
    })

long ns_seccomp(long operation, long flags, long program)
{
    return INSTALLS(ns_sets_filter(operation == SECCOMP_SET_MODE_STRICT,
                                   operation == SECCOMP_SET_MODE_FILTER, program),
                    NS_REAL(syscall)(SYS_seccomp, operation, flags, program));
}

NS_EXPORT int prctl(int option, ...)
{
    NS_GATHER(unsigned long, argument, 4, option);
    if (option == PR_SET_TSC && argument[0] == PR_TSC_SIGSEGV)
        ns_push_without_tsc();
    return INSTALLS(option == PR_SET_SECCOMP &&
                        ns_sets_filter(argument[0] == SECCOMP_MODE_STRICT,
                                       argument[0] == SECCOMP_MODE_FILTER, (long)argument[1]),
                    NS_REAL(prctl)(option, argument[0], argument[1], argument[2], argument[3]));
}
NS_IF_TIME64(NS_SECOND_NAME(prctl, __prctl_time64))
