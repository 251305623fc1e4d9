/* SPDX-License-Identifier: MIT */
/* What a write does to a connection that a rule governs: ns_out_begin before the call, ns_out_end
 * after it, or ns_held_after (held.h). Nothing here makes the application's call, blocks but where
 * it says so, or keeps a byte; errno is unchanged; all is async-signal-safe. */
#ifndef NS_OUT_H
#define NS_OUT_H

#include "hold/debts.h"
#include "traffic/push.h"
#include "traffic/write.h"

/* Before a write. What the thread owes elsewhere is settled if the write may block. Once per write;
 * then the call, and ns_out_end, or if holds is set ns_held_after. */
void ns_out_begin(struct ns_write *one);

/* Does a write change nothing but counts, so that it may be made at once, and nothing be told after
 * it? It counts it then. For a burst that goes on, and for nodelay: what begins a burst is not as
 * simple as that. */
__attribute__((always_inline)) static inline bool ns_out_passes(int fd, struct ns_conn *conn)
{
    struct ns_ack_state ack = ns_conn_ack(conn);
    if (NS_GET(conn, app_corks) || ack.heard || ack.owed || ack.sent)
        return false;
    if (NS_GET(conn, send) == NS_SEND_NODELAY) {
        ns_thread.wrote = true;
        return NS_GET(conn, kernel_nodelay) && NS_GET(conn, wrote) && !ns_owes();
    }
    if (NS_GET(conn, send) != NS_SEND_ADAPTIVE || NS_GET(conn, burst_epoch) != ns_thread.epoch)
        return false;
    struct ns_burst burst = ns_conn_burst(conn);
    if (NS_GET(conn, joins)) {
        uint16_t now = ns_push_clock();
        if (!ns_owes_only(fd) || ns_burst_paused(&burst, now, NS_BURST_PAUSE))
            return false;
        burst.at = now;
    } else if (ns_owes() || ns_burst_is_timed(&burst, false) || !NS_GET(conn, kernel_nodelay)) {
        return false;
    }
    if (burst.writes < UINT16_MAX)
        burst.writes++;
    burst.look = ns_thread.looks;
    ns_thread.wrote = true;
    ns_conn_burst_put(conn, burst);
    return true;
}

/* After the call, with its result. */
void ns_out_end(const struct ns_write *one, ssize_t result);

#endif
