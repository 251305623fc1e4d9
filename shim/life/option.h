/* SPDX-License-Identifier: MIT */
/* setsockopt and getsockopt on TCP sockets: what a rule makes of them, and what the application is
 * told. errno is as the call leaves it. Async-signal-safe. */
#ifndef NS_OPTION_H
#define NS_OPTION_H

#include "conn/fds.h"
#include "policy/match.h"

#include <sys/socket.h>

/* Start-up. */
void ns_option_open(const struct ns_ruleset *rules);

/* The two calls, for a slot that is not NS_FD_OTHER. Results and errno are the kernel's own
 * wherever the kernel was asked. */
int ns_option_set(int fd, struct ns_sock *slot, int level, int option, const void *value,
                  socklen_t len);
int ns_option_get(int fd, struct ns_sock *slot, int level, int option, void *value, socklen_t *len);

/* The rule of fd is known now (NULL: none): give the kernel what the application asked for before,
 * as the rule has it, and what the rule sets by itself. */
void ns_option_apply(int fd, struct ns_sock *slot, const struct ns_rule *rule);

/* slot is a socket that the kernel made from, or shares with, from. */
void ns_option_inherit(struct ns_sock *slot, const struct ns_sock *from);

/* Bound the kernel's own delayed ACK where it can be (TCP_DELACK_MAX_US, Linux 6.17 or so): for the
 * ACKs whose wait we do not see (stdio, a futex). */
void ns_option_bound_delayed_ack(int fd, struct ns_sock *slot);

/* Has fd that bound already? Remembers it. */
bool ns_option_has_bound(int fd, struct ns_sock *slot);

/* The opposite, for a socket that inherited the bound and has no rule. */
void ns_option_unbound_delayed_ack(int fd, struct ns_sock *slot);

/* Sockets may leave for where nobody keeps what their applications asked for (a child, another
 * program): give the kernel every request that waits for a rule. */
void ns_option_commit(void);

#endif
