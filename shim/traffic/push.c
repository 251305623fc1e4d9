/* SPDX-License-Identifier: MIT */
/* See push.h. Owns ns_conn.held, which out.c sets. */
#include "traffic/push.h"

#include "base/real.h"
#include "report/log.h"
#include "report/status.h"
#include "conn/delack.h"
#include "conn/kernel.h"
#include "conn/process.h"
#include "traffic/learned.h"

#include <errno.h>
#include <netinet/tcp.h>

enum { MS_PER_S = 1000, US_PER_S = 1000000, NS_PER_S = 1000000000 };

_Atomic bool ns_push_any;

/* In 1 / second. Not ns_clock_now: a program may have its own function called clock_gettime. */
static inline uint32_t now_by(clockid_t clock, uint32_t second)
{
    struct timespec now;
    NS_REAL(clock_gettime)(clock, &now);
    return (uint32_t)now.tv_sec * second + (uint32_t)now.tv_nsec / (NS_PER_S / second);
}

uint16_t ns_push_clock(void)
{
    return (uint16_t)now_by(CLOCK_MONOTONIC_COARSE, MS_PER_S);
}

static _Atomic bool always_coarse;

void ns_push_without_tsc(void)
{
    atomic_store(&always_coarse, true);
}

uint32_t ns_push_time(bool coarse)
{
    coarse |= atomic_load_explicit(&always_coarse, memory_order_relaxed);
    return now_by(coarse ? CLOCK_MONOTONIC_COARSE : CLOCK_MONOTONIC, US_PER_S);
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
    if (wanted == NS_GET(conn, kernel_nodelay) || NS_GET(conn, held) || ns_process_is_disabled())
        return;
    if (set(fd, conn, TCP_NODELAY, wanted) == 0)
        NS_PUT(conn, kernel_nodelay, (uint8_t)wanted);
    else /* a filter or an LSM: not tried again, as a push would fail, too */
        NS_PUT(conn, send, NS_SEND_APP);
    uint8_t flags = NS_GET(conn, flags);
    if (wanted && NS_GET(conn, kernel_nodelay) && !(flags & NS_COUNTED)) {
        NS_PUT(conn, flags, flags | NS_COUNTED);
        NS_COUNT(nodelay);
    }
    NS_DEBUG_FROM(fd, "TCP_NODELAY in the kernel is", NS_GET(conn, kernel_nodelay));
}

void ns_push_failed(int fd, struct ns_conn *conn, int error)
{
    if (error == -EBADF || error == -ENOTSOCK || error == -ENOPROTOOPT || error == -EOPNOTSUPP)
        ns_fd_refresh(fd, conn);
    else /* a filter or an LSM: bytes that cannot be pushed must not be held */
        ns_conn_no_batch(conn, NS_NO_PUSH);
}

/* The burst ends here. */
static void end_burst(struct ns_conn *conn, const struct ns_send_mode *mode)
{
    struct ns_burst burst = ns_conn_burst(conn);
    uint16_t now = ns_push_clock();
    unsigned pause = ns_push_pause(conn, mode);
    if (ns_burst_paused(&burst, now, pause))
        NS_COUNT(late);
    ns_burst_pushed(&burst, mode->from, now, pause);
    ns_conn_burst_put(conn, burst);
    if (ns_send_corks(NS_GET(conn, send)) && burst.doubt == NS_BURST_DOUBT_MOST &&
        !(NS_GET(conn, no_batch) & NS_WAS_LATE)) {
        ns_conn_no_batch(conn, NS_WAS_LATE);
        NS_COUNT(unheld);
    }
}

/* Setting TCP_NODELAY sends what Nagle's algorithm holds, and clearing TCP_CORK sends what it holds
 * if TCP_NODELAY is set (tcp(7); __tcp_sock_set_nodelay and __tcp_sock_set_cork, net/ipv4/tcp.c). A
 * cork that stayed for the next burst would save a call, and hold what anybody else writes. */
void ns_push_held(int fd, struct ns_conn *conn)
{
    const struct ns_send_mode *mode = &ns_send_modes[NS_GET(conn, send)];
    /* If a signal handler jumps away from here, the next write sets TCP_NODELAY again. */
    if (mode->option == TCP_NODELAY)
        NS_PUT(conn, kernel_nodelay, 0);
    /* Cleared first: a thread that begins to hold meanwhile notices (hold, out.c). */
    if (!atomic_exchange(&conn->held, 0) || !mode->option)
        return;
    NS_COUNT(pushes);
    end_burst(conn, mode);
    if (mode->option == TCP_CORK) /* the program may have cleared TCP_NODELAY since */
        ns_enforce_nodelay(fd, conn);
    int error = set(fd, conn, mode->option, mode->push);
    if (error) {
        ns_push_failed(fd, conn, error);
    } else if (mode->option == TCP_NODELAY) {
        NS_PUT(conn, kernel_nodelay, 1);
        ns_enforce_nodelay(fd, conn); /* off again where the mode leaves it to the application */
    }
}

/* TCP_QUICKACK sends a pending ACK. An even value leaves the connection in interactive mode, in
 * which the next answer carries its ACK. An odd one ends it, but the kernel does not always
 * acknowledge at once then: not a segment that is larger than those before it
 * (__tcp_sock_set_quickack, net/ipv4/tcp.c; tcp_measure_rcv_mss, net/ipv4/tcp_input.c). */
void ns_acknowledge(int fd, struct ns_conn *conn)
{
    struct ns_ack_state before = ns_conn_ack(conn), state = before;
    if (!ns_ack_is_pending(state))
        return;
    ns_ack_send(&state, (unsigned)NS_GET(&ns_stats, acks));
    ns_learned_put(conn, before, &state);
    int error = set(fd, conn, TCP_QUICKACK, 2);
    if (error == -EBADF || error == -ENOTSOCK)
        ns_fd_refresh(fd, conn);
    else if (error)
        NS_PUT(conn, ack, NS_ACK_APP); /* a protocol without the option: do not try again */
    NS_COUNT(acks);
}

void ns_push_carries_ack(struct ns_conn *conn)
{
    struct ns_ack_state before = ns_conn_ack(conn), state = before;
    bool timed = ns_ack_is_pending(state) && ns_delack_is_ours(conn);
    unsigned age = timed ? ns_ack_age(state, ns_push_time(false)) : 0;
    ns_ack_wrote(&state, age >= NS_ACK_LIMITED && age < NS_ACK_DELAY);
    ns_learned_put(conn, before, &state);
}
