/* SPDX-License-Identifier: MIT */
/* Files that the command writes: changes to a system, and results. */
#ifndef NS_FILE_H
#define NS_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { NS_FILE_PRIVATE = 0600, NS_FILE_SHARED = 0644 };

/* Replaces the file as a whole. ns_file_make: and makes missing directories, and the file is on the
 * disk then. ns_file_remove: and its directory if that is then empty. False, and errno, if that
 * fails. */
bool ns_file_replace(const char *path, const char *text, mode_t mode);
bool ns_file_make(const char *path, const void *data, size_t size);
bool ns_file_remove(const char *path);

/* The new text of one file. */
struct ns_change {
    char path[PATH_MAX];
    char *text; /* NULL: the file is removed */
    char *old;  /* the former text; NULL: there was no file */
    bool done;
};

/* Replaces or removes the file as a whole; makes missing directories. Does nothing if the file has
 * this text already. An exit status; an error is printed and leaves the file unchanged. */
int ns_change_make(struct ns_change *change);
bool ns_change_undo(struct ns_change *change);

/* A file for a result. Its place is examined at the beginning, so that an error is reported before
 * the work and not after an hour; it is made at the end. */
struct ns_outfile {
    const char *name; /* "-" is standard output; NULL: nothing is to be written */
    bool is_shared;   /* other users may read it */
    int fd;           /* of what cannot be replaced, as a pipe; -1: path is */
    bool in_place;    /* it is a file, which must be emptied first */
    char path[PATH_MAX];
};

/* False, after a message, if an earlier call has named the same file: a result would replace it. */
bool ns_outfile_claim(const char *name);

/* Only name and is_shared are set before. Returns false after a message. */
bool ns_outfile_open(struct ns_outfile *file);

bool ns_outfile_is_stdout(const struct ns_outfile *file);

/* Write a text and a newline. Returns false after a message if not all of it was written. Does
 * nothing if nothing is to be written. */
bool ns_outfile_write(struct ns_outfile *file, const char *text);

#endif
