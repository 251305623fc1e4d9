/* SPDX-License-Identifier: MIT */
/* Checks of the environment variables that the library reads, and of the policy file that one of
 * them is set to. */
#ifndef NS_ENVIRONMENT_H
#define NS_ENVIRONMENT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Warns of each unknown variable and each invalid value: on stderr, or, if is_report is set, in the
 * output (cli/output.h). */
void ns_environment_judge(bool is_report);

/* A sentence if the kill switch NAGLESHIM_OFF is on: anything but empty or "0". NULL: it is not. */
const char *ns_environment_off(void);

/* Reads the policy file that a program of this command will find by NAGLESHIM_POLICY, and sets path
 * to its absolute path. If the policy is broken: false, and one line on stderr. */
bool ns_environment_policy_file(const char *file, char path[PATH_MAX]);

#endif
