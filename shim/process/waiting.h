/* SPDX-License-Identifier: MIT */
/* Children of the command that do what another user's process may delay for ever. One that even
 * SIGKILL does not end is not waited for, but remembered: there may be few. */
#ifndef NS_WAITING_H
#define NS_WAITING_H

#include <stdbool.h>
#include <sys/types.h>

/* Who has started a process. In a user namespace below this one he may have many numbers: who has
 * made the outermost one counts or, if that is root, the namespace itself (its inode, which is
 * greater than usual users' numbers). To be asked before the process is: it may end meanwhile. */
uid_t ns_waiting_user(pid_t pid);

/* May no further child have to wait for a process of this user? One user may not use up all. */
bool ns_waiting_is_full(uid_t user);

/* Is it at work, or does it wait for a processor, and not for the kernel? */
bool ns_waiting_is_running(pid_t child);

/* Ends a child, which was busy with a process of this user. If it is stuck, it gets a moment. */
void ns_waiting_end(pid_t child, uid_t user);

/* From now on, those that are stuck count for no user, but there may still be few. */
void ns_waiting_forgive(void);

/* Is it a child that has not ended yet? */
bool ns_waiting_has(pid_t pid);

#endif
