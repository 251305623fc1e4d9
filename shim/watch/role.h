/* SPDX-License-Identifier: MIT */
/* Which end of a connection is the server: the one whose port has a listener. If the listener is
 * closed, all connections of the namespace are considered: those that a listener accepted have the
 * same local port and different peers. */
#ifndef NS_ROLE_H
#define NS_ROLE_H

#include "watch/diag.h"
#include "watch/netns.h"

enum { NS_ROLES_ENDS = 65536 };

/* The number of connections by local port, and by a hash of the remote end. */
struct ns_roles {
    uint16_t local[NS_ROLES_ENDS], remote[NS_ROLES_ENDS];
};

void ns_roles_clear(struct ns_roles *roles);
void ns_roles_count(struct ns_roles *roles, const struct ns_diag_key *key);

/* Call it when all connections of the namespace have been counted. */
bool ns_roles_is_server(const struct ns_roles *roles, const struct ns_netns *netns,
                        const struct ns_diag_key *key);

#endif
