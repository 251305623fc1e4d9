/* SPDX-License-Identifier: MIT */
/* The connections that are sampled every 2 ms: first those that may be held, then those with
 * traffic. If sampling all of these would cost too much, they take turns that are long enough for
 * several holds. */
#ifndef NS_SAMPLER_H
#define NS_SAMPLER_H

#include "watch/table.h"

enum { NS_SAMPLER_MOST = 128 };

struct ns_sampler {
    struct ns_connection *connections[NS_SAMPLER_MOST];
    size_t n, room; /* more than room take turns */
    size_t cursor;  /* in the table: the next turn */
    uint64_t interval, turn_ends, last, rounds;
    uint64_t cost; /* of a sample, ns */
    bool idle;     /* no sampled connection has traffic */
    struct ns_watch_tally tally;
    ns_watch_held held; /* see ns_watch_open */
    void *context;
    struct ns_connection *asked[NS_DIAG_AT_ONCE]; /* the current request */
    struct ns_connection *gone[NS_SAMPLER_MOST];  /* those that do not exist any more */
    size_t n_gone;                                /* in the last ns_sampler_look */
};

void ns_sampler_begin(struct ns_sampler *sampler, ns_watch_held held, void *context);

/* Take a sample from a list or an answer. A connection with traffic is then sampled regularly. */
void ns_sampler_take(struct ns_sampler *sampler, struct ns_connection *connection,
                     const struct ns_look *seen);

/* Does its first sample show recent traffic? */
bool ns_sampler_was_busy(const struct ns_look *look);
bool ns_sampler_is_busy(const struct ns_connection *connection, uint64_t now);
void ns_sampler_leave(struct ns_sampler *sampler, struct ns_connection *connection);

/* Take the samples that are due. 0 or -errno. */
int ns_sampler_look(struct ns_sampler *sampler, const struct ns_table *table, uint64_t now);

/* When the next sample is due. */
uint64_t ns_sampler_due(const struct ns_sampler *sampler);

#endif
