/* SPDX-License-Identifier: MIT */
/* A file for a result that comes at the end. It is opened at the beginning: whoever has watched for
 * an hour wants no message then. What goes wrong is said in the name of the verb. */
#ifndef NS_OUTFILE_H
#define NS_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

struct ns_outfile {
    const char *verb, *name;
    int fd; /* -1: not asked for, or done */
    bool made;
};

/* name: "-" is standard output; NULL: not asked for, and nothing will be written. What is there
 * stays as it is until ns_outfile_begin. False: it cannot be written, which has been said. */
bool ns_outfile_open(struct ns_outfile *file, const char *verb, const char *name);

/* Do two that are open lead to one file? */
bool ns_outfile_is_same(const struct ns_outfile *one, const struct ns_outfile *other);

/* To write to, from its beginning; for ns_outfile_end. NULL if it was not asked for, or cannot be
 * written, which has been said. */
FILE *ns_outfile_begin(struct ns_outfile *file);

/* False: not all of it could be written, which has been said. */
bool ns_outfile_end(struct ns_outfile *file, FILE *stream);

/* Both, for a text with a newline behind it; NULL: there was no memory for it. */
bool ns_outfile_write(struct ns_outfile *file, const char *text);

/* Nothing is written after all: no empty file stays behind. */
void ns_outfile_drop(struct ns_outfile *file);

#endif
