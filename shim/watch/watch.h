/* SPDX-License-Identifier: MIT */
/* Samples the TCP connections of processes from outside, by sock_diag(7). Nothing is preloaded,
 * stopped or changed. A connection belongs to the process that has the inode of its socket;
 * processes may be in other network namespaces. For a single thread. Errors are -errno. */
#ifndef NS_WATCH_H
#define NS_WATCH_H

#include "watch/watched.h"

#include <sys/types.h>

struct ns_watch;

/* Watch processes, whose pids end with a 0, and their children, now and later, with the other ends
 * of their connections if they are on this host, and some connections of the processes there to
 * further servers; without a pid: every process that the caller may examine.
 * -EPERM: no permission to enter the network namespace of **pids; -EACCES: none to examine it;
 * -ESRCH: none of them exists; *pids has been moved to that process. -EPROTONOSUPPORT: the kernel
 * has no INET_DIAG. Raises the soft limit of descriptors to the hard limit, so that a program must
 * be forked before. Calls held while samples are taken. */
int ns_watch_open(const pid_t **pids, ns_watch_held held, void *context, struct ns_watch **watch);
void ns_watch_close(struct ns_watch *watch);

/* Take the samples that are due at time now (CLOCK_MONOTONIC ns). *next: when the next are due,
 * after an error, too. */
int ns_watch_look(struct ns_watch *watch, uint64_t now, uint64_t *next);

/* Call visit for each connection, including those that have ended since the last call, which are
 * forgotten then. Of more than some thousands, idle ones that were never held are not kept. */
void ns_watch_each(struct ns_watch *watch, void (*visit)(void *context, struct ns_watched *watched),
                   void *context);

/* The connection of a watched process whose other end this is, or NULL. */
struct ns_watched *ns_watch_other_end(struct ns_watch *watch, struct ns_watched *watched);

/* The number i of pid, which may have ended, and its children; 0: there are not so many. */
pid_t ns_watch_process(const struct ns_watch *watch, size_t i);

void ns_watch_tally(const struct ns_watch *watch, struct ns_watch_tally *tally);

#endif
