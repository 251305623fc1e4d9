/* SPDX-License-Identifier: MIT */
/* Memory that comes from mmap, not malloc: the program's heap stays as it would be without the
 * library, and the program's own malloc need not be ready at start-up. */
#ifndef NS_MEMORY_H
#define NS_MEMORY_H

#include <stddef.h>

/* Memory that is allocated in small pieces and freed as a whole. Not async-signal-safe. */
struct ns_arena {
    struct ns_arena_chunk *chunks; /* NULL: empty */
    size_t used;                   /* bytes used of the newest chunk */
};

/* Allocate size bytes, zeroed and aligned for a pointer. NULL with errno ENOMEM if that fails. */
void *ns_arena_alloc(struct ns_arena *arena, size_t size);

/* Keep only the first size bytes of the newest piece; the rest must not have been written. */
void ns_arena_trim(struct ns_arena *arena, const void *piece, size_t size);

/* Free everything. The arena is empty and can be used again. errno is unchanged. */
void ns_arena_free(struct ns_arena *arena);

/* The least size of a chunk. Unit tests make it small, so that every allocation can fail. */
extern size_t ns_arena_step;

/* Pages that threads and signal handlers share and that are never freed, without a lock: if the
 * atomic pointer at place equals expected, let it point to size bytes of zeros. Returns its new
 * value, which may be another thread's pages; NULL if there is no memory. errno is unchanged;
 * async-signal-safe. */
void *ns_pages_put(void *place, void *expected, size_t size);

/* Puts large arrays behind all other variables (layout.ld), so that the variables that every
 * process and every forked child writes share one page. */
#define NS_LARGE_ARRAY __attribute__((section(".bss.large"), aligned(64)))

#endif
