/* SPDX-License-Identifier: MIT */
/* Lists that grow by one element, without a field for their room. Not async-signal-safe. */
#ifndef NS_GROW_H
#define NS_GROW_H

#include <stddef.h>
#include <stdlib.h>

/* The list with room for one more than n elements of this size; NULL without memory, and then the
 * list is unchanged. The room doubles when n is a power of two. */
static inline void *ns_grow(void *list, size_t n, size_t size)
{
    return n & (n - 1) ? list : reallocarray(list, n ? 2 * n : 1, size);
}

#endif
