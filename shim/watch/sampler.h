/* SPDX-License-Identifier: MIT */
/* The connections that are looked at one by one, every 2 ms: those first that may be held, then
 * those that have traffic. Where these are more than may cost what a look costs, they take turns,
 * each long enough that several holds fit in. */
#ifndef NS_SAMPLER_H
#define NS_SAMPLER_H

#include "watch/table.h"

enum { NS_SAMPLER_MOST = 128 };

struct ns_sampler {
    struct ns_connection *connections[NS_SAMPLER_MOST];
    size_t n, room;
    size_t cursor; /* in the table: whose turn is next */
    uint64_t interval, turn_ends, last, rounds;
    uint64_t cost; /* of one look */
    bool fixed;    /* the interval is the caller's */
    bool idle;     /* none under close look has traffic */
};

/* What one call of ns_watch_look is given. */
struct ns_sampler_call {
    struct ns_watch_tally *tally;
    void (*held)(void *context, struct ns_watched *watched, const struct ns_hold *hold);
    void *context;
};

void ns_sampler_begin(struct ns_sampler *closely, uint64_t interval_ns);

/* What a list or an answer says of a connection; it comes under close look if it is worth it. */
void ns_sampler_take(struct ns_sampler *closely, const struct ns_sampler_call *call,
                     struct ns_connection *connection, const struct ns_look *seen);

/* Has a socket that is seen for the first time had traffic lately? */
bool ns_sampler_was_busy(const struct ns_look *look);
bool ns_sampler_is_busy(const struct ns_connection *connection, uint64_t now);
/* Is there room for so many? Then none takes turns. */
static inline bool ns_sampler_has(const struct ns_sampler *closely, size_t connections)
{
    return connections <= closely->room;
}

void ns_sampler_leave(struct ns_sampler *closely, struct ns_connection *connection);

/* Look at those that are due. gone: those that are not there any more. */
int ns_sampler_look(struct ns_sampler *closely, const struct ns_sampler_call *call,
                    struct ns_table *table, uint64_t now,
                    struct ns_connection *gone[NS_SAMPLER_MOST], size_t *n_gone);

/* When the next look is due. */
uint64_t ns_sampler_due(const struct ns_sampler *closely);

#endif
