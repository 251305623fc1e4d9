/* SPDX-License-Identifier: MIT */
/* Is preloaded into nagleshim, whose allocation number NO_MEMORY_AT fails. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

static bool fails(void)
{
    static long calls;
    const char *at = environ ? getenv("NO_MEMORY_AT") : NULL;
    if (!at || strcmp(program_invocation_short_name, "nagleshim") != 0)
        return false;
    if (++calls != atol(at))
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return fails() ? NULL : __libc_realloc(old, size);
}
