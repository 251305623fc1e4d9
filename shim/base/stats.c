/* SPDX-License-Identifier: MIT */
/* Counters of what the shim has done. Owns ns_stats. Counting is async-signal-safe. */
#include "base/stats.h"

#include <inttypes.h>
#include <stdio.h>

struct ns_stats ns_stats;

char *ns_stats_text(char *buffer, unsigned size)
{
    unsigned used = 0;
    buffer[0] = 0;
    const char *separator = "";
#define NS_COUNTER(name, text)                                                                     \
    if (used < size) {                                                                             \
        int n = snprintf(buffer + used, size - used, "%s%s %" PRIu64, separator, text,             \
                         atomic_load_explicit(&ns_stats.name, memory_order_relaxed));              \
        used += n > 0 ? (unsigned)n : 0;                                                           \
        separator = ", ";                                                                          \
    }
    NS_COUNTERS(NS_COUNTER)
#undef NS_COUNTER
    return buffer;
}
