/* SPDX-License-Identifier: MIT */
/* Lists that grow by one element, without a field for their room. Not async-signal-safe. */
#ifndef NS_GROW_H
#define NS_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* at: the address of the list. */
static inline bool ns_grow(void *at, size_t n, size_t size)
{
    void *list;
    if (n & (n - 1))
        return true;
    memcpy(&list, at, sizeof list); /* it may point to any type */
    list = reallocarray(list, n ? 2 * n : 1, size);
    if (list)
        memcpy(at, &list, sizeof list);
    return list;
}

/* Make room for one more than n elements. False without memory, and then the list is unchanged. The
 * room doubles when n is a power of two. */
#define NS_GROW(list, n) ns_grow(&(list), n, sizeof *(list))

#endif
