/* SPDX-License-Identifier: MIT */
/* The watched connections, and those of them that are sampled. */
#ifndef NS_TABLE_H
#define NS_TABLE_H

#include "watch/diag.h"
#include "watch/owners.h"
#include "watch/watched.h"

/* --- table.c: live ones, which can be found by the inode of their socket, and ended ones, until
 * the caller forgets them. */

enum {
    NS_TABLE_EAGER = 8192, /* connections that are kept even if they are idle */
    NS_TABLE_MOST = 32768, /* connections in all, including ended ones */
    NS_TABLE_ENDS = 16384,
    NS_TABLE_BUSY_MS = 2000, /* a connection is busy for so long after the last traffic */
};

struct ns_connection {
    struct ns_watched watched; /* see ns_watch_other_end */
    struct ns_diag_key key;
    struct ns_netns *netns;
    struct ns_connection *next; /* in table->ends */
    size_t position;            /* among the live ones */
    uint32_t list;              /* the last list that it was in */
    bool suspect;               /* it has unsent bytes and waits for an ACK: it may be held */
    bool is_sampled;            /* it is in the sampler */
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

/* Does its first sample show recent traffic? */
bool ns_table_was_busy(const struct ns_look *look);

/* Find or add the connection of a socket with a known owner. NULL: there are many, and this one is
 * not busy; or there is no room, then *full is set. */
struct ns_connection *ns_table_take(struct ns_table *table, struct ns_owned *place,
                                    struct ns_netns *netns, const struct ns_diag_socket *seen,
                                    uint64_t tick_ns, bool *full);

/* Is this end the server? Its port has a listener, and the other one has none; or it had one; or it
 * is below the ephemeral ones. */
bool ns_table_is_server(const struct ns_netns *netns, const struct ns_diag_key *key);

/* Set its role, of which more is known as listeners are found. That of a connection that was held
 * stays, as the hold was reported with it. */
void ns_table_set_role(struct ns_connection *connection);

/* Remove a live one: it has ended, or, to save memory, it is forgotten at once. The last of
 * table->live takes its position. */
void ns_table_remove(struct ns_table *table, struct ns_connection *connection, bool ended);

void ns_table_forget_ended(struct ns_table *table);
void ns_table_release(struct ns_table *table);

/* --- sampler.c: those that are sampled every 2 ms, first those that may be held, then those with
 * traffic. While a hold may end, or its answer may come, samples are at most half a tick apart, as
 * the judge assumes (weigh.c): 0.5 ms with 1000 ticks a second. If sampling all of these would cost
 * too much, they take turns that are long enough for several holds. */

enum { NS_SAMPLER_MOST = 128 };

struct ns_sampler {
    struct ns_connection *connections[NS_SAMPLER_MOST];
    size_t n, room; /* more than room take turns */
    size_t cursor;  /* in the table: the next turn */
    uint64_t interval, turn_ends, last, rounds;
    uint64_t cost; /* of a sample, ns */
    bool idle;     /* no sampled connection has traffic */
    bool close;    /* one of them is, see ns_judge_is_close */
    uint64_t fine; /* then the interval is no longer, ns */
    struct ns_watch_tally tally;
    ns_watch_held held; /* see ns_watch_open */
    void *context;
    struct ns_connection *asked[NS_DIAG_AT_ONCE]; /* the current request */
    struct ns_connection *gone[NS_SAMPLER_MOST];  /* those that do not exist any more */
    size_t n_gone;                                /* in the last ns_sampler_look */
};

void ns_sampler_begin(struct ns_sampler *sampler, uint64_t tick_ns, ns_watch_held held,
                      void *context);

/* Take a sample from a list or an answer. A connection with traffic is then sampled regularly. */
void ns_sampler_take(struct ns_sampler *sampler, struct ns_connection *connection,
                     const struct ns_look *seen);

bool ns_sampler_is_busy(const struct ns_connection *connection, uint64_t now);
void ns_sampler_leave(struct ns_sampler *sampler, struct ns_connection *connection);

/* Take the samples that are due. 0 or -errno. */
int ns_sampler_look(struct ns_sampler *sampler, const struct ns_table *table, uint64_t now);

/* When the next sample is due. */
uint64_t ns_sampler_due(const struct ns_sampler *sampler);

#endif
