/* SPDX-License-Identifier: MIT */
/* The location of the library, and its place in LD_PRELOAD. */
#ifndef NS_PRELOAD_H
#define NS_PRELOAD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define NS_LIBRARY_NAME "libnagleshim.so"

/* The library that observes and cures nothing: for diagnose. */
#define NS_OBSERVER_NAME "libnagleshim-observe.so"

/* The separators of LD_PRELOAD: space and colon for glibc, every white space for musl. */
#define NS_PRELOAD_SEPARATORS " :\t\n\v\f\r"

/* Is this entry of LD_PRELOAD the library or the one that observes, in any directory? */
bool ns_preload_is_the_library(const char *entry, size_t length);

/* Copies the library's entry of a list like LD_PRELOAD, or of the text of /etc/ld.so.preload, in
 * which # starts a comment; false if there is none. */
bool ns_preload_find(const char *list, char entry[PATH_MAX]);

/* Finds the library of this command: beside it, in ../lib, or in the directory it was built for.
 * 0; -ENOENT if there is none; -EINVAL if path, which is filled, cannot be an entry of LD_PRELOAD.
 */
int ns_preload_locate(char path[PATH_MAX]);

/* The same for a file with that name. */
int ns_preload_locate_named(const char *name, char path[PATH_MAX]);

/* The value of LD_PRELOAD with library added to old (may be NULL), in front of every entry but the
 * sanitizers' libraries. Any other of our libraries in old is dropped: two of them in a process
 * would undo each other. Allocated; NULL if there is no memory. */
char *ns_preload_join(const char *old, const char *library);

/* Finds the library of this command. False, and one line on stderr in the name of command, if there
 * is none or if it would not load. */
bool ns_preload_take(const char *command, char path[PATH_MAX]);

/* The value of LD_PRELOAD with that library added to this command's own; NULL as above. */
char *ns_preload_list(const char *command);

#endif
