/* SPDX-License-Identifier: MIT */
/* What a rule does to a socket, in words. */
#ifndef NS_EFFECT_H
#define NS_EFFECT_H

#include "policy/match.h"

/* Print it, one indented line for each part. */
void ns_effect_print(const struct ns_rule *rule);

/* Print what the listener gets whose connections are accepted at local. */
void ns_effect_print_listener(const struct ns_ruleset *set, const struct ns_address *local);

/* 'rule 2 "quotes"', or 'rule 2' if it has no name. Returns buffer. */
char *ns_effect_name(const struct ns_rule *rule, char *buffer, size_t size);

#endif
