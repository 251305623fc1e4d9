/* SPDX-License-Identifier: MIT */
/* See symbol.h. Must never allocate or call an interposed function. Not async-signal-safe.
 *
 * It does not use dlsym, for four reasons. Before glibc 2.34 dlsym is in libdl, which every process
 * would have to load. Before glibc 2.36 RTLD_NEXT finds the oldest version of a symbol (BZ 14932),
 * and the old pthread_cond_wait is another function. dlsym may call calloc, which may be the
 * program's own and not ready yet. And a hundred calls of dlsym would be a third of the time that
 * the library adds to the start of a process. */
#include "base/symbol.h"

#include "base/object.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

struct wanted {
    const char *name;
    uint32_t hash;
    void **found;
};

struct search {
    struct wanted wanted[NS_SYMBOL_MOST]; /* those that are not found yet */
    size_t count;
    bool begun; /* past the object where the search starts */
};

static bool visit(const struct ns_object *object, void *context)
{
    struct search *search = context;
    if (object->dynamic == _DYNAMIC)
        search->begun = true;
    if (!search->begun || object->dynamic == _DYNAMIC ||
        object->base == getauxval(AT_SYSINFO_EHDR)) /* the vDSO, whose names dlsym does not find */
        return false;
    size_t left = 0;
    for (size_t i = 0; i < search->count; i++) {
        const struct wanted *wanted = &search->wanted[i];
        uint32_t index = ns_object_find(object, wanted->name, wanted->hash);
        bool good = index != STN_UNDEF && ns_object_is_default(object, index);
        if (good || (index != STN_UNDEF && !*wanted->found))
            *wanted->found = ns_object_resolve(object, index);
        /* An old version is used only if no object has the default one: glibc's libpthread had old
         * versions of functions that are in libc. */
        if (!good)
            search->wanted[left++] = *wanted;
    }
    search->count = left;
    return left == 0;
}

void ns_symbol_find(enum ns_symbol_from from, const char *names, size_t count, void **found)
{
    struct search search = {.begun = from == NS_SYMBOL_FIRST};
    int saved = errno;
    for (; search.count < count && search.count < NS_SYMBOL_MOST; names += strlen(names) + 1) {
        search.wanted[search.count] =
            (struct wanted){names, ns_object_hash(names), &found[search.count]};
        search.count++;
    }
    ns_object_each(visit, &search);
    errno = saved;
}
