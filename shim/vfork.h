/* SPDX-License-Identifier: MIT */
/* A child of vfork runs in our memory, on our thread's stack and TLS, until it execs or exits. */
#ifndef NS_VFORK_H
#define NS_VFORK_H

#include "mutant.h"

#include <stdbool.h>
#include <sys/types.h>

/* The pid of the process that last called vfork on this thread; 0: none since it was last seen. */
extern _Thread_local pid_t ns_vfork_parent;

bool ns_vfork_look(void);

/* Are we a vfork child? One load where this thread never called vfork; one getpid() a call in the
 * child, and once in the parent after it. Async-signal-safe. */
static inline bool ns_in_vfork_child(void)
{
    return __builtin_expect(ns_vfork_parent != 0, 0) && !NS_MUTANT(vfork_guard) && ns_vfork_look();
}

#endif
