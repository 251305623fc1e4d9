/* SPDX-License-Identifier: MIT */
/* What happens around a write to a connection that a rule governs: ns_out_begin before the call,
 * then ns_out_end, or ns_held_after (held.h) if the write was held. Nothing here makes the
 * application's call, blocks or keeps a byte; errno is unchanged; all is async-signal-safe. */
#ifndef NS_OUT_H
#define NS_OUT_H

#include "traffic/held.h"

/* Before a write, once. Flushes what is pending on other connections if the write may block. Then
 * comes the call, and ns_out_end, or ns_held_after if holds is set. */
void ns_out_begin(struct ns_write *one);

/* Does the write only change counts, as inside a burst or with nodelay? Then it is counted here,
 * and the caller makes it without ns_out_begin and ns_out_end. A shortcut: it and ns_held_goes_on
 * save 132 of 194 instructions of a write with nodelay (51 of 64 ns), and auto-cork 6 to 12 % of
 * its time in the benchmark "15 writes". */
__attribute__((always_inline)) static inline bool ns_out_passes(int fd, struct ns_conn *conn)
{
    struct ns_ack_state ack = ns_conn_ack(conn);
    if (NS_GET(conn, app_corks) || ack.heard || ack.pending || ack.sent)
        return false;
    if (NS_GET(conn, send) == NS_SEND_NODELAY) {
        ns_thread.wrote = true;
        return NS_GET(conn, kernel_nodelay) && NS_GET(conn, wrote) && !ns_pending_any();
    }
    if (NS_GET(conn, send) != NS_SEND_ADAPTIVE || NS_GET(conn, burst_epoch) != ns_thread.epoch)
        return false;
    struct ns_burst burst = ns_conn_burst(conn);
    if (NS_GET(conn, joins)) {
        uint16_t now = ns_push_clock();
        if (!ns_pending_only(fd) || ns_burst_paused(&burst, now, NS_BURST_PAUSE))
            return false;
        burst.at = now;
    } else if (ns_pending_any() || ns_burst_is_timed(&burst, false) ||
               !NS_GET(conn, kernel_nodelay)) {
        return false;
    }
    if (burst.writes < UINT16_MAX)
        burst.writes++;
    burst.probe = ns_thread.probes;
    ns_thread.wrote = true;
    ns_conn_burst_put(conn, burst);
    return true;
}

/* After the call. result is what it returned. */
void ns_out_end(const struct ns_write *one, ssize_t result);

/* From now on Nagle's algorithm may hold bytes on fd, since TCP_NODELAY is off there. */
void ns_join_mark(int fd, struct ns_conn *conn);

#endif
