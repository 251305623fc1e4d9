/* SPDX-License-Identifier: MIT */
/* See process.h. Owns what is known of children that share this memory. */
#include "conn/process.h"

#include "base/system.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

_Thread_local pid_t ns_vfork_parent;
_Atomic pid_t ns_clone_parent;

_Atomic bool ns_process_disabled;
_Atomic uint8_t ns_process_generation;

void ns_process_disable(void)
{
    atomic_store(&ns_process_disabled, true);
}

bool ns_process_has_other_fds(void)
{
    if (ns_process_is_disabled())
        return false;
    pid_t self = getpid(), parent = ns_clone_parent;
    if (ns_vfork_parent == self)
        ns_vfork_parent = 0; /* the child has ended or become another program */
    return (parent && parent != self) || ns_vfork_parent != 0;
}

bool ns_process_has_threads(void)
{
    struct stat tasks;
    int saved = errno;
    if (ns_process_is_disabled())
        return false;
    /* A directory's link count is that of its subdirectories, and two. */
    long result = NS_SYSTEM(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &tasks, 0);
    bool has = result == 0 && tasks.st_nlink > 3;
    errno = saved;
    return has;
}

void ns_process_forked(bool shares)
{
    if (shares) {
        uint8_t next = (uint8_t)(ns_process_generation + 1);
        atomic_store(&ns_process_generation, next ? next : 1);
    }
    if (ns_clone_parent)
        ns_clone_parent = 0;
    if (ns_vfork_parent && ns_vfork_parent != NS_PROCESS_NONE)
        ns_vfork_parent = 0;
}
