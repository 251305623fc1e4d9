/* SPDX-License-Identifier: MIT */
/* Pages that threads and signal handlers share and that are never freed, without malloc and without
 * a lock. errno is unchanged; async-signal-safe. */
#ifndef NS_PAGES_H
#define NS_PAGES_H

#include <stddef.h>

/* Replace the atomic pointer at place, if it is expected, by size bytes of zeros. Returns its value
 * then, which may be another thread's pages; NULL if there is no memory. */
void *ns_pages_put(void *place, void *expected, size_t size);

#endif
