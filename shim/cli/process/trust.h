/* SPDX-License-Identifier: MIT */
/* Who, besides root and the user of a program, could change the policy that the program gets. */
#ifndef NS_TRUST_H
#define NS_TRUST_H

#include <sys/stat.h>

/* Calls report with the end of a sentence that begins with the file's path, once for each weakness.
 * directory: that in which the file's path stands; NULL if it could not be looked at. user: whom
 * the program runs as. */
void ns_trust_judge(const struct stat *file, const struct stat *directory, uid_t user,
                    void (*report)(void *context, const char *text), void *context);

/* The same for a path; nothing is reported of what is not there. */
void ns_trust_judge_path(const char *path, uid_t user,
                         void (*report)(void *context, const char *text), void *context);

#endif
