/* SPDX-License-Identifier: MIT */
/* The library and the policy for a program that this command starts. */
#ifndef NS_INJECTION_H
#define NS_INJECTION_H

#include <limits.h>
#include <stdbool.h>

/* The value of LD_PRELOAD with this command's library in front; allocated. If no library would
 * load: NULL, and one line on stderr in the name of command. */
char *ns_injection_preload(const char *command);

/* Validates a policy file and fills its absolute path. If it is invalid: false, and one line on
 * stderr in the name of command. */
bool ns_injection_policy(const char *command, const char *file, char path[PATH_MAX]);

#endif
