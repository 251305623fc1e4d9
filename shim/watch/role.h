/* SPDX-License-Identifier: MIT */
/* Which end of a connection is the server's. Where somebody listens on its port, it is; but a
 * listener may be closed while what it accepted lives on, and then the ports of all connections of
 * the namespace tell: those that a listener accepted have its port in common, and each a peer of
 * its own. */
#ifndef NS_ROLE_H
#define NS_ROLE_H

#include "watch/diag.h"
#include "watch/netns.h"

enum { NS_ROLES_ENDS = 65536 };

/* How many connections of one list have a local port, or a remote end; the latter by a hash. */
struct ns_roles {
    uint16_t local[NS_ROLES_ENDS], remote[NS_ROLES_ENDS];
};

void ns_roles_clear(struct ns_roles *roles);
void ns_roles_count(struct ns_roles *roles, const struct ns_diag_key *key);

/* Once all of the namespace have been counted. */
bool ns_roles_is_server(const struct ns_roles *roles, const struct ns_netns *space,
                        const struct ns_diag_key *key);

#endif
