/* SPDX-License-Identifier: MIT */
/* What a connection learns about ACKs, the next one knows: the connections to one address and port,
 * and those that came to one port of this machine, share an entry of a fixed table. Nothing here
 * blocks or allocates; errno is unchanged; all is async-signal-safe. */
#ifndef NS_LEARNED_H
#define NS_LEARNED_H

#include "traffic/state.h"

/* Before listen(): from now on forked children, too, share the table with this process. */
void ns_learned_share(void);

/* The connection's first ACK is pending: begin with what others have learned. */
void ns_learned_begin(int fd, struct ns_conn *conn, struct ns_ack_state *state);

/* Store the state of the connection, and what it has learned since it was before. */
void ns_learned_put(struct ns_conn *conn, struct ns_ack_state before, struct ns_ack_state after);

#endif
