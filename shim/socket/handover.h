/* SPDX-License-Identifier: MIT */
/* Sockets that somebody else uses, too: another descriptor, the C library past us, another process,
 * another program. Nothing here blocks, allocates with malloc or takes a lock; errno is unchanged
 * by all of it; all is async-signal-safe. */
#ifndef NS_HANDOVER_H
#define NS_HANDOVER_H

#include <stdbool.h>

/* from has a duplicate, to, in this process. */
void ns_handover_duplicated(int from, int to);

/* The process was started with fd, by somebody who means it to use it on stdio: it is given its
 * rule at once, since its reads and writes may be none of the calls that we see. */
void ns_handover_started_with(int fd);

/* Writes to fd will come that we do not see (stdio, another process): push, set what would be set
 * later, and never hold or join there again. */
void ns_handover_unseen(int fd);

/* The same of every connection, now and from now on (io_uring). */
void ns_handover_all_unseen(void);

/* Before a fork or an exec: push what any thread holds, and give the kernel what waits for a rule.
 * replaced: another program will use the sockets, perhaps without us. */
void ns_handover_begins(bool replaced);

/* In a child of fork. */
void ns_handover_forked(void);

/* Leave every socket alone from now on, without any system call of ours after this one: push what
 * is held, and give back what was set. */
void ns_handover_disable(void);

#endif
