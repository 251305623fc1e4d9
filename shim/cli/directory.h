/* SPDX-License-Identifier: MIT */
/* The policy files of directories. */
#ifndef NS_DIRECTORY_H
#define NS_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>

/* Calls each with the path of every *.json that is not hidden, by name, of one directory after the
 * other; list is as NAGLESHIM_POLICY_DIR has it. Not async-signal-safe. */
void ns_directory_each(const char *list, void (*each)(void *context, const char *path),
                       void *context);

/* A file of an earlier directory of the list that is found before this one of a later directory
 * whatever program looks for it: of the same name, or default.json. */
bool ns_directory_hides(const char *list, const char *path, char hiding[PATH_MAX]);

#endif
