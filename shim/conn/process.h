/* SPDX-License-Identifier: MIT */
/* Which process the descriptors belong to that a call speaks of. A child of vfork, or of clone()
 * with its parent's memory, runs in our memory with descriptors of its own, and so does a thread
 * that has left the others' descriptors: what they do to theirs must not reach the table. */
#ifndef NS_PROCESS_H
#define NS_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/* On this thread: the pid of the process that last called vfork, 0 if none has since that was last
 * looked at; NS_PROCESS_NONE for a thread that has left the others' descriptors. */
extern _Thread_local pid_t ns_vfork_parent;
enum { NS_PROCESS_NONE = -1 };

/* The pid of the process that has made a child that shares its memory for longer; 0: none. */
extern _Atomic pid_t ns_clone_parent;

bool ns_process_has_other_fds(void);

/* Are the descriptors of whoever calls this others than those of the table? One load or two where
 * nobody ever shared memory; otherwise a getpid(). Async-signal-safe; errno unchanged. */
static inline bool ns_has_other_fds(void)
{
    return __builtin_expect(ns_vfork_parent != 0 ||
                                atomic_load_explicit(&ns_clone_parent, memory_order_relaxed) != 0,
                            0) &&
           ns_process_has_other_fds();
}

/* This thread is about to have descriptors of its own (CLOSE_RANGE_UNSHARE, CLONE_FILES), if there
 * is another one to share them with. Returns whether there is. */
bool ns_process_has_threads(void);

/* Every socket is left alone from now on, without any system call of ours: a seccomp filter may
 * kill whoever makes one. The table stays, for what cannot be given back. */
void ns_process_disable(void);

extern _Atomic bool ns_process_disabled;
static inline bool ns_process_is_disabled(void)
{
    return atomic_load_explicit(&ns_process_disabled, memory_order_relaxed);
}

/* In a child that has its own memory. */
void ns_process_forked(void);

#endif
