/* SPDX-License-Identifier: MIT */
/* The connections that are watched. Those that are there can be walked quickly, and found by the
 * inode of their socket; those that have ended stay until the caller forgets them. */
#ifndef NS_TABLE_H
#define NS_TABLE_H

#include "watch/diag.h"
#include "watch/owners.h"
#include "watch/netns.h"
#include "watch/watched.h"

enum {
    NS_TABLE_EAGER = 8192, /* connections that are kept even if they do nothing */
    NS_TABLE_MOST = 32768, /* connections in all, those that have ended included */
};

struct ns_connection {
    struct ns_watched watched;
    struct ns_diag_key key;
    struct ns_netns *space;
    size_t position; /* among those that are there */
    uint32_t list;   /* the last list that it was in */
    uint64_t looks;
    /* of the last look, to see traffic by */
    uint64_t received;
    uint32_t sent_segments;
    bool suspect;  /* bytes wait for an acknowledgement: it may be held */
    bool is_close; /* under close look */
    bool was_held;
};

struct ns_table {
    struct ns_owners owners;
    struct ns_connection **live, **ended;
    size_t n_live, n_ended, live_room, ended_room;
};

/* The connection of a socket that somebody owns, made if it is not there. NULL: it is not busy, and
 * many are kept; or there is no room, then *full is set. */
struct ns_connection *ns_table_take(struct ns_table *table, struct ns_owned *place,
                                    struct ns_netns *space, const struct ns_diag_socket *seen,
                                    uint64_t tick_ns, bool busy, bool *full);

/* It is gone. The last of table->live takes its position. */
void ns_table_end(struct ns_table *table, struct ns_connection *connection);

/* Give up one that is there and has nothing to tell, for the room that it takes. */
void ns_table_drop(struct ns_table *table, struct ns_connection *connection);

void ns_table_forget_ended(struct ns_table *table);
void ns_table_release(struct ns_table *table);

#endif
