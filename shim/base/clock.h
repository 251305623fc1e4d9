/* SPDX-License-Identifier: MIT */
/* Clocks in nanoseconds. Async-signal-safe. */
#ifndef NS_CLOCK_H
#define NS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ns_clock_now(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

#endif
