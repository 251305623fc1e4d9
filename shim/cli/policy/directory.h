/* SPDX-License-Identifier: MIT */
/* The policy files in directories. A list has the form of NAGLESHIM_POLICY_DIR. */
#ifndef NS_DIRECTORY_H
#define NS_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>

/* Calls each with the path of every *.json that is not hidden: directory by directory, sorted by
 * name. Not async-signal-safe. */
void ns_directory_each(const char *list, void (*each)(void *context, const char *path),
                       void *context);

/* Does every search for this file end in an earlier directory of the list, at a file of the same
 * name, at default.json, or at a file that cannot be looked up? Then why is a sentence. */
bool ns_directory_hides(const char *list, const char *path, char *why, size_t size);

/* Is an entry of the list empty? In the environment this means the built-in directory. */
bool ns_directory_has_empty(const char *list);

/* 0, or the errno with which a directory of the list cannot be read. */
int ns_directory_judge(const char *path);

#endif
