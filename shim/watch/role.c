/* SPDX-License-Identifier: MIT */
/* See role.h. Pure. */
#include "watch/role.h"

#include <arpa/inet.h>
#include <string.h>

/* The default begin of the range of ephemeral ports. */
enum { CHOSEN_FIRST = 32768 };

/* Two remote ends with the same hash look like a server with more connections, so that this end may
 * be called a client by mistake. */
static uint16_t hash(const struct ns_diag_key *key)
{
    uint64_t sum = key->id.idiag_dport;

    for (int i = 0; i < (key->family == AF_INET ? 1 : 4); i++)
        sum = (sum ^ key->id.idiag_dst[i]) * 0x9e3779b97f4a7c15U;
    return (uint16_t)(sum >> 48);
}

static void count(uint16_t *counter)
{
    *counter = (uint16_t)(*counter + (*counter < UINT16_MAX));
}

void ns_roles_clear(struct ns_roles *roles)
{
    memset(roles, 0, sizeof *roles);
}

void ns_roles_count(struct ns_roles *roles, const struct ns_diag_key *key)
{
    count(&roles->local[ntohs(key->id.idiag_sport)]);
    count(&roles->remote[hash(key)]);
}

bool ns_roles_is_server(const struct ns_roles *roles, const struct ns_netns *netns,
                        const struct ns_diag_key *key)
{
    uint16_t local = ntohs(key->id.idiag_sport), remote = ntohs(key->id.idiag_dport);
    unsigned here = roles->local[local], there = roles->remote[hash(key)];

    if (ns_netns_is_listened(netns, local))
        return true;
    if (ns_netns_is_listened(netns, remote))
        return false;
    /* A client with very many connections reuses its ports, too, each for a few servers. */
    if (here != there)
        return here > there;
    return local < CHOSEN_FIRST && remote >= CHOSEN_FIRST;
}
