/* SPDX-License-Identifier: MIT */
/* Memory that is taken in small pieces and given back all at once. It comes from mmap and not from
 * malloc: the heap of the program stays as it would be without us, and a malloc of the program's
 * own need not be ready at start-up. Not async-signal-safe. */
#ifndef NS_ARENA_H
#define NS_ARENA_H

#include <stddef.h>

struct ns_arena {
    struct ns_arena_chunk *chunks; /* NULL: nothing is taken yet */
    size_t used;                   /* bytes of the newest chunk */
};

/* size bytes, zeroed and aligned for a pointer; NULL with errno ENOMEM if there are none. */
void *ns_arena_alloc(struct ns_arena *arena, size_t size);

/* Of the newest piece only its first size bytes are needed; the rest must not have been written. */
void ns_arena_trim(struct ns_arena *arena, const void *piece, size_t size);

/* Give back everything; the arena is empty and may be used again. errno unchanged. */
void ns_arena_free(struct ns_arena *arena);

/* What is asked of the kernel at a time, at least. Unit tests make it small, so that each
 * allocation is one that can fail. */
extern size_t ns_arena_step;

#endif
