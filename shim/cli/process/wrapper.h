/* SPDX-License-Identifier: MIT */
/* What a shell script does to LD_PRELOAD, as far as its lines show. */
#ifndef NS_WRAPPER_H
#define NS_WRAPPER_H

#include <limits.h>
#include <stdbool.h>

struct ns_wrapper {
    unsigned sets;    /* the line that sets LD_PRELOAD anew, without what was in it; 0: none */
    unsigned unsets;  /* the line that takes it out of the environment; 0: none */
    unsigned clears;  /* the line that starts a program with an empty environment; 0: none */
    unsigned becomes; /* the line of the last exec whose program is written out; 0: none */
    char program[PATH_MAX]; /* that program */
};

/* Is this the path of a shell? */
bool ns_wrapper_is_shell(const char *path);

/* Reads the first 64 KiB of the script. It is not parsed: what is in a branch that is never taken
 * counts, too. */
void ns_wrapper_read(const char *script, struct ns_wrapper *wrapper);

/* Says what the script does by which a program that it starts loses the shim: calls report with a
 * sentence for each. wrapper is what ns_wrapper_read found in it. */
void ns_wrapper_judge(const struct ns_wrapper *wrapper, const char *script,
                      void (*report)(void *context, const char *text), void *context);

#endif
