/* SPDX-License-Identifier: MIT */
/* The search for programs. */
#ifndef NS_PROGRAM_H
#define NS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the file that execvp would run: word itself if it has a slash, else the first executable
 * file of that name in PATH. False if there is none; path is then "". Reads the environment. */
bool ns_program_locate(const char *word, char *path, size_t size);

/* How to type this command: its name if PATH leads to it, else its path. */
void ns_program_self(char *path, size_t size);

#endif
