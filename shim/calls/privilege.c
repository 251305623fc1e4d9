/* SPDX-License-Identifier: MIT */
/* The exported calls for which it matters that the process has one thread, or that each of its
 * threads has the same privileges and descriptors: the deadline thread ends before them. Also
 * those that install a seccomp filter. As async-signal-safe as the calls themselves. */
#include "calls/calls.h"
#include "hold/deadline.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>

/* In no header of libc's. */
int capset(void *header, const void *data);

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
    if (errno != EINVAL || --*tries < 0 || !ns_deadline_ready() || ns_process_is_aside())
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

/* A filter may kill on setsockopt, and even asking whether it would can kill. */
void ns_before_filter(void)
{
    if (ns_is_elsewhere())
        return;
    ns_deadline_stop();
    ns_handover_stand_aside();
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
        ns_sets_filter(argument[0] == SECCOMP_MODE_STRICT, argument[0] == SECCOMP_MODE_FILTER,
                       (long)argument[1]))
        ns_before_filter();
    if (!is_per_thread(option))
        return NS_REAL(prctl)(option, argument[0], argument[1], argument[2], argument[3]);
    NS_PRIVILEGES(NS_REAL(prctl)(option, argument[0], argument[1], argument[2], argument[3]));
}
