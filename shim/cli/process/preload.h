/* SPDX-License-Identifier: MIT */
/* Where the library is, and what LD_PRELOAD becomes with it. */
#ifndef NS_PRELOAD_H
#define NS_PRELOAD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define NS_LIBRARY_NAME "libnagleshim.so"

/* The library that observes and cures nothing: for diagnose. */
#define NS_OBSERVER_NAME "libnagleshim-observe.so"

/* What ends an entry of LD_PRELOAD: glibc knows space and colon, musl every white space. */
#define NS_PRELOAD_SEPARATORS " :\t\n\v\f\r"

/* Is this entry of LD_PRELOAD the library or the one that observes, in any directory? */
bool ns_preload_is_the_library(const char *entry, size_t length);

/* The entry of a list as LD_PRELOAD has it that is the library, copied to entry; false if none is.
 */
bool ns_preload_find(const char *list, char entry[PATH_MAX]);

/* The same for the text of /etc/ld.so.preload, in which # begins a comment. */
bool ns_preload_find_in_file(const char *text, char entry[PATH_MAX]);

/* The library that belongs to this command: beside it, in ../lib, or where it was to be installed.
 * 0; -ENOENT if it is nowhere; -EINVAL if path, which is filled, cannot be written in LD_PRELOAD.
 */
int ns_preload_locate(char path[PATH_MAX]);

/* The same for a file with that name. */
int ns_preload_locate_named(const char *name, char path[PATH_MAX]);

/* The new value of LD_PRELOAD: library once, behind the sanitizers' libraries alone, and what else
 * old (may be NULL) lists behind it, in its order.
 * Any other of our libraries in the list is dropped: two of them in a process would undo each other. Allocated; NULL if there is no memory. */
char *ns_preload_join(const char *old, const char *library);

#endif
