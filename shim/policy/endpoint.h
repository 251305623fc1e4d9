/* SPDX-License-Identifier: MIT */
/* The endpoints of a policy, from text: 10.0.0.0/8, 7000-7010, 10.0.0.1:80, [fd00::/8]:443. Pure:
 * resolves no names and allocates nothing. Not async-signal-safe. */
#ifndef NS_POLICY_ENDPOINT_H
#define NS_POLICY_ENDPOINT_H

#include "policy/policy.h"

/* Returns 0 or -EINVAL. On -EINVAL, problem is the end of "... is not an endpoint: ...": the
 * mistake, and what is allowed. */
int ns_endpoint_parse(const char *text, struct ns_endpoint *endpoint, char *problem, size_t size);

#endif
