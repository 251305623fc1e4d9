/* SPDX-License-Identifier: MIT */
/* Finds a process's policy in the search order of nagleshim-policy(5). Reads files, but no
 * environment: the caller passes its values. Allocates; not async-signal-safe. */
#ifndef NS_POLICY_FIND_H
#define NS_POLICY_FIND_H

#include "policy/policy.h"

#include <limits.h>

#define NS_POLICY_DIR_DEFAULT NS_SYSCONFDIR /* the Makefile's */

/* The name of the rule that `nagleshim run` makes of its options. */
#define NS_POLICY_OF_RUN "options of nagleshim run"

enum ns_policy_origin {
    NS_POLICY_BUILTIN,
    NS_POLICY_INLINE, /* the JSON itself in NAGLESHIM_POLICY */
    NS_POLICY_NAMED,  /* the file that NAGLESHIM_POLICY names */
    NS_POLICY_IN_DIRECTORY,
    NS_POLICY_NO_DIRECTORY, /* built in, as NAGLESHIM_POLICY_DIR does not exist (status.h) */
};

/* The values of environment variables, NULL or "" if not set, and the names of the process. */
struct ns_policy_request {
    const char *policy;     /* NAGLESHIM_POLICY */
    const char *policy_dir; /* NAGLESHIM_POLICY_DIR: see ns_policy_next_directory */
    const char *argv0;      /* may be NULL */
    const char *exe;        /* path of the executable, without " (deleted)"; may be NULL */
    const struct ns_policy_errors *all; /* for the text that is used; may be NULL */
    /* Called for each file that is tried; may be NULL. error: 0 if the file is used, or -errno;
     * after -ENOENT and -ENOTDIR the search continues. */
    void (*tried)(const char *path, int error);
};

struct ns_policy_found {
    enum ns_policy_origin origin;
    const struct ns_policy *policy; /* NULL if the source is unreadable or wrong */
    int error;                      /* 0; -EINVAL: see where; another -errno: could not be read */
    struct ns_policy_error where;   /* for -EINVAL with line and column, otherwise only message */
    char path[PATH_MAX]; /* the file; "NAGLESHIM_POLICY" for inline JSON; "" for built in */
};

/* Takes the next directory from *list, the value of NAGLESHIM_POLICY_DIR: directories in their
 * order, separated by colons. An empty one, as in an empty value, is NS_POLICY_DIR_DEFAULT. *path
 * is not terminated. After the last one *list is NULL; returns false if it is. Async-signal-safe.
 */
bool ns_policy_next_directory(const char **list, const char **path, size_t *length);

/* Does any directory of list exist? */
bool ns_policy_has_directory(const char *list);

/* Opens a policy's file for the functions below: a descriptor, or -errno; -ESPIPE: it is no regular
 * file. NULL, as in the library: opens what is there without waiting. */
extern int (*ns_policy_open)(const char *path);

/* Find and compile the policy of a process. Always sets found. The caller frees found->policy with
 * ns_policy_free, also the built-in one. */
void ns_policy_find(const struct ns_policy_request *request, struct ns_policy_found *found);

/* Read and compile a regular file of at most NS_POLICY_SIZE_MOST bytes, or standard input ("-", if
 * it is NS_POLICY_NAMED). Sets found as ns_policy_find does. all may be NULL. */
void ns_policy_read(enum ns_policy_origin origin, const char *path, struct ns_policy_found *found,
                    const struct ns_policy_errors *all);

/* Why a file could not be read. error: -errno, not -EINVAL. */
const char *ns_policy_error_reason(int error);

/* "file:line:column: message", or "file: message" without a place. Returns buffer. */
char *ns_policy_error_text(const struct ns_policy_found *found, char *buffer, size_t size);

#endif
