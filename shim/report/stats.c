/* SPDX-License-Identifier: MIT */
/* Counters of what the shim has done. Owns ns_stats. Counting is async-signal-safe. */
#include "report/stats.h"

struct ns_stats ns_stats;
