/* SPDX-License-Identifier: MIT */
/* What a program is given that this command starts with the shim: the library and the policy. */
#ifndef NS_INJECTION_H
#define NS_INJECTION_H

#include <limits.h>
#include <stdbool.h>

/* The value of LD_PRELOAD with the library that belongs to this command; allocated. NULL, and one
 * line on stderr in the name of command, if there is none that would load. */
char *ns_injection_preload(const char *command);

/* The absolute path of a policy file that is valid. False, and one line on stderr in the name of
 * command, if it is not. */
bool ns_injection_policy(const char *command, const char *file, char path[PATH_MAX]);

#endif
