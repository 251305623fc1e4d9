/* SPDX-License-Identifier: MIT */
/* See out.h. Owns the burst of a connection. */
#include "traffic/out.h"

#include "conn/kernel.h"
#include "conn/process.h"
#include "report/status.h"

#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

/* Bytes that are written with these flags must not be joined with others. */
enum { APART = MSG_OOB | MSG_EOR | MSG_FASTOPEN | MSG_ZEROCOPY };

/* A write waits if a socket's or a pipe's buffer is full. Then the pending work of other
 * connections is flushed. For more bytes than most it is not known whether there is room; to a
 * socket, such a call itself costs more than the flush. */
static void flush_others(int fd, const struct ns_conn *conn, size_t size, int flags)
{
    const size_t most = conn ? 64 * 1024 : PIPE_BUF;
    if (!(flags & MSG_DONTWAIT) && !(conn && NS_GET(conn, nonblock)))
        ns_flush_unless_ready(fd, conn, size > most ? 0 : POLLOUT);
}

void ns_hold_mark(int fd, struct ns_conn *conn, bool lists)
{
    NS_PUT(conn, held, 1);
    atomic_store_explicit(&ns_push_any, true, memory_order_release);
    if (lists)
        ns_pending_add(fd);
}

/* Let the kernel hold what is written from now on, until a push: lists, by the thread's next wait.
 * Returns false if it does not. */
static bool hold(int fd, struct ns_conn *conn, const struct ns_send_mode *mode, bool lists)
{
    bool corks = mode->option == TCP_CORK;
    if (ns_has_other_fds()) /* nothing would push what a child of vfork holds */
        return false;
    if (corks) {
        ns_enforce_nodelay(fd, conn); /* without it a push would send only full segments */
        if (!NS_GET(conn, kernel_nodelay))
            return false;
        /* What one thread writes to several peers leaves in the order in which it was written. */
        if (!ns_pending_only(fd))
            ns_flush_pushes();
    }
    /* Marked first: a signal handler may jump away as soon as the kernel has the option. */
    ns_hold_mark(fd, conn, lists);
    ns_thread.corked |= corks;
    if (!NS_GET(conn, kernel_nodelay)) /* Nagle's algorithm is on */
        return true;
    int error = ns_kernel_set(fd, IPPROTO_TCP, mode->option, mode->hold);
    if (error) {
        NS_PUT(conn, held, 0);
        ns_push_failed(fd, conn, error);
    } else if (!atomic_load(&conn->held)) {
        /* Another thread or a signal handler has pushed, perhaps before that call. */
        ns_kernel_set(fd, IPPROTO_TCP, mode->option, mode->push);
    } else if (corks) {
        NS_COUNT(bursts);
    } else {
        NS_COUNT(joined);
    }
    return !error;
}

/* Is the next write, or message that the application corks, left to Nagle's algorithm, since its
 * line is full? The bytes are marked as held, so that a read that blocks pushes them, and not
 * listed, so that other waits do not. */
static bool leaves_to_nagle(int fd, struct ns_conn *conn, const struct ns_send_mode *mode)
{
    struct ns_burst burst = ns_conn_burst(conn);
    uint16_t full = NS_GET(conn, full);
    if (full >= NS_FULL_ASK && !NS_GET(conn, held)) /* a push has set TCP_NODELAY again */
        full %= NS_FULL_SOON;
    /* A wait may be unseen; and a read from a pipe counts only while something is pending. */
    if (!ns_burst_waits(&burst, (uint8_t)ns_thread.waits) && full != NS_FULL_SOON &&
        (full < NS_FULL_ASK || ns_push_clock() == burst.at))
        return full >= NS_FULL_ASK;
    if (full >= NS_FULL_ASK && !ns_kernel_unacked(fd)) /* an answer was read unseen, or elsewhere */
        full += NS_FULL_DRAINED;
    if (++full == NS_FULL_SOON) /* only a late write sets it to this value */
        full++;
    if (full >= NS_FULL_END) {
        full = NS_FULL_AGAIN;
        NS_PUT(conn, held, 0);
        NS_PUT(conn, kernel_nodelay, 0); /* it is set again before the write */
    } else if (full == NS_FULL_ASK) {
        if (NS_GET(conn, app_nodelay) || !ns_kernel_line_is_full(fd, ns_conn_ack(conn).here) ||
            !hold(fd, conn, mode, false))
            full = 0;
    }
    NS_PUT(conn, full, full);
    if (full < NS_FULL_ASK)
        return false;
    burst.wait = (uint8_t)ns_thread.waits;
    burst.at = ns_push_clock();
    ns_conn_burst_put(conn, burst);
    return true;
}

/* One more write of a held burst. */
static inline void count_held(int fd, struct ns_conn *conn, const struct ns_send_mode *mode)
{
    struct ns_burst burst = ns_conn_burst(conn);
    enum ns_burst_step step = ns_burst_held(&burst, mode->from, ns_push_clock(),
                                            ns_push_pause(conn, mode), (uint8_t)ns_thread.waits);
    ns_conn_burst_put(conn, burst);
    if (NS_GET(conn, writer)) /* another thread may have begun it */
        NS_PUT(conn, writer, ns_thread.id);
    if (__builtin_expect(step == NS_BURST_LATE, 0)) {
        ns_push(fd, conn);
        NS_PUT(conn, full, NS_FULL_SOON);
    } else {
        ns_pending_add(fd);
    }
}

/* One more write of a burst that is not held: the kernel holds it if it is one of many. */
static void count_write(int fd, struct ns_conn *conn, const struct ns_send_mode *mode)
{
    struct ns_burst burst = ns_conn_burst(conn);
    uint32_t writer = NS_GET(conn, writer);
    if (writer != ns_thread.id) {
        ns_burst_begin(&burst, (uint8_t)ns_thread.waits);
        NS_PUT(conn, writer, ns_thread.id);
    }
    /* With Nagle's algorithm on, a first write leaves at once only if all earlier data was
     * acknowledged. Data from the peer has most likely carried that ACK. */
    if (mode->option == TCP_NODELAY && ns_burst_asks(&burst, ns_thread.waits))
        ns_burst_found(&burst, ns_kernel_unread(fd) > 0);
    unsigned from = ns_burst_is_ahead(burst) || (!mode->nodelay && writer) ? 1 : mode->from;
    if (mode->option == TCP_CORK && burst.single) /* a cork for one write costs two calls */
        from++;
    uint16_t now = ns_burst_is_timed(&burst, from) ? ns_push_clock() : 0;
    enum ns_burst_step step =
        ns_burst_write(&burst, from, now, ns_push_pause(conn, mode), (uint8_t)ns_thread.waits);
    ns_conn_burst_put(conn, burst);
    if (step == NS_BURST_HOLD)
        hold(fd, conn, mode, true);
    else if (step == NS_BURST_LATE)
        NS_PUT(conn, full, NS_FULL_SOON);
}

/* Apart, because the path of other writes saves no registers then. */
__attribute__((noinline)) static bool burst_goes_on(int fd, struct ns_conn *conn)
{
    if (!ns_pending_only(fd) || ns_burst_is_anothers(conn))
        return false;
    uint16_t now = ns_push_clock();
    struct ns_burst burst = ns_conn_burst(conn);
    if (now != burst.at) /* it may be late */
        return false;
    ns_burst_held(&burst, 0, now, NS_BURST_NEVER, (uint8_t)ns_thread.waits);
    ns_conn_burst_put(conn, burst);
    return true;
}

bool ns_out_goes_on(int fd, struct ns_conn *conn)
{
    const struct ns_send_mode *mode = &ns_send_modes[NS_GET(conn, send)];
    struct ns_ack_state ack = ns_conn_ack(conn);
    bool carried = ns_ack_is_carried(ack);
    if (NS_GET(conn, kind) != NS_CONN_MANAGED || NS_GET(conn, app_corks) ||
        !NS_GET(conn, in_flight) || (carried && !ns_ack_is_free(ack)))
        return false;
    if (carried) { /* if the write fails, the next late read is not noticed */
        ns_ack_wrote(&ack, false);
        ns_conn_ack_put(conn, ack);
    }
    if (NS_GET(conn, held))
        return burst_goes_on(fd, conn);
    return !ns_pending_any() && NS_GET(conn, kernel_nodelay) &&
           (!mode->option || (mode->option == TCP_NODELAY && NS_GET(conn, app_nodelay)));
}

/* Before a write of a connection that the application does not cork. */
static inline void before_write(int fd, struct ns_conn *conn, const struct ns_send_mode *mode)
{
    if (NS_GET(conn, held)) {
        count_held(fd, conn, mode);
        return;
    }
    /* Nagle's algorithm does not delay the first write, since nothing is in flight. */
    if (mode->nodelay && !NS_GET(conn, kernel_nodelay) && NS_GET(conn, in_flight))
        ns_enforce_nodelay(fd, conn);
    /* A program's own TCP_NODELAY stays on. */
    bool own = mode->option == TCP_NODELAY && NS_GET(conn, app_nodelay);
    if (mode->option && !own && !NS_GET(conn, no_batch))
        count_write(fd, conn, mode);
}

struct ns_write ns_out_begin(int fd, struct ns_conn *conn, size_t size, int flags)
{
    struct ns_write one = {0};
    if (ns_pending_any() && !(conn && ns_pending_only(fd)))
        flush_others(fd, conn, size, flags);
    if (!conn)
        return one;
    if (__builtin_expect(!ns_thread.id, 0))
        ns_thread_begin();
    const struct ns_send_mode *mode = &ns_send_modes[NS_GET(conn, send)];
    uint8_t corks = NS_GET(conn, app_corks);
    bool begins = !(corks & ~NS_CORKS_OPTION) && size && !(flags & APART);
    bool left =
        begins && mode->nodelay && mode->option == TCP_NODELAY && leaves_to_nagle(fd, conn, mode);
    if (!left && !corks) {
        if (__builtin_expect(flags & (APART | MSG_MORE), 0)) {
            ns_push(fd, conn);
            if (NS_GET(conn, in_flight))
                ns_enforce_nodelay(fd, conn);
        } else if (size) {
            before_write(fd, conn, mode);
        }
    }
    one.ack = ns_conn_ack(conn);
    bool carries = ns_ack_is_carried(one.ack);
    if (carries && !(flags & MSG_MORE) && !(corks & NS_CORKS_OPTION))
        ns_push_carries_ack(conn);
    if (carries || corks || flags & MSG_MORE || !NS_GET(conn, in_flight))
        one.conn = conn;
    return one;
}

/* Nothing was sent. */
static void failed(struct ns_write one, int fd)
{
    if (!ns_ack_is_unanswered(one.ack) || ns_ack_is_unanswered(ns_conn_ack(one.conn)))
        return;
    ns_conn_ack_put(one.conn, one.ack);
    if (ns_ack_is_pending(one.ack))
        ns_pending_add(fd);
}

void ns_out_end(struct ns_write one, int fd, int flags, ssize_t result)
{
    struct ns_conn *conn = one.conn;
    if (!ns_fd_names(fd, conn))
        return;
    if (__builtin_expect(result <= 0, 0)) {
        failed(one, fd);
        return;
    }
    if (__builtin_expect(flags & MSG_MORE, 0)) {
        NS_PUT(conn, app_corks, NS_GET(conn, app_corks) | NS_CORKS_FLAG);
        return;
    }
    if (__builtin_expect(NS_GET(conn, app_corks), 0)) {
        uint8_t corks = NS_GET(conn, app_corks) & NS_CORKS_OPTION;
        NS_PUT(conn, app_corks, corks ? corks | NS_CORKS_BYTES : 0);
        if (corks) /* the application's own cork still holds them */
            return;
    }
    NS_PUT(conn, in_flight, NS_FLIGHT_SEEN);
}
