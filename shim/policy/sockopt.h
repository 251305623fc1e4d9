/* SPDX-License-Identifier: MIT */
/* The integer socket options that a policy may name (sockopts.def), and what a rule makes of a
 * value that the application asks for. Pure: no system calls here. */
#ifndef NS_SOCKOPT_H
#define NS_SOCKOPT_H

#include "policy/policy.h"

/* One row of sockopts.def. */
struct ns_sockopt {
    const char *name; /* as the policy file and the headers spell it */
    int level, option;
    int least,
        most; /* what the policy may ask for; the kernel's own bounds, with their source there */
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

/* The rule's action on a table row; NULL if it has none. Async-signal-safe. */
const struct ns_sockopt_action *ns_sockopt_action(const struct ns_rule *rule, int index);

/* The value to give the kernel where the application asks for value; not for NS_SOCKOPT_IGNORE. */
int ns_sockopt_rewrite(const struct ns_sockopt_action *action, int value);

#endif
