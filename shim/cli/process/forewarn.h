/* SPDX-License-Identifier: MIT */
/* What `nagleshim run` warns of before it starts a program: what lies in the environment and not in
 * the words of the command, so that the program runs all the same. A line on stderr for each. */
#ifndef NS_FOREWARN_H
#define NS_FOREWARN_H

#include "cli/process/subject.h"

/* What is wrong with the variables, see environment.h. */
void ns_forewarn_of_environment(void);

/* The policy that the program will get from the environment as it is now: broken, for others, with
 * rules that never match; and what is broken beside it in its directory. */
void ns_forewarn_of_policy(const struct ns_subject *subject);

/* The program that the shim does not reach, or that loses it on the way to another. */
void ns_forewarn_of_reach(const struct ns_reach *reach);

#endif
