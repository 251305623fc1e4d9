/* SPDX-License-Identifier: MIT */
/* What `nagleshim check` says about a policy beyond the errors that the library reports. */
#ifndef NS_CLI_CHECK_H
#define NS_CLI_CHECK_H

#include "policy/policy.h"

/* Called for everything that is allowed but probably not intended, such as a rule that is never
 * used. rule is NULL for the policy as a whole. */
struct ns_check_listener {
    void (*report)(void *context, const struct ns_rule *rule, const char *text);
    void *context;
};
void ns_check_warn(const struct ns_policy *policy, const struct ns_check_listener *listener);

/* Names of scripts, for fnmatch with FNM_EXTMATCH. */
#define NS_CHECK_SCRIPT "*.@(py|sh|pl|rb|js|php|jar)"

#endif
