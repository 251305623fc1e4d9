/* SPDX-License-Identifier: MIT */
/* What is probably wrong with the environment variables of the shim. */
#ifndef NS_ENVIRONMENT_H
#define NS_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* Takes a sentence without its full stop. */
typedef void ns_environment_warn(void *context, const char *text);

/* Calls warn for each variable that is misspelt, or whose value is none. library_speaks: a program
 * with the shim follows, which will itself say on stderr what it can; that is then not told. */
void ns_environment_judge(bool library_speaks, ns_environment_warn *warn, void *context);

/* The directories of policies: NAGLESHIM_POLICY_DIR, or the one that was built in. */
const char *ns_environment_policies(void);

/* Is the kill switch NAGLESHIM_OFF on: anything but empty or "0"? Then text says so. */
bool ns_environment_off(char *text, size_t size);

#endif
