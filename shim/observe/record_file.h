/* SPDX-License-Identifier: MIT */
/* The file of a process's record, in the directory that NAGLESHIM_RECORD names. Nothing here
 * allocates with malloc or takes a lock; everything but ns_record_file_open is async-signal-safe.
 * errno may change. */
#ifndef NS_RECORD_FILE_H
#define NS_RECORD_FILE_H

#include "judge/record.h"

#include <linux/limits.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    /* The file system backs the record in pieces of this size, when they are first used. No page
     * is larger (ppc64el and arm64 may have pages of 64 KiB). */
    NS_RECORD_PIECE = 64 * 1024,
    NS_RECORD_PIECES = (NS_RECORD_FILE_SIZE + NS_RECORD_PIECE - 1) / NS_RECORD_PIECE,
};

/* Start-up: the directory, which is copied, since a program that sets its title overwrites its
 * environment. NULL, "", a relative or a very long name: nothing is recorded. */
void ns_record_file_open(const char *directory);
bool ns_record_file_is_open(void);

/* Make a file and map it, with its first piece backed; *backed: all of it is. path becomes its
 * name, or stays empty. NULL, with nothing left behind, if it cannot be made. */
struct ns_record_head *ns_record_file_make(char path[PATH_MAX], enum ns_experiment experiment,
                                           bool *backed);

/* Have size bytes of the record at that address backed. 0, or an errno value: then nothing may be
 * written there, which would be a SIGBUS. */
int ns_record_file_back(void *at, size_t size);

#endif
