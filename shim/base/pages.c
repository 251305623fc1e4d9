/* SPDX-License-Identifier: MIT */
/* See pages.h. Owns nothing. */
#include "base/pages.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

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
