/* SPDX-License-Identifier: MIT */
/* The location of the library, and its place in LD_PRELOAD. */
#ifndef NS_PRELOAD_H
#define NS_PRELOAD_H

#include "process/loaded.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The file of names that glibc's loader preloads into every program. */
#define NS_PRELOAD_FILE "/etc/ld.so.preload"

/* The separators of LD_PRELOAD: space and colon for glibc, every white space for musl. */
#define NS_PRELOAD_SEPARATORS " :\t\n\v\f\r"

/* Is this entry of LD_PRELOAD the library or the one that observes, in any directory? */
bool ns_preload_is_the_library(const char *entry, size_t length);

/* Copies the library's entry of a list like LD_PRELOAD, or of the text of /etc/ld.so.preload, in
 * which # starts a comment; false if there is none. */
bool ns_preload_find(const char *list, char entry[PATH_MAX]);

/* The same for a file. False if it cannot be read, or is not a regular file. */
bool ns_preload_find_in_file(const char *path, char entry[PATH_MAX]);

/* The text of a regular file, to be freed. NULL, and errno, if it cannot be read: ENOENT if there
 * is none, EINVAL if it is no regular file or larger than 256 KiB. */
char *ns_file_read(const char *path);

/* The value of LD_PRELOAD with library added to old (may be NULL), in front of every entry but the
 * sanitizers' libraries. Any other of our libraries in old is dropped: two of them in a process
 * would undo each other. Allocated; NULL if there is no memory. */
char *ns_preload_join(const char *old, const char *library);

/* Finds the library with this name beside this command, in ../lib, or in the directory it was built
 * for. narrow: ns_elf.narrow of the program; a library for 32-bit programs is searched for in the
 * neighbours of these directories, and in those of the system. Returns false if no library is
 * found, or one that does not load; reason is then a sentence without its full stop. */
bool ns_preload_locate(const char *name, uint16_t narrow, char path[PATH_MAX],
                       char reason[PATH_MAX]);

/* The same for the library that cures, with one line on stderr if it is not found. */
bool ns_preload_take(uint16_t narrow, char path[PATH_MAX]);

/* "LD_PRELOAD=" with a library added to this command's own list, behind the sanitizer's library
 * that the program's file needs, if any; NULL as above. */
char *ns_preload_variable(const char *library, const char *program);

#endif
