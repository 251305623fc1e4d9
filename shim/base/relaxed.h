/* SPDX-License-Identifier: MIT */
/* Relaxed access to atomic members that are independent hints or counts and order nothing else. */
#ifndef NS_RELAXED_H
#define NS_RELAXED_H

#include <stdatomic.h>

#define NS_GET(object, member) atomic_load_explicit(&(object)->member, memory_order_relaxed)
#define NS_PUT(object, member, value)                                                              \
    atomic_store_explicit(&(object)->member, (value), memory_order_relaxed)

/* Not a read-modify-write: two threads at once may lose a count, but no thread pays for a locked
 * instruction. */
#define NS_ADD(counter, amount)                                                                    \
    atomic_store_explicit(&(counter),                                                              \
                          atomic_load_explicit(&(counter), memory_order_relaxed) + (amount),       \
                          memory_order_relaxed)

#endif
