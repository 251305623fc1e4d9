/* SPDX-License-Identifier: MIT */
/* Where a process's policy comes from: the search order of nagleshim-policy(5). Reads files; reads
 * no environment (the caller passes what it found there). Allocates; not async-signal-safe. */
#ifndef NS_POLICY_FIND_H
#define NS_POLICY_FIND_H

#include "policy/policy.h"

#include <limits.h>

#define NS_POLICY_DIR_DEFAULT NS_SYSCONFDIR /* the Makefile's */

/* The name of the rule that `nagleshim run` makes of its options. Who reads of it has no policy
 * that he knows of. */
#define NS_POLICY_OF_RUN "options of nagleshim run"

enum ns_policy_origin {
    NS_POLICY_BUILTIN,
    NS_POLICY_INLINE, /* the JSON itself in NAGLESHIM_POLICY */
    NS_POLICY_NAMED,  /* the file that NAGLESHIM_POLICY names */
    NS_POLICY_IN_DIRECTORY,
};

/* Values as the environment has them; NULL or "" where a variable is not set. */
struct ns_policy_request {
    const char *policy;     /* NAGLESHIM_POLICY */
    const char *policy_dir; /* NAGLESHIM_POLICY_DIR: see struct ns_policy_directories */
    const char *argv0;      /* may be NULL */
    const char *exe;        /* path of the executable, may be NULL */
    /* What opens a file for reading instead of open(2), or NULL: for a process that lives in
     * another root than the caller. Returns a descriptor, or -errno. */
    int (*open)(const char *path, const void *context);
    const void *open_context;
    const struct ns_policy_errors *all; /* who wants every mistake of the file taken; may be NULL */
};

struct ns_policy_found {
    enum ns_policy_origin origin;
    const struct ns_policy *policy; /* NULL if the source is unreadable or wrong: stand aside */
    int error;                      /* 0; -EINVAL: see where; another -errno: could not be read */
    struct ns_policy_error where;   /* for -EINVAL: the place; for the others only message is set */
    char path[PATH_MAX]; /* the file; "NAGLESHIM_POLICY" for inline JSON; "" for built in */
};

/* The directories that NAGLESHIM_POLICY_DIR names, in their order: paths with colons between them.
 * An empty one, as the whole of it is where it is not set, is NS_POLICY_DIR_DEFAULT. */
struct ns_policy_directories {
    const char *rest; /* NULL past the last */
};

/* list may be NULL; it must stay. */
struct ns_policy_directories ns_policy_directories(const char *list);

/* False past the last; else *path is the next, of *length bytes. Async-signal-safe. */
bool ns_policy_next_directory(struct ns_policy_directories *directories, const char **path,
                              size_t *length);

/* Is one of them there? */
bool ns_policy_has_directory(const char *list);

/* One file looked at: error is 0 if it is the one taken, or -errno (-ENOENT or -ENOTDIR: not there,
 * so the search went on). */
typedef void ns_policy_tried(void *context, const char *path, int error);

/* Find and compile the policy of a process. tried (may be NULL) is called for every file looked at,
 * in order. Never fails: the result is in found. found->policy is the caller's; ns_policy_free may
 * be given the built-in one too. */
void ns_policy_find(const struct ns_policy_request *request, struct ns_policy_found *found,
                    ns_policy_tried *tried, void *context);

/* Read and compile one file ("-" is standard input). Fills found as ns_policy_find does, with
 * origin NS_POLICY_NAMED. Regular files only (and standard input), at most NS_POLICY_SIZE_MOST
 * bytes. No descriptor below 3 is ever read from (but standard input) or left open. */
void ns_policy_read(const char *path, struct ns_policy_found *found);

/* The same for a file that was named or found in a directory, as origin says, where no name is
 * standard input's; and every mistake is told to all, which may be NULL. */
void ns_policy_read_as(enum ns_policy_origin origin, const char *path,
                       struct ns_policy_found *found, const struct ns_policy_errors *all);

/* Why a file could not be read, of an error other than -EINVAL. */
const char *ns_policy_error_reason(int error);

/* "file:line:column: message", or "file: message" where there is no place. Returns buffer. */
char *ns_policy_error_text(const struct ns_policy_found *found, char *buffer, size_t size);

#endif
