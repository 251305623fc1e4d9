/* SPDX-License-Identifier: MIT */
/* A program that does not run yet, as the process that it will be: what a policy's patterns and the
 * search for a policy see. */
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

/* word is what execvp would get, args the program's arguments. Both must stay. */
void ns_subject_describe(struct ns_subject *subject, char *word, char *const *args,
                         unsigned n_args);

/* False, after a message, if the file is not a program: a directory, data, a library. With
 * may_be_script, a script with an interpreter need not be executable, as in "python3 job.py". */
bool ns_subject_is_program(const struct ns_reach *reach, const char *command, bool may_be_script);

/* Find its policy, or read file unless that is NULL. Prints every file tried on stdout and errors
 * on stderr. Returns false if the shim would be disabled. */
bool ns_subject_find_policy(const struct ns_subject *subject, const char *command, const char *file,
                            struct ns_policy_found *found);

#endif
