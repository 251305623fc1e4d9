/* SPDX-License-Identifier: MIT */
/* The warnings that `nagleshim run` prints before it starts a program. Each is one line on standard
 * error, and the program is started all the same. */
#ifndef NS_FOREWARN_H
#define NS_FOREWARN_H

#include "cli/process/subject.h"

/* Misspelt variables and invalid values, see environment.h. */
void ns_forewarn_of_environment(void);

/* The policy that the program will get from the environment as it is now: broken, disabled, for
 * other programs only, or with rules that no socket can get. */
void ns_forewarn_of_policy(const struct ns_subject *subject);

/* A program that the library cannot be loaded into, or a command (env -i, sudo) that removes
 * LD_PRELOAD before it starts another one. */
void ns_forewarn_of_program(const struct ns_reach *reach, int argc, char **argv);

#endif
