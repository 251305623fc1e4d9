/* SPDX-License-Identifier: MIT */
/* The exported calls that put a process into another namespace. A user namespace wants a process of
 * one thread (unshare(2), setns(2)), so ours ends, and starts again when it is needed. */
#include "interpose.h"
#include "vfork.h"

#include <sched.h>

bool ns_without_thread(void)
{
    if (!ns_flusher_running() || ns_in_vfork_child())
        return false;
    ns_flusher_stop(true);
    return true;
}

/* The kernel may still count it for a moment after it has been joined. */
static bool once_more(int result, int *tries)
{
    struct timespec moment = {.tv_nsec = 50000};
    if (result == 0 || errno != EINVAL || --*tries < 0)
        return false;
    NS_REAL(nanosleep)(&moment, NULL);
    return true;
}

NS_EXPORT int unshare(int flags)
{
    int result, tries = 20, saved = errno;
    if (!ns_without_thread())
        return NS_REAL(unshare)(flags);
    do
        result = NS_REAL(unshare)(flags);
    while (once_more(result, &tries));
    if (result == 0)
        errno = saved;
    ns_flusher_resume();
    return result;
}

NS_EXPORT int setns(int fd, int type)
{
    int result, tries = 20, saved = errno;
    if (!ns_without_thread())
        return NS_REAL(setns)(fd, type);
    do
        result = NS_REAL(setns)(fd, type);
    while (once_more(result, &tries));
    if (result == 0)
        errno = saved;
    ns_flusher_resume();
    return result;
}
