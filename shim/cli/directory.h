/* SPDX-License-Identifier: MIT */
/* The policy files of a directory. */
#ifndef NS_DIRECTORY_H
#define NS_DIRECTORY_H

/* Calls each with the path of every *.json in the directory that is not hidden, by name. Not
 * async-signal-safe. */
void ns_directory_each(const char *directory, void (*each)(void *context, const char *path),
                       void *context);

#endif
