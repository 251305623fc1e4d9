/* SPDX-License-Identifier: MIT */
/* Finds functions by name in the symbol tables of the loaded objects. */
#ifndef NS_SYMBOL_H
#define NS_SYMBOL_H

#include "base/machine.h"
#include <stddef.h>

enum ns_symbol_from {
    NS_SYMBOL_FIRST, /* from the program on, as dlsym(RTLD_DEFAULT) */
    NS_SYMBOL_NEXT,  /* from the object after this library on, as dlsym(RTLD_NEXT) */
};

enum { NS_SYMBOL_MOST = 128 NS_IF_TIME64(+32) };

/* Look up count functions, NS_SYMBOL_MOST at most, in all objects except this library. names: their
 * names one after another, each with its NUL. found[i], which must be NULL, becomes the address of
 * function i, and stays NULL if no object has it. Allocates nothing and takes no lock (see
 * ns_object_each). errno is unchanged. Not async-signal-safe. */
void ns_symbol_find(enum ns_symbol_from from, const char *names, size_t count, void **found);

#endif
