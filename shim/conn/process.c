/* SPDX-License-Identifier: MIT */
/* See process.h. Owns the knowledge about children that share this memory. */
#include "conn/process.h"

#include "base/system.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

_Thread_local pid_t ns_vfork_parent;
_Atomic pid_t ns_clone_parent;

_Atomic unsigned ns_process_filters;
_Atomic uint32_t ns_process_children, ns_process_began;
static _Atomic pid_t maker; /* this process, once it has made a socket; or: */
enum { SEVERAL = -1 };      /* processes share this memory and the descriptors: no pid tells */

bool ns_process_has_other_fds(void)
{
    if (ns_process_is_disabled())
        return false;
    pid_t self = getpid(), parent = atomic_load(&ns_clone_parent);
    if (ns_vfork_parent == self)
        ns_vfork_parent = 0; /* the child has ended or become another program */
    return (parent && parent != self) || ns_vfork_parent != 0;
}

bool ns_process_has_threads(void)
{
    struct statx tasks;
    if (ns_process_is_disabled())
        return false;
    /* A directory's link count is the number of its subdirectories plus two. */
    return NS_QUIETLY(NS_SYSTEM(SYS_statx, AT_FDCWD, "/proc/self/task", 0l, (long)STATX_NLINK,
                                &tasks)) == 0 &&
           tasks.stx_nlink > 3;
}

uint32_t ns_process_makes(void)
{
    if (!atomic_load_explicit(&maker, memory_order_relaxed) && !ns_process_is_disabled())
        atomic_store(&maker, getpid());
    return atomic_load_explicit(&ns_process_children, memory_order_relaxed);
}

void ns_process_shares_all(void)
{
    atomic_store(&maker, SEVERAL);
}

void ns_process_notice(void)
{
    if (maker > 0 && maker != getpid())
        ns_process_forked(true);
}

void ns_process_forked(bool shares)
{
    if (shares) {
        /* One more, for what a thread of the parent has made since the parent counted this child.
         */
        atomic_store(&ns_process_began, atomic_fetch_add(&ns_process_children, 1) + 1);
        atomic_store(&maker, 0);
    }
    if (atomic_load(&ns_clone_parent)) /* the parent's children share the parent's memory */
        atomic_store(&ns_clone_parent, 0);
    if (ns_vfork_parent && ns_vfork_parent != NS_PROCESS_NONE)
        ns_vfork_parent = 0;
}
