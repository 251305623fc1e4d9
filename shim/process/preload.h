/* SPDX-License-Identifier: MIT */
/* The lists that name the libraries to preload: LD_PRELOAD and the file of glibc's loader. */
#ifndef NS_PROCESS_PRELOAD_H
#define NS_PROCESS_PRELOAD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define NS_LIBRARY_NAME "libnagleshim.so"

/* The library that observes and cures nothing: for diagnose. */
#define NS_OBSERVER_NAME "libnagleshim-observe.so"

/* The file of names that glibc's loader preloads into every program. */
#define NS_PRELOAD_FILE "/etc/ld.so.preload"

/* The separators of LD_PRELOAD: space and colon for glibc, every white space for musl. */
#define NS_PRELOAD_SEPARATORS " :\t\n\v\f\r"

/* Is this entry of LD_PRELOAD the library or the one that observes, in any directory? */
bool ns_preload_is_the_library(const char *entry, size_t length);

/* Is it a name without a slash, or has it a token like $LIB? */
static inline bool ns_preload_is_searched(const char *entry)
{
    return !strchr(entry, '/') || strchr(entry, '$');
}

/* Copies the library's entry of a list like LD_PRELOAD, or of the text of /etc/ld.so.preload, in
 * which # starts a comment; false if there is none. */
bool ns_preload_find(const char *list, char entry[PATH_MAX]);

#endif
