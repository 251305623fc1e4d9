/* SPDX-License-Identifier: MIT */
/* The policy that ends the stalls of a diagnosis, and how it comes to a program. */
#ifndef NS_DIAGNOSIS_POLICY_H
#define NS_DIAGNOSIS_POLICY_H

#include "cli/diagnose/diagnosis.h"

#include <stdbool.h>

/* A rule for each row that stalls, for its process, role and port; where no preload reaches that
 * process, for the other end of its connections. The text of it, to be freed: on one line, or for a
 * file; NULL if there is nothing to cure or no memory. */
char *ns_diagnosis_policy(const struct ns_diagnosis *diagnosis, bool for_a_file);

/* What the next command is made of. */
struct ns_diagnosis_means {
    const char *command;  /* this command, as one types it */
    char *const *program; /* what was started; NULL if nothing was */
    const char *file;     /* where the policy has been written, or NULL */
};

/* What to do next, to be freed: a command where there is one to type. NULL if there is nothing to
 * do. */
char *ns_diagnosis_next(const struct ns_diagnosis *diagnosis,
                        const struct ns_diagnosis_means *means);

#endif
