/* SPDX-License-Identifier: MIT */
/* The text of a policy: strict parsing of JSON, and the place of an item in the text. Allocates;
 * not async-signal-safe. */
#ifndef NS_POLICY_TEXT_H
#define NS_POLICY_TEXT_H

#include "policy/policy.h"

#include <cJSON.h>

enum ns_text_part { NS_TEXT_KEY, NS_TEXT_VALUE };

/* Parse len bytes as JSON. On success *root is the tree, which lies in memory. Returns 0, -EINVAL
 * (error is the first place where the text is not JSON) or -ENOMEM (error is unchanged). errno is
 * unchanged. One thread at a time. */
int ns_text_parse(const char *text, size_t len, struct ns_arena *memory, const cJSON **root,
                  struct ns_policy_error *error);

/* The offset of an item, or of its key, in a text that ns_text_parse turned into root. */
size_t ns_text_locate(const char *text, const cJSON *root, const cJSON *item,
                      enum ns_text_part part);

/* Set line and column of error for an offset in text. */
void ns_text_place(const char *text, size_t offset, struct ns_policy_error *error);

#endif
