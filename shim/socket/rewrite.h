/* SPDX-License-Identifier: MIT */
/* Socket options that a rule rewrites ("sockopt" in a policy): what the kernel is given, and what
 * the application is answered. Nothing here blocks; errno is unchanged; async-signal-safe. */
#ifndef NS_REWRITE_H
#define NS_REWRITE_H

#include "conn/conn.h"
#include "policy/match.h"

/* Start-up. */
void ns_rewrite_open(const struct ns_ruleset *rules);

/* Does some rule of this process rewrite this option? */
bool ns_rewrite_has(int level, int option);

/* The application asks for an option of which ns_rewrite_has is true. Returns 0 or -errno, which it
 * is to be answered; or 1 if that is the kernel's to say. */
int ns_rewrite_set(int fd, struct ns_conn *conn, int level, int option, int value);

/* What the application is answered instead of what the kernel says; false: just that. */
bool ns_rewrite_answer(const struct ns_conn *conn, int level, int option, int *answer);

/* The rule of fd is known now (NULL: none): give the kernel what the application asked for before,
 * as the rule has it, and what the rule sets by itself. */
void ns_rewrite_apply(int fd, struct ns_conn *conn, const struct ns_rule *rule);

/* conn is a socket that the kernel made from the listener from. */
void ns_rewrite_inherit(struct ns_conn *conn, const struct ns_conn *from);

/* Sockets may leave for where nobody keeps what their applications asked for (a child, another
 * program): give the kernel every request that waits for a rule. */
void ns_rewrite_commit(void);

#endif
