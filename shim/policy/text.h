/* SPDX-License-Identifier: MIT */
/* The text of a policy: is it JSON to the letter, and where in it does something stand. Allocates;
 * not async-signal-safe. */
#ifndef NS_POLICY_TEXT_H
#define NS_POLICY_TEXT_H

#include "policy/policy.h"

#include <cJSON.h>

enum ns_text_part { NS_TEXT_KEY, NS_TEXT_VALUE };

/* Parse len bytes as JSON. On success *root is the tree, which lies in memory and goes with it.
 * Returns 0, -EINVAL (error is filled: the first place where the text stops being JSON) or -ENOMEM
 * (error is not touched). errno is unchanged. One thread at a time. */
int ns_text_parse(const char *text, size_t len, struct ns_arena *memory, const cJSON **root,
                  struct ns_policy_error *error);

/* The part of a text before the place where it stops being JSON (stop, from ns_text_parse), with
 * what is open there closed: *copy and *root, both in memory. *unfinished: where an object or list
 * opens that is empty for this reason alone, or 0. Returns 0, -EINVAL if there is no such part, or
 * -ENOMEM. One thread at a time. */
int ns_text_parse_beginning(const char *text, size_t len, const struct ns_policy_error *stop,
                            struct ns_arena *memory, const char **copy, const cJSON **root,
                            size_t *unfinished);

/* The offset of an item, or of its key, in a text that ns_text_parse turned into root. */
size_t ns_text_locate(const char *text, const cJSON *root, const cJSON *item,
                      enum ns_text_part part);

/* Set line and column of error for an offset in text. */
void ns_text_place(const char *text, size_t offset, struct ns_policy_error *error);

#endif
