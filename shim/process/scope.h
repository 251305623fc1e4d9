/* SPDX-License-Identifier: MIT */
/* Variables that give back what they hold at the end of their block, on every path out of it. They
 * must be initialised, with -1 or NULL if they hold nothing. errno is unchanged. For the command:
 * the library allocates and opens nothing between a program's call and the kernel. */
#ifndef NS_SCOPE_H
#define NS_SCOPE_H

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <glob.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NS_SCOPE(name, type, held, release)                                                        \
    static inline void name(type *variable)                                                        \
    {                                                                                              \
        int error = errno;                                                                         \
        if (held)                                                                                  \
            release(*variable);                                                                    \
        errno = error;                                                                             \
    }
NS_SCOPE(ns_scope_close, int, *variable >= 0, close)
NS_SCOPE(ns_scope_free, char *, *variable, free)
NS_SCOPE(ns_scope_fclose, FILE *, *variable, fclose)
NS_SCOPE(ns_scope_closedir, DIR *, *variable, closedir)
#undef NS_SCOPE

#define NS_AUTO_CLOSE __attribute__((cleanup(ns_scope_close)))
#define NS_AUTO_FREE __attribute__((cleanup(ns_scope_free))) /* for char * */
#define NS_AUTO_FCLOSE __attribute__((cleanup(ns_scope_fclose)))
#define NS_AUTO_CLOSEDIR __attribute__((cleanup(ns_scope_closedir)))
#define NS_AUTO_GLOB __attribute__((cleanup(globfree))) /* for glob_t, initialised with zeros */

/* --- The command's memory. Without any left, the command ends with status 2, so that no caller has
 * to undo half of something. Only `host`, which changes a system, must not. atexit(3) removes what
 * must not stay behind. What is needed until the end is not freed. */

/* What an allocation returned. */
static inline void *ns_allocated(void *memory)
{
    if (memory)
        return memory;
    errx(2, "there is no memory left");
}

/* Room for n elements, filled with zeros. */
static inline void *ns_allocate(size_t n, size_t size)
{
    return ns_allocated(calloc(n, size));
}

/* The same for cJSON. */
static inline void *ns_allocate_bytes(size_t size)
{
    return ns_allocate(1, size);
}

/* Makes room for one more than n elements. The room doubles when n is a power of two. */
#define NS_GROW(list, n)                                                                           \
    do {                                                                                           \
        if (((n) & ((n)-1)) == 0)                                                                  \
            list = ns_allocated(realloc(list, ((n) ? 2 * (n) : 1) * sizeof *(list)));              \
    } while (0)

#endif
