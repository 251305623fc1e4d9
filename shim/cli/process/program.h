/* SPDX-License-Identifier: MIT */
/* Where a program is. */
#ifndef NS_PROGRAM_H
#define NS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* What execvp would run for word: word itself if it has a slash, else the first executable file of
 * that name in PATH. Returns false if there is none; path is then "". Reads the environment. */
bool ns_program_locate(const char *word, char *path, size_t size);

/* This command, as one types it: its bare name where PATH leads to it, else its path. */
void ns_program_self(char *path, size_t size);

#endif
