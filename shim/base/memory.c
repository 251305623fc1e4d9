/* SPDX-License-Identifier: MIT */
/* See memory.h. Must never call malloc. */
#include "base/memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

/* Untouched pages cost no memory. */
size_t ns_arena_step = 256 * 1024;

struct ns_arena_chunk {
    struct ns_arena_chunk *older;
    size_t size;
};

static struct ns_arena_chunk *new_chunk(struct ns_arena *arena, size_t size)
{
    size += sizeof(struct ns_arena_chunk);
    if (size < ns_arena_step)
        size = ns_arena_step;
    struct ns_arena_chunk *chunk =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED) {
        errno = ENOMEM;
        return NULL;
    }
    *chunk = (struct ns_arena_chunk){.older = arena->chunks, .size = size};
    arena->chunks = chunk;
    arena->used = sizeof *chunk;
    return chunk;
}

static size_t rounded(size_t size)
{
    return (size + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
}

void *ns_arena_alloc(struct ns_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2) {
        errno = ENOMEM;
        return NULL;
    }
    size = rounded(size);
    struct ns_arena_chunk *chunk = arena->chunks;
    if ((!chunk || chunk->size - arena->used < size) && !(chunk = new_chunk(arena, size)))
        return NULL;
    void *piece = (char *)chunk + arena->used;
    arena->used += size;
    return piece;
}

void ns_arena_trim(struct ns_arena *arena, const void *piece, size_t size)
{
    arena->used = (size_t)((const char *)piece - (const char *)arena->chunks) + rounded(size);
}

void ns_arena_free(struct ns_arena *arena)
{
    int saved = errno;
    while (arena->chunks) {
        struct ns_arena_chunk *chunk = arena->chunks;
        arena->chunks = chunk->older;
        munmap(chunk, chunk->size);
    }
    *arena = (struct ns_arena){0};
    errno = saved;
}

typedef void *__attribute__((may_alias)) any_pointer;

void *ns_pages_put(void *place, void *expected, size_t size)
{
    any_pointer was = expected;
    int saved = errno;
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    if (pages == MAP_FAILED)
        return NULL;
    /* sequentially consistent: a thread that sees the pointer sees the zeros */
    if (__atomic_compare_exchange_n((any_pointer *)place, &was, pages, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        return pages;
    munmap(pages, size);
    return was;
}
