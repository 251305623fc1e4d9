/* SPDX-License-Identifier: MIT */
/* Looks at the TCP connections of processes from outside, with sock_diag(7): nothing is preloaded,
 * stopped or changed. Connections belong to processes by the inodes of their sockets; processes may
 * live in other network namespaces. For one thread; errors are -errno. */
#ifndef NS_WATCH_H
#define NS_WATCH_H

#include "watch/watched.h"

#include <sys/types.h>

struct ns_watch_options {
    const pid_t *pids; /* these, and with children theirs, also those that come later */
    size_t n_pids;
    bool children;
    bool all;             /* every process that the caller may see; pids is not looked at */
    uint64_t interval_ns; /* between looks at a connection that may be held; 0: 2 ms, and rarer
                             when a look takes too long */
};

struct ns_watch;

/* -EPERM or -EACCES: none of the pids may be looked into; -ESRCH: none is there;
 * -EPROTONOSUPPORT: a kernel without INET_DIAG. Raises the soft limit of this process's descriptors
 * to the hard one: a program that the caller starts is to be forked before. */
int ns_watch_open(const struct ns_watch_options *options, struct ns_watch **watch);
void ns_watch_close(struct ns_watch *watch);

/* One more process, with its children if wished so. */
int ns_watch_add(struct ns_watch *watch, pid_t pid);

/* Make the looks that are due at the time now (CLOCK_MONOTONIC ns). *next: when the next is due.
 * held, which may be NULL, is called for each hold that has ended. */
int ns_watch_look(struct ns_watch *watch, uint64_t now, uint64_t *next,
                  void (*held)(void *context, struct ns_watched *watched,
                               const struct ns_hold *hold),
                  void *context);

/* Calls visit for each connection, also those that have ended, until it returns false. Of more than
 * some thousands, those that are idle and were never held are not kept. */
void ns_watch_each(struct ns_watch *watch, bool (*visit)(void *context, struct ns_watched *watched),
                   void *context);

/* Calls visit for each process that was named or is a child of one, until it returns false; it may
 * have ended meanwhile. */
void ns_watch_each_process(const struct ns_watch *watch, bool (*visit)(void *context, pid_t pid),
                           void *context);

/* Forget those that have ended. */
void ns_watch_forget_ended(struct ns_watch *watch);

void ns_watch_tally(const struct ns_watch *watch, struct ns_watch_tally *tally);

#endif
