/* SPDX-License-Identifier: MIT */
/* The policy files of directories. */
#ifndef NS_DIRECTORY_H
#define NS_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Calls each with the path of every *.json that is not hidden, by name, of one directory after the
 * other; list is as NAGLESHIM_POLICY_DIR has it. Not async-signal-safe. */
void ns_directory_each(const char *list, void (*each)(void *context, const char *path),
                       void *context);

/* Does the search end in an earlier directory of the list than this file's, whatever program looks
 * for it: at a file of the same name or default.json, or since that cannot be looked for? Then why
 * is a sentence. */
bool ns_directory_hides(const char *list, const char *path, char *why, size_t size);

/* Is an entry of the list empty, which in the environment stands for the built-in directory? */
bool ns_directory_has_empty(const char *list);

/* 0, or the errno with which a directory of the list cannot be looked into. */
int ns_directory_judge(const char *path);

#endif
