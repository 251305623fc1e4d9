/* SPDX-License-Identifier: MIT */
/* Memory by the page, for what threads and signal handlers share and nobody frees: without malloc
 * and without a lock. errno unchanged; async-signal-safe. */
#ifndef NS_PAGES_H
#define NS_PAGES_H

#include <stddef.h>

/* Have the atomic pointer at place, which was expected, point to size bytes of zeroes. Returns what
 * it points to now: another's, if another was faster; NULL without memory. */
void *ns_pages_put(void *place, void *expected, size_t size);

#endif
