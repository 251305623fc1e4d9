/* SPDX-License-Identifier: MIT */
/* The deadline thread: pushes bytes that no wait of the thread that wrote them has pushed in time.
 * It starts with the first connection that a holding rule governs (not with the first byte held:
 * that write may stand in a signal handler, where no thread can be made), or, where adaptive would
 * hold for the first time, with the next wait, and in a stream that never waits with a later write.
 * It looks at what is held once per deadline while bytes are being held, and sleeps without a timer
 * after a quiet period. */
#ifndef NS_FLUSHER_H
#define NS_FLUSHER_H

#include <stdbool.h>
#include <stdint.h>

/* Start-up. most_us: the shortest max_delay_us of the rules that hold bytes. */
void ns_flusher_open(uint32_t most_us);

/* Start the thread if this process has none, to stay also over a fork. One load if it has. In a
 * child that was not made by fork() but by _Fork or clone it never starts: malloc's locks may be
 * held there. Not async-signal-safe when it starts one; errno unchanged. */
void ns_flusher_prepare(void);

/* Bytes are to be held here, and the thread has never been started: have the next wait that owes
 * something start it (ns_flusher_start_if_wanted). Returns false if it runs, or cannot run.
 * Async-signal-safe. */
bool ns_flusher_want(void);

/* One load if nobody wants the thread. Does nothing in a signal handler, which may have interrupted
 * malloc; to find that out takes some seventy system calls. errno unchanged. */
void ns_flusher_start_if_wanted(void);

/* Before fork() itself: a thread that nobody needs right away ends, since programs count their
 * threads there (Python 3.12 warns), and starts again when it is wanted. Returns whether there is
 * one still. May block as ns_flusher_stop does. */
bool ns_flusher_before_fork(void);

/* In a child, after fork() itself (malloc works there): start the thread again if the parent
 * had_one. */
void ns_flusher_forked(bool had_one);

/* Is there a thread of ours in this process? Async-signal-safe. */
bool ns_flusher_running(void);

/* May bytes be held? Only while there is a thread to push them. Async-signal-safe. */
bool ns_flusher_ready(void);

/* fd has just been given held bytes and its slot is marked. Wakes the thread if need be: a system
 * call after a quiet period, two loads otherwise. Returns false if the thread has gone; then the
 * caller pushes. errno unchanged; async-signal-safe. */
bool ns_flusher_watch(int fd);

/* The kernel takes no more of what is gathered on fd in user memory, and its slot is marked with
 * the time of the next try. Async-signal-safe, errno unchanged. */
void ns_flusher_stuck(int fd);

/* Push whatever is held in this process now. Async-signal-safe, errno unchanged. */
void ns_flusher_push_all(void);

/* Push what is held and end the thread, waiting for it: before a seccomp filter, and before a call
 * that wants a process of one thread. again: it may start again when it is needed; otherwise no
 * bytes are held any more. Blocks for as long as the thread takes to end. */
void ns_flusher_stop(bool again);

/* After a call for which ns_flusher_stop(true) has ended the thread: where something has yet to
 * leave that the kernel had no room for, it starts again right away, since nobody else would try.
 * Does nothing in a signal handler. errno unchanged. */
void ns_flusher_resume(void);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t ns_flusher_now(void);

#endif
