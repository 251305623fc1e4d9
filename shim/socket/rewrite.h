/* SPDX-License-Identifier: MIT */
/* Socket options that a rule rewrites ("sockopt" in a policy): what is set in the kernel, and what
 * getsockopt returns. */
#ifndef NS_REWRITE_H
#define NS_REWRITE_H

#include "conn/conn.h"
#include "policy/match.h"

/* Start-up. */
void ns_rewrite_open(const struct ns_ruleset *rules);

/* Does any rule of this process rewrite this option? */
bool ns_rewrite_has(int level, int option);

/* The application sets an option for which ns_rewrite_has is true. Returns 0 or -errno, the
 * application's result; or 1: the caller makes the call as the application asked. */
int ns_rewrite_set(int fd, struct ns_conn *conn, int level, int option, int value);

/* Does getsockopt return another value than the kernel's? Then *answer is set. */
bool ns_rewrite_answer(const struct ns_conn *conn, int level, int option, int *answer);

/* The rule of fd is known now (NULL: none). Set the options that the application set earlier, with
 * the rule's changes, and the options that the rule itself sets. */
void ns_rewrite_apply(int fd, struct ns_conn *conn, const struct ns_rule *rule);

/* conn was accepted from the listener from: its getsockopt returns the listener's values. */
void ns_rewrite_inherit(struct ns_conn *conn, const struct ns_conn *from);

/* Has the application set options that still wait for the socket's rule? */
bool ns_rewrite_waits(const struct ns_conn *conn);

/* If so, before another program gets the socket: set them as asked. They go on waiting, since the
 * rule may change them. */
void ns_rewrite_set_waiting(int fd, const struct ns_conn *conn);

#endif
