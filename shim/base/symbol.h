/* SPDX-License-Identifier: MIT */
/* Functions by name in the objects of this process, read from their own symbol tables. */
#ifndef NS_SYMBOL_H
#define NS_SYMBOL_H

#include <stddef.h>

enum ns_symbol_from {
    NS_SYMBOL_FIRST, /* from the program on, as dlsym(RTLD_DEFAULT) looks */
    NS_SYMBOL_NEXT,  /* from the object after ours on, as dlsym(RTLD_NEXT) looks */
};

enum { NS_SYMBOL_MOST = 128 };

/* Look count functions up, NS_SYMBOL_MOST at most, in one pass over all objects but our own. names:
 * their names, one after another, each with its NUL. found[i], which is NULL before, becomes the
 * address of the ith one; it stays NULL if no object has it. Takes the loader's lock and allocates
 * nothing; not async-signal-safe. errno unchanged. */
void ns_symbol_find(enum ns_symbol_from from, const char *names, size_t count, void **found);

#endif
