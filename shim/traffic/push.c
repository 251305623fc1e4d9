/* SPDX-License-Identifier: MIT */
/* See push.h. Owns ns_conn.joins, which out.c sets. Must never push bytes that the application
 * itself corks. */
#include "traffic/push.h"

#include "base/clock.h"
#include "report/log.h"
#include "report/stats.h"
#include "conn/kernel.h"
#include "conn/process.h"

#include <errno.h>
#include <netinet/tcp.h>

enum { NS_PER_MS = 1000000 };

_Atomic bool ns_push_any;

bool ns_push_is_late(uint64_t until)
{
    return ns_clock_now(CLOCK_MONOTONIC_COARSE) > until;
}

uint16_t ns_push_clock(void)
{
    return (uint16_t)(ns_clock_now(CLOCK_MONOTONIC_COARSE) / NS_PER_MS);
}

unsigned ns_push_tick(void)
{
    return (unsigned)(ns_clock_now(CLOCK_MONOTONIC) / (NS_ACK_TICK_MS * NS_PER_MS));
}

bool ns_push_holds_no_more(void)
{
    return NS_GET(&ns_stats, unheld) >= NS_UNHELD_MOST;
}

/* Set an option that makes the socket send. If fd was closed by a way that the library cannot see,
 * another descriptor of the connection is tried. 0 or -errno. */
static int set(int fd, struct ns_conn *conn, int option, int value)
{
    int error = ns_kernel_set(fd, IPPROTO_TCP, option, value);
    if (error != -EBADF && error != -ENOTSOCK)
        return error;
    int other = ns_fd_other(conn, fd);
    return other < 0 ? error : ns_kernel_set(other, IPPROTO_TCP, option, value);
}

void ns_enforce_nodelay(int fd, struct ns_conn *conn)
{
    int wanted = ns_conn_wants_nodelay(conn);
    /* Unless they are being pushed: a thread that joins may have cleared the option again. */
    bool joins = NS_GET(conn, joins) == 1;
    if (wanted == NS_GET(conn, kernel_nodelay) || joins || ns_process_is_disabled())
        return;
    if (ns_kernel_set(fd, IPPROTO_TCP, TCP_NODELAY, wanted) == 0)
        NS_PUT(conn, kernel_nodelay, (uint8_t)wanted);
    else
        NS_PUT(conn, immediate, NS_IMMEDIATE_NO_PUSH); /* a push would fail, too */
    uint8_t origin = NS_GET(conn, origin);
    if (wanted && NS_GET(conn, kernel_nodelay) && !(origin & NS_COUNTED)) {
        NS_PUT(conn, origin, origin | NS_COUNTED);
        NS_COUNT(nodelay);
    }
    NS_DEBUG_FROM(fd, "TCP_NODELAY in the kernel is", NS_GET(conn, kernel_nodelay));
}

void ns_nodelay_failed(int fd, struct ns_conn *conn, int error)
{
    if (error == -EBADF || error == -ENOTSOCK || error == -ENOPROTOOPT || error == -EOPNOTSUPP)
        ns_fd_refresh(fd, conn);
    else /* a filter or an LSM: bytes that cannot be pushed must not be held */
        NS_PUT(conn, immediate, NS_IMMEDIATE_NO_PUSH);
}

/* Setting TCP_NODELAY sends held bytes at once, even while corked and even if it is set already
 * (tcp(7); __tcp_sock_set_nodelay, net/ipv4/tcp.c). ends: the burst ends here. */
static void push_joined(int fd, struct ns_conn *conn, bool ends)
{
    struct ns_burst burst = ns_conn_burst(conn);
    bool adaptive = NS_GET(conn, send) == NS_SEND_ADAPTIVE;
    uint8_t pushing = NS_JOINS_PUSHING;
    atomic_store(&conn->joins, pushing); /* a signal handler may jump out of the push */
    NS_PUT(conn, heard, 0);
    /* Otherwise the application sends it, with what it has corked since. */
    bool pushes = !NS_GET(conn, app_corks);
    int error = pushes ? set(fd, conn, TCP_NODELAY, 1) : 0;
    /* Bytes that were joined since keep their mark. */
    atomic_compare_exchange_strong(&conn->joins, &pushing, 0);
    if (!pushes)
        return;
    if (error) {
        ns_nodelay_failed(fd, conn, error);
        return;
    }
    if (adaptive) {
        NS_PUT(conn, kernel_nodelay, 1);
        if (ends)
            ns_burst_pushed(&burst, ns_push_clock());
    } else {
        set(fd, conn, TCP_NODELAY, NS_GET(conn, kernel_nodelay));
        burst.writes = 0;
    }
    ns_conn_burst_put(conn, burst);
}

/* A held burst is about to be pushed. until: when it became late. */
static void note_lateness(struct ns_conn *conn, uint64_t until)
{
    struct ns_cork cork = ns_conn_cork(conn);
    uint64_t now = ns_clock_now(CLOCK_MONOTONIC_COARSE);
    bool late = now > until;
    if (late)
        NS_COUNT(late);
    bool stops = ns_cork_pushed(&cork, late ? (now - until) / NS_PER_MS + 1 : 0);
    ns_conn_cork_put(conn, cork);
    if (stops && !(NS_GET(conn, immediate) & NS_IMMEDIATE_LATE)) {
        NS_PUT(conn, immediate, NS_GET(conn, immediate) | NS_IMMEDIATE_LATE);
        NS_COUNT(unheld);
    }
}

/* Mark held bytes as being pushed, not as gone: a signal handler may jump out of the push. Returns
 * false if nothing is held. */
static bool begin_push(struct ns_conn *conn)
{
    uint64_t until = atomic_load(&conn->held_until);
    while (until > NS_HELD_PUSHING) {
        if (!atomic_compare_exchange_weak(&conn->held_until, &until, NS_HELD_PUSHING))
            continue;
        note_lateness(conn, until);
        return true;
    }
    return until == NS_HELD_PUSHING;
}

static void push_held(int fd, struct ns_conn *conn)
{
    uint64_t pushing = NS_HELD_PUSHING;
    if (!begin_push(conn))
        return;
    int error = set(fd, conn, TCP_NODELAY, 1);
    /* Bytes that were held since keep their mark. */
    atomic_compare_exchange_strong(&conn->held_until, &pushing, 0);
    if (error)
        ns_nodelay_failed(fd, conn, error);
    else
        NS_PUT(conn, kernel_nodelay, 1);
}

void ns_push(int fd, struct ns_conn *conn)
{
    if (NS_GET(conn, joins)) {
        push_joined(fd, conn, true);
        NS_COUNT(pushes);
    } else if (atomic_load_explicit(&conn->held_until, memory_order_relaxed)) {
        push_held(fd, conn);
        NS_COUNT(pushes);
    }
}

void ns_push_paused(int fd, struct ns_conn *conn)
{
    push_joined(fd, conn, false);
    NS_COUNT(late);
}

void ns_push_turned(int held)
{
    struct ns_conn *conn = ns_fd_conn(held);
    if (conn)
        ns_push(held, conn);
    int now = held + 1; /* after the push: a signal handler may jump out of it */
    atomic_compare_exchange_strong(&ns_thread.holding, &now, 0);
    if (conn && atomic_load(&conn->held_until)) /* a handler has held bytes there meanwhile */
        ns_push(held, conn);
}

/* TCP_QUICKACK sends a pending ACK. An even value leaves the connection in interactive mode, in
 * which the next answer carries its ACK; after an odd one the kernel acknowledges by itself
 * (__tcp_sock_set_quickack, net/ipv4/tcp.c). */
void ns_acknowledge(int fd, struct ns_conn *conn)
{
    struct ns_ack_state state = ns_conn_ack(conn);
    if (!state.pending)
        return;
    if (NS_GET(conn, delack) == NS_DELACK_OURS && ns_ack_may_skip(state)) {
        ns_ack_skip(&state, ns_push_tick());
        ns_conn_ack_put(conn, state);
        return;
    }
    bool ends = ns_ack_send(&state);
    ns_conn_ack_put(conn, state);
    int error = set(fd, conn, TCP_QUICKACK, ends ? 1 : 2);
    if (error == -EBADF || error == -ENOTSOCK)
        ns_fd_refresh(fd, conn);
    else if (error)
        NS_PUT(conn, ack, NS_ACK_APP); /* a protocol without the option: do not try again */
    NS_COUNT(acks);
}

void ns_push_carries_ack(struct ns_conn *conn)
{
    struct ns_ack_state state = ns_conn_ack(conn);
    bool late = state.pending && NS_GET(conn, delack) == NS_DELACK_OURS &&
                ns_ack_was_missed(state, ns_push_tick());
    ns_ack_wrote(&state, late);
    ns_conn_ack_put(conn, state);
}

void ns_acknowledge_from_now_on(int fd, struct ns_conn *conn, bool unseen)
{
    struct ns_ack_state state = ns_conn_ack(conn);
    if ((!state.interactive && !unseen) || NS_GET(conn, ack) != NS_ACK_BEFORE_WAIT)
        return;
    state = (struct ns_ack_state){
        .needless = state.needless, .pieces = state.pieces, .answers = state.answers};
    ns_conn_ack_put(conn, state);
    set(fd, conn, TCP_QUICKACK, 1);
}
