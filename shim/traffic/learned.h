/* SPDX-License-Identifier: MIT */
/* What a connection learns about ACKs, the next one knows: the connections to one address and port,
 * and those that came to one port of this machine, share an entry of a fixed table. An entry is a
 * number on the scale below. Pure functions say which one a connection has, and begins with. */
#ifndef NS_LEARNED_H
#define NS_LEARNED_H

#include "traffic/ack.h"

/* What connections to one peer have learned together, for all of them: the number of first ACKs
 * that they have spent and of reads on trial; or, from NS_ACK_HELPS on, the term, and half of what
 * is counted of its ACKs. */
enum {
    NS_ACK_NEEDLESS = NS_ACK_FIRST + NS_ACK_TRIAL,
    NS_ACK_HELPS,
    NS_ACK_PLACES = NS_ACK_TERM / 2, /* of each term */
};

/* A connection's place on this scale. */
static inline unsigned ns_ack_place(struct ns_ack_state state)
{
    unsigned spent = state.spent;
    if (state.skips)
        return NS_ACK_FIRST + (spent < NS_ACK_TRIAL ? spent : NS_ACK_TRIAL);
    if (!state.term)
        return spent < NS_ACK_FIRST * NS_ACK_PART ? spent / NS_ACK_PART : NS_ACK_FIRST;
    spent = spent / 2 < NS_ACK_PLACES ? spent / 2 : NS_ACK_PLACES - 1;
    return NS_ACK_HELPS + (state.term - 1u) * NS_ACK_PLACES + spent;
}

/* Begin with what is known. */
static inline void ns_ack_begin(struct ns_ack_state *state, unsigned known)
{
    bool helps = known >= NS_ACK_HELPS, skips = !helps && known >= NS_ACK_FIRST;
    state->term = (helps ? (known - NS_ACK_HELPS) / NS_ACK_PLACES + 1 : 0) & 7;
    ns_ack_decide(state, skips,
                  helps   ? (known - NS_ACK_HELPS) % NS_ACK_PLACES * 2
                  : skips ? known - NS_ACK_FIRST
                          : known * NS_ACK_PART);
}

/* known was learned before. A connection's state has changed from before to after, which takes over
 * how far the others have come. Returns what is known now. */
static inline unsigned ns_ack_learn(unsigned known, struct ns_ack_state before,
                                    struct ns_ack_state *after)
{
    unsigned from = ns_ack_place(before), to = ns_ack_place(*after);
    if (from == to)
        return known;
    unsigned term = known < NS_ACK_HELPS ? 0 : (known - NS_ACK_HELPS) / NS_ACK_PLACES + 1;
    bool ends = term && (known + 1 - NS_ACK_HELPS) % NS_ACK_PLACES == 0;
    if (to >= NS_ACK_HELPS)
        return from < NS_ACK_HELPS && to > known ? to
                                                 : known + (from >= NS_ACK_HELPS && term && !ends);
    if (to == NS_ACK_FIRST && from >= NS_ACK_HELPS && ends) /* if others try now, it is confirmed */
        return NS_ACK_HELPS + (term < NS_ACK_TERMS ? term : term - 1) * NS_ACK_PLACES;
    if (to == NS_ACK_FIRST && from >= NS_ACK_HELPS && term) {
        after->term = term & 7;
        ns_ack_decide(after, false, 0);
        return known;
    }
    if (from >= NS_ACK_HELPS || known >= NS_ACK_HELPS)
        return to == NS_ACK_NEEDLESS ? NS_ACK_NEEDLESS : known;
    if (known < (from < NS_ACK_FIRST ? NS_ACK_FIRST : NS_ACK_NEEDLESS))
        known++;
    if (to < known)
        ns_ack_begin(after, known);
    return known;
}

/* Before listen(): from now on forked children, too, share the table with this process. */
void ns_learned_share(void);

/* An ACK is pending. At the connection's first one, begin with what others have learned, and return
 * true. */
bool ns_learned_begin(int fd, struct ns_conn *conn, struct ns_ack_state *state);

/* Store the state of the connection and what it has learned since it was before. It also takes over
 * what others have learned. */
void ns_learned_change(struct ns_conn *conn, struct ns_ack_state before,
                       struct ns_ack_state *after);
static inline void ns_learned_put(struct ns_conn *conn, struct ns_ack_state before,
                                  struct ns_ack_state *after)
{
    if (!ns_ack_is_free(before) || !ns_ack_is_free(*after))
        ns_learned_change(conn, before, after);
    ns_conn_ack_put(conn, *after);
}

#endif
