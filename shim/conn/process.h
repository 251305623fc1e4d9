/* SPDX-License-Identifier: MIT */
/* Whose descriptors a call is about. A child of vfork, or of clone() with CLONE_VM, runs in this
 * memory with its own descriptors, and so does a thread after unshare(CLONE_FILES). What they do to
 * their descriptors must not change the table. */
#ifndef NS_PROCESS_H
#define NS_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Of this thread: the process that last called vfork, until it is found to run again; 0: none;
 * NS_PROCESS_NONE: the thread has its own descriptors. */
extern _Thread_local pid_t ns_vfork_parent;
enum { NS_PROCESS_NONE = -1 };

/* The process whose clone() with CLONE_VM made a child, which may use this memory for ever, since
 * nobody tells when it ends. 0 if no such child was made. A later fork that the library does not
 * see, like one by inline assembler, copies this. It is taken for such a child, and left alone. */
extern _Atomic pid_t ns_clone_parent;

bool ns_process_has_other_fds(void);

/* Does the caller use a different descriptor table? Two loads, and a getpid() once memory was
 * shared. */
static inline bool ns_has_other_fds(void)
{
    return __builtin_expect(ns_vfork_parent != 0 ||
                                atomic_load_explicit(&ns_clone_parent, memory_order_relaxed),
                            0) &&
           ns_process_has_other_fds();
}

/* Does the process have several threads? Then one that unshares its descriptors (CLONE_FILES,
 * CLOSE_RANGE_UNSHARE) leaves the table to the others. */
bool ns_process_has_threads(void);

/* Seccomp filters that are installed, or are being installed by any thread. While there is one,
 * every socket is left alone, without any system call: a filter may kill the process for one. The
 * table stays, for options that could not be undone. */
extern _Atomic unsigned ns_process_filters;
static inline bool ns_process_is_disabled(void)
{
    return atomic_load_explicit(&ns_process_filters, memory_order_relaxed) != 0;
}

/* In a child that has its own memory. shares: it knows connections of its parent. Writes nothing
 * that need not be written, since that would copy a page. */
void ns_process_forked(bool shares);

/* How many children of this process and its forebears may have their connections, too; and how many
 * there were when it began. ns_process_notice counts a fork by a raw system call. */
extern _Atomic uint32_t ns_process_children, ns_process_began;

/* A socket is made. Returns ns_process_children. */
uint32_t ns_process_makes(void);

/* Before a clone() whose child shares this memory and the descriptors and is no thread: their
 * sockets belong to both. */
void ns_process_shares_all(void);

/* Before sockets are changed because of another program: notices a fork by the process's id. */
void ns_process_notice(void);

#endif
