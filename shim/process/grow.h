/* SPDX-License-Identifier: MIT */
/* The command's memory. Without any left, the command ends, so that no caller has to undo half of
 * something. Only `host`, which changes a system, must not. Not async-signal-safe. */
#ifndef NS_GROW_H
#define NS_GROW_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for n elements, filled with zeros. */
static inline void *ns_allocate(size_t n, size_t size)
{
    void *memory = calloc(n ? n : 1, size);
    if (!memory) {
        fputs("nagleshim: there is no memory left\n", stderr);
        exit(2);
    }
    return memory;
}

/* The same for cJSON. */
static inline void *ns_allocate_bytes(size_t size)
{
    return ns_allocate(1, size);
}

/* at: the address of a list without a field for its room. */
static inline void ns_grow(void *at, size_t n, size_t size)
{
    void *list, *larger;
    if (n & (n - 1))
        return;
    memcpy(&list, at, sizeof list); /* it may point to any type */
    larger = ns_allocate(n ? 2 * n : 1, size);
    if (n)
        memcpy(larger, list, n * size);
    free(list);
    memcpy(at, &larger, sizeof larger);
}

/* Make room for one more than n elements. The room doubles when n is a power of two. */
#define NS_GROW(list, n) ns_grow(&(list), n, sizeof *(list))

#endif
