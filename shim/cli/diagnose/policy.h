/* SPDX-License-Identifier: MIT */
/* The policy that ends the stalls of a diagnosis, and the next command to run. */
#ifndef NS_DIAGNOSE_POLICY_H
#define NS_DIAGNOSE_POLICY_H

#include "cli/diagnose/rows.h"

#include <stdbool.h>

/* A policy with a rule for each stalling row: its process, role and port. If no preload can reach
 * that process, the rule is for the other end of its connections. The text is allocated, on one
 * line or formatted for a file; NULL if there is nothing to cure, or no memory. */
char *ns_diagnosis_policy(const struct ns_diagnosis *diagnosis, bool for_a_file);

struct ns_next_words {
    const char *command;  /* this command, as typed in a shell */
    char *const *program; /* the program that was started, or NULL */
    const char *file;     /* where the policy was written, or NULL */
};

/* What to do next, allocated: a command if there is one. NULL: nothing. */
char *ns_diagnosis_next(const struct ns_diagnosis *diagnosis, const struct ns_next_words *words);

/* A command that ends the stalls of a running process now, allocated; NULL: none. */
char *ns_diagnosis_now(const struct ns_diagnosis *diagnosis, const char *command);

#endif
