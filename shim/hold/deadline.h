/* SPDX-License-Identifier: MIT */
/* auto-cork: the deadline thread, which pushes held bytes that no wait of the thread that wrote
 * them has pushed in time. It exists only where a rule of this process holds bytes, while some are
 * held and for a moment after. It is made by clone() itself and shares nothing with the C library:
 * the library's locks stay those of a process without it, it may start in a signal handler, and
 * whoever counts the library's threads to see which is the last one does not count it. */
#ifndef NS_DEADLINE_H
#define NS_DEADLINE_H

#include "conn/fds.h"

/* How held bytes are pushed: now, by whoever asks for it; and when they are overdue, by the thread,
 * which has no thread-local memory, so that this one must not touch errno nor call the C library.
 */
struct ns_deadline_pushes {
    void (*now)(int fd, struct ns_conn *conn);
    void (*overdue)(int fd, struct ns_conn *conn);
};

/* Start-up, where a rule holds bytes. most_us: the shortest max_delay_us of such rules. */
void ns_deadline_open(uint32_t most_us, struct ns_deadline_pushes pushes);

/* May bytes be held? Not where no thread could be made. Async-signal-safe. */
bool ns_deadline_ready(void);

/* fd has just been given held bytes and its connection is marked. Starts the thread if there is
 * none. Returns false if there can be none here (a child that shares its parent's memory, a limit);
 * then the caller pushes. Two loads while it runs. errno unchanged; async-signal-safe. */
bool ns_deadline_watch(int fd);

/* Push whatever is held in this process now. Async-signal-safe, errno unchanged. */
void ns_deadline_push_all(void);

/* Push what is held and end the thread, waiting for it: before a fork, a seccomp filter, and a call
 * that wants a process of one thread or changes what the kernel keeps for each thread alone. It
 * starts again with the next held byte. One load if there is none. Blocks for the microseconds that
 * the thread takes to end; errno unchanged; async-signal-safe. */
void ns_deadline_stop(void);

/* In a child that has its own memory: whatever thread its parent has, it has none. */
void ns_deadline_forked(void);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t ns_deadline_now(void);

#endif
