/* SPDX-License-Identifier: MIT */
/* The deadline thread: pushes bytes that no wait of the thread that wrote them has pushed in time.
 * It starts when a byte is first held, looks at what is held once per deadline while bytes are
 * being held, and sleeps without a timer after a quiet period. */
#ifndef NS_FLUSHER_H
#define NS_FLUSHER_H

#include <stdbool.h>
#include <stdint.h>

/* Start-up. most_us: the shortest max_delay_us of the rules that hold bytes. */
void ns_flusher_open(uint32_t most_us);

/* May bytes be held at all? False where no thread could be started. */
bool ns_flusher_ready(void);

/* fd has just been given held bytes and its slot is marked. Starts or wakes the thread if need be:
 * a system call after a quiet period, two loads otherwise. Returns false if there is no thread and
 * none could be started; then the caller pushes. errno unchanged. */
bool ns_flusher_watch(int fd);

/* Push whatever is held in this process now. Async-signal-safe, errno unchanged. */
void ns_flusher_push_all(void);

/* Before a seccomp filter: push what is held and end the thread, waiting for it. No bytes are held
 * after it. */
void ns_flusher_stop(void);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t ns_flusher_now(void);

#endif
