/* SPDX-License-Identifier: MIT */
/* Sockets that are also used by a duplicate, stdio inside libc, another process or program. */
#ifndef NS_HANDOVER_H
#define NS_HANDOVER_H

#include <stdbool.h>

/* After to (-1: it failed) was made a duplicate of from, by this caller: see socket.h. */
void ns_handover_duplicated(int from, int to);

/* The process was started with fd to use it on stdio or as a service manager's socket. Chooses its
 * rule at once, since its reads and writes may be calls that the library does not see. */
void ns_handover_started_with(int fd);

/* fd will be written to unseen (by stdio or another process): pushes, sets now what would be set
 * later, and holds nothing there again. */
void ns_handover_unseen(int fd);

/* Before fd is sent to another process in a message: undoes its options, since the library there
 * takes what it finds for the program's own. */
void ns_handover_passes(int fd);

/* The message was not sent: at its next use fd gets its rule again. */
void ns_handover_kept(int fd);

/* The same as ns_handover_unseen for every connection, also for later ones (io_uring). */
void ns_handover_all_unseen(void);

/* Before a child is made: pushes what any thread holds. Before a program is started, perhaps
 * without the library, by this process or in its place: also prepares the connections that it
 * gets, if this process has made them. What a child changes on a socket of its parent would stay,
 * and the parent would not learn of it: a child sets only what the program has asked for. */
enum ns_start { NS_FORK, NS_SPAWN, NS_EXEC };
void ns_handover_begins(enum ns_start how);

/* Before a seccomp filter is installed: push held bytes and undo options. From then on every socket
 * is left alone, and the library makes no system call. */
void ns_handover_disable(void);

/* The kernel has refused the filter: unless another one is or may be installed, sockets are treated
 * again, except those that were passed on. */
void ns_handover_enable(void);

#endif
