/* SPDX-License-Identifier: MIT */
/* A program that does not run yet, as the process that it will be: what patterns and the search for
 * its policy see of it. */
#ifndef NS_SUBJECT_H
#define NS_SUBJECT_H

#include "cli/process/reach.h"

#include "policy/match.h"
#include "policy/find.h"

enum { NS_SUBJECT_ARGS_MOST = 1024 }; /* further ones are not matched */

struct ns_subject {
    struct ns_process process;
    struct ns_reach reach;
    char exe[PATH_MAX];
    char *args[NS_SUBJECT_ARGS_MOST + 2];
};

/* word is what execvp would be given, args its arguments. Both must stay. */
void ns_subject_describe(struct ns_subject *subject, char *word, char *const *args,
                         unsigned n_args);

/* Says what the file is, if it is there and no program: a directory, data, a library. Of a script
 * that names its interpreter with is_handed it need not be executable: "python3 job.py" is how it
 * is started. */
bool ns_subject_is_program(const struct ns_reach *reach, const char *command, bool is_handed);

/* Find its policy, or read file unless that is NULL, and print every file tried on stdout and what
 * is wrong on stderr. Returns false if the shim would stand aside. */
bool ns_subject_find_policy(const struct ns_subject *subject, const char *command, const char *file,
                            struct ns_policy_found *found);

/* The callback for ns_policy_find that prints a file tried. */
void ns_subject_print_tried(void *context, const char *path, int error);

#endif
