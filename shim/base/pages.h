/* SPDX-License-Identifier: MIT */
/* Pages that threads and signal handlers share and that are never freed, without malloc and without
 * a lock. errno is unchanged; async-signal-safe. */
#ifndef NS_PAGES_H
#define NS_PAGES_H

#include <stddef.h>

/* If the atomic pointer at place equals expected, let it point to size bytes of zeros. Returns its
 * new value, which may be another thread's pages; NULL if there is no memory. */
void *ns_pages_put(void *place, void *expected, size_t size);

#endif
