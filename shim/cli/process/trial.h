/* SPDX-License-Identifier: MIT */
/* Does a program's own loader take the library? Tried in a child, in which no code of the program
 * or of the library runs. */
#ifndef NS_TRIAL_H
#define NS_TRIAL_H

#include <limits.h>
#include <stddef.h>

enum ns_trial { NS_TRIAL_LOADED, NS_TRIAL_REFUSED, NS_TRIAL_UNTRIED };

/* loader: what program asks for, "" if it asks for none. reason is filled for REFUSED (what the
 * loader says) and UNTRIED. Takes ten seconds at most. */
enum ns_trial ns_trial_load(const char *loader, const char *program, const char *library,
                            char *reason, size_t size);

/* Where the loader finds a name without a slash that LD_PRELOAD has: LOADED, and path is filled;
 * REFUSED: nowhere, or it is no library to it; UNTRIED, and reason is filled. */
enum ns_trial ns_trial_find(const char *loader, const char *program, const char *name,
                            char path[PATH_MAX], char *reason, size_t size);

#endif
