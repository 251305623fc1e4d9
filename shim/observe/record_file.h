/* SPDX-License-Identifier: MIT */
/* Where the record of a process is kept: a file of its own in the directory that was asked for.
 * Allocates nothing with malloc, takes no lock; all but ns_record_file_open may be called in a
 * signal handler. errno is the caller's to keep. */
#ifndef NS_RECORD_FILE_H
#define NS_RECORD_FILE_H

#include "judge/record.h"

#include <linux/limits.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    /* The record is backed by the file system in pieces of this size, as they come into use. */
    NS_RECORD_PIECE = 32 * 1024,
    NS_RECORD_PIECES = (NS_RECORD_FILE_SIZE + NS_RECORD_PIECE - 1) / NS_RECORD_PIECE,
};

/* Start-up: the directory, which is copied. NULL, "", a relative or a very long name: none. A
 * program that sets its title writes over its environment, and chdir moves what is relative. */
void ns_record_file_open(const char *directory);
bool ns_record_file_is_open(void);

/* The record of a new file, in memory that goes to it, with its first piece backed; backed: is all
 * of it? NULL where there can be none, and what was made of it is gone; path is its name, or
 * empty. */
struct ns_record_head *ns_record_file_make(char path[PATH_MAX], enum ns_experiment experiment,
                                           bool *backed);

/* Have size bytes at that place of it backed. 0, or why they cannot be: then nothing may be written
 * there, which would be a SIGBUS. */
int ns_record_file_back(void *at, size_t size);

#endif
