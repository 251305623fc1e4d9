/* SPDX-License-Identifier: MIT */
/* Checks of the environment variables that the library reads. */
#ifndef NS_ENVIRONMENT_H
#define NS_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* text is a sentence without its full stop. */
typedef void ns_environment_warn(void *context, const char *text);

/* Calls warn for each misspelt variable and each invalid value. library_speaks: a program with the
 * library is started next; the library itself reports an invalid log level on standard error. */
void ns_environment_judge(bool library_speaks, ns_environment_warn *warn, void *context);

/* The directories of policies: NAGLESHIM_POLICY_DIR, or the built-in one. */
const char *ns_environment_policies(void);

/* Is the kill switch NAGLESHIM_OFF on: anything but empty or "0"? Then text says so. */
bool ns_environment_off(char *text, size_t size);

#endif
