/* SPDX-License-Identifier: MIT */
/* The exported calls that make, replace and end processes, and those that reach the kernel by
 * number. Bytes that are held would outlive an exec or an exit by 200 ms where another process has
 * the socket too: they are pushed first. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"
#include "conn/report.h"
#include "hold/deadline.h"

#include <alloca.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

extern char **environ;

/* In no header of libc's. */
int capset(void *header, const void *data);

/* A child that shares our sockets. replaced: to become another program. Asking whether we are
 * elsewhere also forgets an earlier vfork, which the new child must not inherit. */
static void before_child(bool replaced)
{
    if (ns_is_elsewhere())
        return;
    ns_handover_begins(replaced);
    ns_deadline_stop(); /* programs count their threads here (Python 3.12 warns) */
}

/* In a child that has its own memory. */
static void in_child(void)
{
    ns_process_forked();
    ns_handover_forked();
    ns_deadline_forked();
    ns_report_forked();
}

NS_EXPORT pid_t fork(void)
{
    before_child(false);
    pid_t pid = NS_REAL(fork)();
    if (pid == 0)
        in_child();
    return pid;
}

NS_EXPORT pid_t _Fork(void)
{
    before_child(false);
    pid_t pid = NS_REAL(_Fork)();
    if (pid == 0)
        in_child();
    return pid;
}

/* Two forks inside libc; who returns is the child. */
NS_EXPORT int daemon(int keep_directory, int keep_files)
{
    before_child(false);
    int result = NS_REAL(daemon)(keep_directory, keep_files);
    if (result == 0) {
        if (!keep_files) /* 0 to 2 are /dev/null now */
            for (int fd = 0; fd < 3; fd++)
                ns_life_closing(fd);
        in_child();
    }
    return result;
}

NS_EXPORT pid_t forkpty(int *master, char *name, const struct termios *terminal,
                        const struct winsize *size)
{
    before_child(false);
    pid_t pid = NS_REAL(forkpty)(master, name, terminal, size);
    if (pid == 0) {
        for (int fd = 0; fd < 3; fd++) /* the terminal now */
            ns_life_closing(fd);
        in_child();
    }
    return pid;
}

/* In a vfork child the debts are the parent's, which settles them itself. */
static void before_exec(void)
{
    if (!ns_is_elsewhere())
        ns_handover_begins(true); /* a program that replaces us knows as little as a child */
}

NS_EXPORT int execve(const char *path, char *const *arguments, char *const *environment)
{
    before_exec();
    return NS_REAL(execve)(path, arguments, environment);
}

NS_EXPORT int execv(const char *path, char *const *arguments)
{
    before_exec();
    return NS_REAL(execv)(path, arguments);
}

NS_EXPORT int execvp(const char *file, char *const *arguments)
{
    before_exec();
    return NS_REAL(execvp)(file, arguments);
}

NS_EXPORT int execvpe(const char *file, char *const *arguments, char *const *environment)
{
    before_exec();
    return NS_REAL(execvpe)(file, arguments, environment);
}

NS_EXPORT int fexecve(int fd, char *const *arguments, char *const *environment)
{
    before_exec();
    return NS_REAL(fexecve)(fd, arguments, environment);
}

NS_EXPORT int execveat(int directory, const char *path, char *const *arguments,
                       char *const *environment, int flags)
{
    before_exec();
    return NS_REAL(execveat)(directory, path, arguments, environment, flags);
}

/* The list forms, as an array. first is the first argument, list the others; the array lives on the
 * caller's stack, since a child of vfork may not allocate. */
static size_t list_length(va_list list, const char *first)
{
    size_t count = 1;
    if (first)
        while (va_arg(list, const char *))
            count++;
    return count;
}

static void list_copy(char **array, size_t count, const char *first, va_list list)
{
    array[0] = (char *)(uintptr_t)first;
    for (size_t i = 1; i < count; i++)
        array[i] = va_arg(list, char *);
    array[count] = NULL;
}

#define NS_LIST_TO_ARRAY(array, first)                                                             \
    va_list list;                                                                                  \
    va_start(list, first);                                                                         \
    size_t count = list_length(list, first);                                                       \
    va_end(list);                                                                                  \
    char **array = alloca((count + 1) * sizeof *array);                                            \
    va_start(list, first);                                                                         \
    list_copy(array, count, first, list)

NS_EXPORT int execl(const char *path, const char *first, ...)
{
    NS_LIST_TO_ARRAY(arguments, first);
    va_end(list);
    before_exec();
    return NS_REAL(execv)(path, arguments);
}

NS_EXPORT int execlp(const char *file, const char *first, ...)
{
    NS_LIST_TO_ARRAY(arguments, first);
    va_end(list);
    before_exec();
    return NS_REAL(execvp)(file, arguments);
}

NS_EXPORT int execle(const char *path, const char *first, ...)
{
    NS_LIST_TO_ARRAY(arguments, first);
    if (arguments[0])
        (void)va_arg(list, const char *); /* the NULL before the environment */
    char *const *environment = va_arg(list, char *const *);
    va_end(list);
    before_exec();
    return NS_REAL(execve)(path, arguments, environment);
}

NS_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attributes, char *const *arguments,
                          char *const *environment)
{
    before_child(true);
    return NS_REAL(posix_spawn)(pid, path, actions, attributes, arguments, environment);
}

NS_EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const *arguments,
                           char *const *environment)
{
    before_child(true);
    return NS_REAL(posix_spawnp)(pid, file, actions, attributes, arguments, environment);
}

NS_EXPORT int system(const char *command)
{
    before_child(true);
    return NS_REAL(system)(command);
}

NS_EXPORT FILE *popen(const char *command, const char *mode)
{
    before_child(true);
    return NS_REAL(popen)(command, mode);
}

/* The process ends, and others may have its sockets, too. */
static void before_end(void)
{
    if (!ns_is_elsewhere())
        ns_settle_process();
    ns_report_end();
}

NS_EXPORT void abort(void)
{
    before_end();
    NS_REAL(abort)();
    __builtin_unreachable();
}

NS_EXPORT void quick_exit(int status)
{
    before_end();
    NS_REAL(quick_exit)(status);
    __builtin_unreachable();
}

NS_EXPORT void _exit(int status)
{
    before_end();
    NS_REAL(_exit)(status);
    __builtin_unreachable();
}

NS_EXPORT void _Exit(int status)
{
    before_end();
    NS_REAL(_Exit)(status);
    __builtin_unreachable();
}

/* --- processes of one thread, privileges, descriptors of one's own --- */

/* A user namespace wants a process of one thread (unshare(2), setns(2)). The kernel may still count
 * ours for a moment after it has ended. Returns whether to try again; errno is saved after a
 * success that was not the first try. */
static bool once_more(int result, int *tries, int saved)
{
    struct timespec moment = {.tv_nsec = 50000};
    if (result == 0) {
        errno = saved;
        return false;
    }
    if (errno != EINVAL || --*tries < 0 || !ns_deadline_ready())
        return false;
    NS_REAL(nanosleep)(&moment, NULL);
    return true;
}

enum { TRIES = 20 };

/* The thread that has just left the others' descriptors. */
static void leave_table(void)
{
    ns_vfork_parent = NS_PROCESS_NONE;
}

NS_EXPORT int unshare(int flags)
{
    int result, tries = TRIES, saved = errno;
    ns_deadline_stop();
    bool leaves = flags & CLONE_FILES && !ns_is_elsewhere() && ns_process_has_threads();
    do
        result = NS_REAL(unshare)(flags);
    while (once_more(result, &tries, saved));
    if (result == 0 && leaves)
        leave_table();
    return result;
}

NS_EXPORT int setns(int fd, int type)
{
    int result, tries = TRIES, saved = errno;
    ns_deadline_stop();
    do
        result = NS_REAL(setns)(fd, type);
    while (once_more(result, &tries, saved));
    return result;
}

/* Afterwards, too: another thread may have held a byte meanwhile, and have started it anew with
 * what is being given up. */
#define NS_PRIVILEGES(CALL)                                                                        \
    do {                                                                                           \
        ns_deadline_stop();                                                                        \
        int result = CALL;                                                                         \
        ns_deadline_stop();                                                                        \
        return result;                                                                             \
    } while (0)

NS_EXPORT int capset(void *header, const void *data)
{
    NS_PRIVILEGES(NS_REAL(capset)(header, data));
}

NS_EXPORT int setuid(uid_t user)
{
    NS_PRIVILEGES(NS_REAL(setuid)(user));
}

NS_EXPORT int setgid(gid_t group)
{
    NS_PRIVILEGES(NS_REAL(setgid)(group));
}

NS_EXPORT int seteuid(uid_t effective)
{
    NS_PRIVILEGES(NS_REAL(seteuid)(effective));
}

NS_EXPORT int setegid(gid_t effective)
{
    NS_PRIVILEGES(NS_REAL(setegid)(effective));
}

NS_EXPORT int setreuid(uid_t real, uid_t effective)
{
    NS_PRIVILEGES(NS_REAL(setreuid)(real, effective));
}

NS_EXPORT int setregid(gid_t real, gid_t effective)
{
    NS_PRIVILEGES(NS_REAL(setregid)(real, effective));
}

NS_EXPORT int setresuid(uid_t real, uid_t effective, uid_t saved)
{
    NS_PRIVILEGES(NS_REAL(setresuid)(real, effective, saved));
}

NS_EXPORT int setresgid(gid_t real, gid_t effective, gid_t saved)
{
    NS_PRIVILEGES(NS_REAL(setresgid)(real, effective, saved));
}

NS_EXPORT int setgroups(size_t count, const gid_t *groups)
{
    NS_PRIVILEGES(NS_REAL(setgroups)(count, groups));
}

NS_EXPORT int initgroups(const char *user, gid_t group)
{
    NS_PRIVILEGES(NS_REAL(initgroups)(user, group));
}

/* The child of clone() shares what the flags say. */
static void before_clone(unsigned long flags)
{
    if (ns_is_elsewhere())
        return;
    if (!(flags & CLONE_VM))
        before_child(false);
    else if (!(flags & (CLONE_THREAD | CLONE_FILES)))
        atomic_store(&ns_clone_parent, getpid());
}

/* A child that shares our memory and not our descriptors. Every clone() takes at most three
 * arguments more, of register size. */
NS_EXPORT int clone(int (*body)(void *), void *stack, int flags, void *argument, ...)
{
    long more[3];
    va_list arguments;
    va_start(arguments, argument);
    for (int i = 0; i < 3; i++)
        more[i] = va_arg(arguments, long);
    va_end(arguments);
    before_clone((unsigned long)flags);
    return NS_REAL(clone)(body, stack, flags, argument, more[0], more[1], more[2]);
}

/* A filter may kill on setsockopt, and even asking whether it would can kill. */
static void stand_aside(void)
{
    if (ns_is_elsewhere())
        return;
    ns_deadline_stop();
    ns_handover_stand_aside();
}

static bool is_futex_wait(long operation)
{
    switch ((int)operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI:
    case FUTEX_WAIT_REQUEUE_PI:
        return true;
    default:
        return false;
    }
}

/* Programs also ask whether there are filters at all, with one that is NULL and cannot be set. */
static bool sets_filter(bool strict, bool filter, long program)
{
    return strict || (filter && program);
}

/* By number the privileges of one thread only, as is_per_thread. */
static bool sets_privileges(long number)
{
    switch (number) {
    case SYS_capset:
    case SYS_setuid:
    case SYS_setgid:
    case SYS_setreuid:
    case SYS_setregid:
    case SYS_setresuid:
    case SYS_setresgid:
    case SYS_setgroups:
        return true;
    default:
        return false;
    }
}

/* The numbers that matter: those by which a descriptor is closed, a thread waits, a filter or a
 * signal handler comes, or a descriptor arrives. */
static void before_number(long number, const long argument[6])
{
    switch (number) {
    case SYS_close:
        if (!ns_is_elsewhere())
            ns_life_closing((int)argument[0]);
        break;
    case SYS_futex:
        if (is_futex_wait(argument[1]))
            ns_before_wait();
        break;
    case SYS_exit_group:
        before_end();
        break;
    case SYS_execve:
    case SYS_execveat:
        before_exec();
        break;
    case SYS_clone:
        before_clone((unsigned long)argument[0]);
        break;
#ifdef SYS_fork
    case SYS_fork:
#endif
#ifdef SYS_clone3
    case SYS_clone3:
#endif
        before_clone(0);
        break;
    case SYS_seccomp:
        if (sets_filter(argument[0] == SECCOMP_SET_MODE_STRICT,
                        argument[0] == SECCOMP_SET_MODE_FILTER, argument[2]))
            stand_aside();
        break;
#ifdef SYS_dup2 /* newer ports have dup3 only */
    case SYS_dup2:
#endif
    case SYS_dup3:
        if (!ns_is_elsewhere())
            ns_before_replacing((int)argument[0], (int)argument[1]);
        break;
#ifdef SYS_close_range
    case SYS_close_range:
        ns_before_close_range((unsigned)argument[0], (unsigned)argument[1], (int)argument[2]);
        break;
#endif
#ifdef SYS_io_uring_setup
    case SYS_io_uring_setup: /* it may write to any socket, past us */
    case SYS_io_uring_register:
#endif
    case SYS_io_setup:
    case SYS_io_submit:
        ns_handover_all_unseen();
        break;
    case SYS_write:
    case SYS_writev:
    case SYS_pwritev2:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_sendfile:
        ns_handover_unseen((int)argument[0]);
        break;
    case SYS_splice:
        ns_handover_unseen((int)argument[2]);
        break;
#ifdef SYS_io_uring_enter
    case SYS_io_uring_enter:
        if (argument[2]) /* min_complete */
            ns_before_wait();
        break;
#endif
    default:
        break;
    }
}

/* After one that worked: the numbers by which a descriptor comes into the process. */
static void after_number(long number, const long argument[6], long result)
{
    switch (number) {
    case SYS_socket:
        ns_life_created((int)result, (int)argument[0], (int)argument[1], (int)argument[2]);
        break;
#ifdef SYS_dup2
    case SYS_dup2:
#endif
    case SYS_dup3:
    case SYS_dup:
        ns_handover_duplicated((int)argument[0], (int)result);
        break;
    case SYS_clone:
        if (result == 0 && !((unsigned long)argument[0] & CLONE_VM))
            in_child();
        break;
#ifdef SYS_fork
    case SYS_fork:
#endif
#ifdef SYS_clone3
    case SYS_clone3: /* with our memory it would not come back here */
#endif
        if (result == 0)
            in_child();
        break;
#ifdef SYS_pidfd_getfd
    case SYS_pidfd_getfd:
        ns_life_inherited((int)result);
        break;
#endif
    default:
        break;
    }
}

/* syscall takes up to six arguments of register size; reading six where fewer were passed reads
 * what the registers and the stack happen to hold, and passes it on unused, as libc's own does. */
NS_EXPORT long syscall(long number, ...)
{
    long argument[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        argument[i] = va_arg(arguments, long);
    va_end(arguments);
    switch (number) { /* the C library makes the same of them */
    case SYS_unshare:
        return unshare((int)argument[0]);
    case SYS_setns:
        return setns((int)argument[0], (int)argument[1]);
    case SYS_setsockopt:
        return setsockopt((int)argument[0], (int)argument[1], (int)argument[2],
                          (const void *)argument[3], (socklen_t)argument[4]);
    case SYS_prctl:
        return prctl((int)argument[0], argument[1], argument[2], argument[3], argument[4]);
    default:
        break;
    }
    before_number(number, argument);
    bool stops = sets_privileges(number);
    if (stops)
        ns_deadline_stop();
    long result = NS_REAL(syscall)(number, argument[0], argument[1], argument[2], argument[3],
                                   argument[4], argument[5]);
    if (result >= 0 && !ns_is_elsewhere())
        after_number(number, argument, result);
    if (stops)
        ns_deadline_stop();
    return result;
}

/* Does it change what the kernel keeps for each thread alone? */
static bool is_per_thread(int option)
{
    return option == PR_SET_KEEPCAPS || option == PR_SET_SECUREBITS || option == PR_CAPBSET_DROP ||
           option == PR_CAP_AMBIENT || option == PR_SET_NO_NEW_PRIVS;
}

NS_EXPORT int prctl(int option, ...)
{
    unsigned long argument[4];
    va_list arguments;
    va_start(arguments, option);
    for (int i = 0; i < 4; i++)
        argument[i] = va_arg(arguments, unsigned long);
    va_end(arguments);
    if (option == PR_SET_SECCOMP &&
        sets_filter(argument[0] == SECCOMP_MODE_STRICT, argument[0] == SECCOMP_MODE_FILTER,
                    (long)argument[1]))
        stand_aside();
    if (!is_per_thread(option))
        return NS_REAL(prctl)(option, argument[0], argument[1], argument[2], argument[3]);
    NS_PRIVILEGES(NS_REAL(prctl)(option, argument[0], argument[1], argument[2], argument[3]));
}
