/* SPDX-License-Identifier: MIT */
/* The text of a policy: its parsing with cJSON, places in it, and its endpoints (10.0.0.0/8,
 * 7000-7010, 10.0.0.1:80, [fd00::/8]:443). Not async-signal-safe. */
#ifndef NS_POLICY_TEXT_H
#define NS_POLICY_TEXT_H

#include "policy/policy.h"

#include <cJSON.h>

/* The memory of the trees that the command makes itself, after a text was parsed; NULL: malloc. */
extern cJSON_Hooks *ns_text_hooks;

/* Parse len bytes, which a NUL must follow, as one JSON object. *root becomes the tree, which lies
 * in memory. Returns 0, -EINVAL (error is the first place where cJSON does not accept the text) or
 * -ENOMEM (error is unchanged). errno is unchanged. One thread at a time. */
int ns_text_parse(struct ns_arena *memory, const char *text, size_t len, const cJSON **root,
                  struct ns_policy_error *error);

/* Where the value of item begins, or its key, in the text that ns_text_parse turned into root. */
const char *ns_text_locate(const char *text, const cJSON *root, const cJSON *item, bool key);

/* Set line and column of error to the place at in text. */
void ns_text_place(const char *text, const char *at, struct ns_policy_error *error);

/* Pure: resolves no names. Returns 0 or -EINVAL. On -EINVAL, problem is the end of "... is not an
 * endpoint: ...": the mistake, and what is allowed. */
int ns_endpoint_parse(const char *text, struct ns_endpoint *endpoint, char *problem, size_t size);

#endif
