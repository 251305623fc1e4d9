/* SPDX-License-Identifier: MIT */
/* The integer socket options that a policy may name (sockopts.def), and how a rule changes a value
 * that the application sets. Pure; all is async-signal-safe. */
#ifndef NS_SOCKOPT_H
#define NS_SOCKOPT_H

#include "policy/policy.h"

/* One row of sockopts.def. */
struct ns_sockopt {
    const char *name; /* as the policy file and the headers spell it */
    int level, option;
    int least, most; /* the kernel's bounds; sockopts.def names their source */
};

enum {
#define NS_SOCKOPT_ROW(name, level, number, least, most) NS_SOCKOPT_##name,
#include "policy/sockopts.def"
#undef NS_SOCKOPT_ROW
    NS_SOCKOPT_COUNT
};

extern const struct ns_sockopt ns_sockopts[NS_SOCKOPT_COUNT];

/* Index into the table, or -1. */
int ns_sockopt_by_name(const char *name);
int ns_sockopt_by_number(int level, int option);

/* The rule's action for the option with this index, or NULL. */
const struct ns_sockopt_action *ns_sockopt_action(const struct ns_rule *rule, int index);

/* The value to set if the application asks for value. Not for NS_SOCKOPT_IGNORE. */
int ns_sockopt_rewrite(const struct ns_sockopt_action *action, int value);

#endif
