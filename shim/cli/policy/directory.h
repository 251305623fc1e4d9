/* SPDX-License-Identifier: MIT */
/* The policy files in directories. A list has the form of NAGLESHIM_POLICY_DIR. */
#ifndef NS_DIRECTORY_H
#define NS_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>

/* Calls each with the path of every *.json that is not hidden: directory by directory, sorted by
 * name. Not async-signal-safe. */
void ns_directory_each(const char *list, void (*each)(void *context, const char *path),
                       void *context);

/* Does every search for this file end in an earlier directory of the list, at a file of the same
 * name or at default.json? Sets hiding to that file. */
bool ns_directory_hides(const char *list, const char *path, char hiding[PATH_MAX]);

/* 0, or the errno with which a directory of the list, which path becomes, cannot be read. If they
 * need not exist, a missing one is no error. */
int ns_directory_error(const char *list, bool must_exist, char path[PATH_MAX]);

#endif
