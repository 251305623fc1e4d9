/* SPDX-License-Identifier: MIT */
/* auto-cork: the deadline thread, which pushes held bytes that no wait of the thread that wrote
 * them has pushed in time. It exists only where a rule of this process holds bytes, while some are
 * held and for a moment after. It is made by clone() itself and shares nothing with the C library:
 * the library's locks stay those of a process without it, it may start in a signal handler, and
 * whoever counts the library's threads to see which is the last one does not count it. */
#ifndef NS_DEADLINE_H
#define NS_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

/* Start-up, where a rule holds bytes. most_us: the shortest max_delay_us of such rules. */
void ns_deadline_open(uint32_t most_us);

/* May bytes be held? Not where no thread could be made. Async-signal-safe. */
bool ns_deadline_ready(void);

/* fd has just been given held bytes and its slot is marked. Starts the thread if there is none.
 * Returns false if there can be none here (a child that shares its parent's memory, a limit); then
 * the caller pushes. Two loads while it runs. errno unchanged; async-signal-safe. */
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
