/* SPDX-License-Identifier: MIT */
/* vfork. It returns twice into its caller's frame, so no C function can call it. The exported one
 * notes the caller's process and jumps to libc's, with the stack as it was. Async-signal-safe, as
 * vfork is. */
#include "calls/calls.h"

/* Called from the stub; returns where to jump. */
void *ns_vfork_begin(void);
__attribute__((used)) void *ns_vfork_begin(void)
{
    /* In a child of vfork that calls vfork, the first parent stays noted. */
    if (!ns_has_other_fds() && !ns_process_is_disabled()) {
        ns_handover_begins(NS_SPAWN);
        ns_vfork_parent = getpid();
    }
    return (void *)NS_REAL(vfork);
}

NS_JUMPS("vfork", "ns_vfork_begin");
