/* SPDX-License-Identifier: MIT */
/* What a rule does to a socket, in words. */
#ifndef NS_EFFECT_H
#define NS_EFFECT_H

#include "policy/match.h"

/* Print it on stdout, indented, a line for each part. role may be unknown. */
void ns_effect_print(const struct ns_rule *rule, enum ns_role role);

/* Print what the listener gets from which server sockets at local are accepted. */
void ns_effect_print_listener(const struct ns_ruleset *set, const struct ns_address *local);

/* "rule 2 "quotes"" or "rule 2". Returns buffer. */
char *ns_effect_name(const struct ns_rule *rule, char *buffer, size_t size);

#endif
