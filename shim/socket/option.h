/* SPDX-License-Identifier: MIT */
/* The application's setsockopt and getsockopt on TCP sockets, and the options that a rule rewrites
 * ("sockopt" in a policy): what is set in the kernel, and what getsockopt returns. */
#ifndef NS_OPTION_H
#define NS_OPTION_H

#include "conn/conn.h"
#include "policy/match.h"

/* Start-up. */
void ns_option_open(const struct ns_ruleset *rules);

/* The two calls for conn, which fd names. Result and errno are those that the application gets: the
 * kernel's, or those that the kernel would have given for a value that a rule has changed. */
int ns_option_set(int fd, struct ns_conn *conn, int level, int option, const void *value,
                  socklen_t len);
int ns_option_get(int fd, struct ns_conn *conn, int level, int option, void *value, socklen_t *len);

/* The rule of fd is known now (NULL: none). Set the options that the application set earlier, with
 * the rule's changes, and the options that the rule itself sets. */
void ns_option_apply(int fd, struct ns_conn *conn, const struct ns_rule *rule);

/* conn was accepted from the listener from: its getsockopt returns the listener's values. */
void ns_option_inherit(struct ns_conn *conn, const struct ns_conn *from);

/* Has the application set options that still wait for the socket's rule? */
bool ns_option_waits(const struct ns_conn *conn);

/* If so, before another program gets the socket: set them as asked. They go on waiting, since the
 * rule may change them. */
void ns_option_set_waiting(int fd, const struct ns_conn *conn);

/* Some socket has to be changed before another program may get it: the program itself has set
 * TCP_NODELAY, for example. */
void ns_option_changed(void);

/* Was ns_option_changed called since the last call of this function? */
bool ns_option_take_changed(void);

#endif
