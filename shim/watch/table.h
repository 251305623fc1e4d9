/* SPDX-License-Identifier: MIT */
/* The watched connections: live ones, which can be found by the inode of their socket, and ended
 * ones, until the caller forgets them. */
#ifndef NS_TABLE_H
#define NS_TABLE_H

#include "watch/diag.h"
#include "watch/owners.h"
#include "watch/netns.h"
#include "watch/watched.h"

enum {
    NS_TABLE_EAGER = 8192, /* connections that are kept even if they are idle */
    NS_TABLE_MOST = 32768, /* connections in all, including ended ones */
    NS_TABLE_ENDS = 16384,
};

struct ns_connection {
    struct ns_watched watched;
    struct ns_diag_key key;
    struct ns_netns *netns;
    struct ns_connection *next; /* in table->ends */
    size_t position;            /* among the live ones */
    uint32_t list;              /* the last list that it was in */
    uint64_t looks;
    /* from the last sample, to recognise traffic */
    uint64_t received;
    uint32_t sent_segments;
    bool suspect;    /* it has unsent bytes and waits for an ACK: it may be held */
    bool is_sampled; /* it is in the sampler */
    bool was_held;
    bool wants_peer; /* its other end was not looked for yet, or has an unknown process */
};

struct ns_table {
    struct ns_owners owners;
    struct ns_connection **live, **ended;
    size_t n_live, n_ended;
    struct ns_connection *ends[NS_TABLE_ENDS]; /* the chosen ones, a hash table by both ends */
};

/* The live connection of a chosen process whose other end is this socket; NULL: none. */
struct ns_connection *ns_table_other_end(struct ns_table *table, const struct ns_netns *netns,
                                         const struct ns_diag_key *key);

/* Find or add the connection of a socket with a known owner. NULL: there are many, and this one is
 * not busy; or there is no room, then *full is set. */
struct ns_connection *ns_table_take(struct ns_table *table, struct ns_owned *place,
                                    struct ns_netns *netns, const struct ns_diag_socket *seen,
                                    uint64_t tick_ns, bool busy, bool *full);

/* Is this end the server? Its port has or had a listener, or is below the ephemeral ones. */
bool ns_table_is_server(const struct ns_netns *netns, const struct ns_diag_key *key);

/* It has ended. The last of table->live takes its position. */
void ns_table_end(struct ns_table *table, struct ns_connection *connection);

/* Remove a live one to save memory. */
void ns_table_drop(struct ns_table *table, struct ns_connection *connection);

void ns_table_forget_ended(struct ns_table *table);
void ns_table_release(struct ns_table *table);

#endif
