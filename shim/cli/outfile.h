/* SPDX-License-Identifier: MIT */
/* A file for a result. It is opened at the beginning, so that an error is reported before the work
 * and not after an hour. */
#ifndef NS_OUTFILE_H
#define NS_OUTFILE_H

#include <stdbool.h>

struct ns_outfile {
    const char *name; /* "-" is standard output; NULL: nothing is to be written */
    int fd;           /* valid after ns_outfile_open; -1: not to be written, or done */
    bool made;
};

/* False, after a message, if an earlier call has named the same file: a result would replace it. */
bool ns_outfile_claim(const char *name);

/* Only the name is set before. An existing file is unchanged until ns_outfile_write. Returns false
 * after a message. */
bool ns_outfile_open(struct ns_outfile *file);

bool ns_outfile_is_stdout(const struct ns_outfile *file);

/* Write a text and a newline, and close the file. Returns false after a message if not all of it
 * was written. Does nothing if nothing is to be written. */
bool ns_outfile_write(struct ns_outfile *file, const char *text);

/* Write nothing, and leave no empty file behind. */
void ns_outfile_drop(struct ns_outfile *file);

#endif
