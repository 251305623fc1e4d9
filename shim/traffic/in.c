/* SPDX-License-Identifier: MIT */
/* See in.h. Owns ns_conn.ack_state, which writes (out.c) and ACKs (pending.c) change, too. */
#include "traffic/in.h"

#include "conn/kernel.h"
#include "conn/process.h"
#include "traffic/learned.h"
#include "traffic/pending.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

/* Stores the state, and limits the kernel's delay of ACKs or leaves it to the kernel. */
static void put_state(int fd, struct ns_conn *conn, struct ns_ack_state before,
                      struct ns_ack_state state)
{
    ns_learned_put(conn, before, &state);
    if (ns_ack_is_free(state))
        ns_delack_unbound(fd, conn);
    else if (!NS_GET(conn, delack) && (state.skips || !state.term))
        ns_delack_bound(fd, conn); /* also for waits that the library cannot see (a futex) */
}

/* See ns_ack_is_late. The first round trips are kept: where each ACK of the peer is delayed, the
 * kernel's shortest one grows when it forgets the handshake (tcp_update_rtt_min). */
static bool is_late(int fd, struct ns_conn *conn, unsigned us, unsigned trips, bool clump)
{
    if (us < NS_ACK_LIMITED - NS_ACK_THERE)
        return false;
    if (!NS_GET(conn, rtt)) {
        unsigned ms = ns_kernel_rtt(fd) / 1000;
        NS_PUT(conn, rtt, (uint16_t)(ms < 510 ? ms + 1 : 511));
    }
    return ns_ack_is_late((NS_GET(conn, rtt) - 1u) * 1000, us, trips, ns_delack_is_ours(conn),
                          clump);
}

/* May something write there without the library's knowledge: libc, a ring or another process? */
static bool is_written_unseen(const struct ns_conn *conn)
{
    return NS_GET(conn, no_batch) & (NS_UNSEEN | NS_RING) || ns_conn_is_shared(conn);
}

void ns_in_begin_whole(int fd, struct ns_conn *conn)
{
    struct ns_ack_state state = ns_conn_ack(conn);
    ns_thread.whole_at = 0;
    if ((!state.interactive && !is_written_unseen(conn)) || NS_GET(conn, ack) != NS_ACK_BEFORE_WAIT)
        return;
    ns_learned_begin(fd, conn, &state);
    struct ns_ack_state before = state;
    if (ns_ack_begin_whole(&state, ns_thread.waits))
        ns_kernel_set(fd, IPPROTO_TCP, TCP_QUICKACK, 1); /* until the program writes again */
    put_state(fd, conn, before, state);
    if (!state.skips || state.interactive ||
        ns_kernel_delays_acks(fd))                          /* otherwise nothing can be late */
        ns_thread.whole_at = (ns_push_time(false) - 1) | 1; /* not 0, and not after now */
}

void ns_in_end_whole(int fd, struct ns_conn *conn)
{
    if (!ns_thread.whole_at)
        return;
    struct ns_ack_state state = ns_conn_ack(conn), before = state;
    unsigned us = ns_push_time(false) - ns_thread.whole_at;
    ns_thread.whole_at = 0;
    bool late = is_late(fd, conn, us, 2, false);
    if (state.skips) /* however long the peer took */
        late = us >= NS_ACK_LIMITED - NS_ACK_THERE && !ns_kernel_delays_acks(fd);
    ns_ack_judge(&state, late);
    ns_learned_put(conn, before, &state);
}

bool ns_in_begin(int fd, struct ns_conn *conn, int flags, bool may_try)
{
    if (NS_GET(conn, nonblock) || flags & (MSG_DONTWAIT | MSG_ERRQUEUE))
        return false; /* does not wait; a poll that follows does */
    ns_thread.waits++;
    /* A probe would make the reads short that follow. */
    if (__builtin_expect(flags & MSG_WAITALL || NS_GET(conn, flags) & NS_LOWAT, 0)) {
        ns_in_waits(fd, conn);
        if (flags & MSG_WAITALL)
            ns_in_begin_whole(fd, conn);
        return false;
    }
    bool held = NS_GET(conn, held);
    if (held) {
        if (may_try && (ns_burst_is_ahead(ns_conn_burst(conn)) || ns_push_is_left(conn)))
            return true;
        ns_push_own(fd, conn); /* the answer to held bytes cannot have arrived */
    }
    if (!ns_pending_any())
        return false;
    bool pending = held && ns_pending_only(fd) /* it stays in the set, for the next burst */
                       ? ns_pending_is(conn)
                       : ns_pending_beside(NULL);
    if (pending && !may_try)
        ns_flush_unless_ready(fd, NULL, POLLIN);
    return pending && may_try;
}

void ns_in_waits(int fd, struct ns_conn *conn)
{
    ns_push_own(fd, conn);
    ns_flush_pending();
}

/* Two reads of this thread have found data without a wait in between. If another read in between
 * found no data, the thread has waited unseen. Otherwise it may have read the same data in two
 * parts; from then on the time between such reads decides. */
static void note_second_read(int fd, struct ns_conn *conn, struct ns_ack_state state)
{
    uint8_t flags = NS_GET(conn, flags), again = flags & NS_READS_AGAIN;
    bool seen = state.data == NS_ACK_UNANSWERED_ALL;
    bool late =
        !seen && again && is_late(fd, conn, ns_ack_age(state, ns_push_time(false)), 1, false);
    NS_PUT(conn, flags, flags | (seen || late ? NS_WAITS_UNSEEN : NS_READS_AGAIN));
}

/* Writes that the library cannot see may have begun the interactive mode. After data that came when
 * the kernel's delayed ACK would have released it, the kernel is asked at this and the next reads,
 * but not at those that follow another one at once. If another process may write, it is also asked
 * once after any pause, since a forked child that reads once learns nothing from the time. */
static void suspect(int fd, struct ns_conn *conn, struct ns_ack_state *state, uint32_t us)
{
    unsigned age = ns_ack_age(*state, us), asks = NS_GET(conn, asks);
    if (state->interactive || !age)
        return;
    if (state->here && is_late(fd, conn, age, 1, false))
        asks = 64;
    else if (!asks && ns_conn_is_shared(conn))
        asks = !state->here || age >= NS_ACK_LIMITED;
    if (!asks)
        return;
    NS_PUT(conn, asks, (uint8_t)(asks - 1));
    state->interactive = ns_kernel_delays_acks(fd);
}

/* Has the data waited for an ACK? Nagle's algorithm holds no full segment: that waited for the line
 * or the congestion window. */
static bool has_waited(int fd, struct ns_conn *conn, struct ns_ack_state state, unsigned us,
                       size_t size)
{
    return is_late(fd, conn, us, 1, true) && size < ns_kernel_segment(fd) &&
           (is_late(fd, conn, us, 1, false) ||
            ns_ack_amount(size + ns_kernel_unread(fd)) > 2u * state.here);
}

/* The program may answer what it has read: what the kernel holds is pushed. Not another thread's
 * burst, nor what is written while data is there already. What is left to Nagle's algorithm is left
 * further while something is unacknowledged: then this is no answer to the last write. */
static void push_at_read(int fd, struct ns_conn *conn)
{
    bool anothers = ns_burst_is_anothers(conn), left = ns_push_is_left(conn);
    if (!anothers)
        NS_PUT(conn, writer, 0); /* the next write begins a new burst */
    if (left && ns_kernel_unacked(fd))
        NS_PUT(conn, full, NS_GET(conn, full) + NS_FULL_SOON);
    else if (left || (!anothers && !ns_burst_is_ahead(ns_conn_burst(conn))))
        ns_push(fd, conn);
}

/* The application has read size bytes of data. */
static void took(int fd, struct ns_conn *conn, int flags, size_t size)
{
    if (NS_GET(conn, writer) || NS_GET(conn, held))
        push_at_read(fd, conn);
    if (NS_GET(conn, ack) != NS_ACK_BEFORE_WAIT)
        return;
    if (__builtin_expect(!ns_thread.id, 0)) /* from now on its waits are counted */
        ns_thread_begin();
    if (__builtin_expect(flags & MSG_WAITALL, 0))
        ns_in_end_whole(fd, conn);
    struct ns_ack_state state = ns_conn_ack(conn), before = state;
    if (__builtin_expect(ns_ack_is_unanswered(state) && !ns_ack_waits(state, ns_thread.waits), 0))
        note_second_read(fd, conn, state);
    uint8_t no_batch = NS_GET(conn, no_batch);
    if (__builtin_expect(no_batch & NS_RING, 0) && NS_GET(conn, in_flight))
        NS_PUT(conn, no_batch, no_batch & (uint8_t)~NS_RING);
    bool unseen = is_written_unseen(conn) || NS_GET(conn, in_flight) != NS_FLIGHT_SEEN;
    bool due =
        state.interactive || state.data == NS_ACK_SENT; /* otherwise only suspect needs the time */
    bool coarse = due ? ns_ack_is_free(state) : !ns_delack_is_ours(conn) && !NS_GET(conn, asks);
    uint32_t us = due || unseen ? ns_push_time(coarse) : 0;
    if (unseen)
        suspect(fd, conn, &state, us);
    if (!state.interactive && state.data == NS_ACK_ANSWERED) { /* as all reads of a stream */
        ns_ack_note(&state, ns_thread.waits, us, size);
        ns_conn_ack_put(conn, state);
        return;
    }
    bool late = ns_ack_shows(state, ns_thread.waits) &&
                has_waited(fd, conn, state, ns_ack_age(state, us), size);
    ns_ack_read(&state, ns_thread.waits, us, ns_delack_is_ours(conn), late, size);
    if (before.interactive && !state.interactive && /* its ACK may have come without a delay */
        (unseen || ns_kernel_delays_acks(fd))) {
        state.interactive = 1;
        state.data = NS_ACK_UNANSWERED;
    }
    if (!ns_ack_is_unanswered(state)) {
        ns_learned_put(conn, before, &state);
        return;
    }
    if (ns_learned_begin(fd, conn, &state))
        before = state;
    put_state(fd, conn, before, state);
    if (ns_ack_is_pending(state))
        ns_pending_add(fd);
    const uint8_t both = NS_READS_AGAIN | NS_WAITS_UNSEEN;
    if (__builtin_expect((NS_GET(conn, flags) & both) == both, 0)) { /* no later call sends it */
        ns_thread.waits++;
        ns_flush_pending();
    }
}

void ns_in_nothing(int fd, struct ns_conn *conn)
{
    /* A stream, too, looks for an answer now and then: what is held is pushed at the second look
     * without a write in between. */
    if (NS_GET(conn, held) && !ns_burst_is_anothers(conn) && !ns_push_is_left(conn)) {
        struct ns_burst burst = ns_conn_burst(conn);
        if (ns_burst_looked(&burst, (uint8_t)ns_thread.waits))
            ns_push(fd, conn);
        else
            ns_conn_burst_put(conn, burst);
    } else if (ns_thread.corked && ns_pending_any()) {
        ns_thread.waits++; /* perhaps a busy poll for the answer to a burst elsewhere */
        ns_flush_old();
    }
    /* An event loop reads once more to find the end of the data. Two such reads are a busy poll: no
     * later wait will send the ACK. If waits are unseen, none will either. */
    struct ns_ack_state state = ns_conn_ack(conn);
    if (!ns_ack_is_unanswered(state))
        return;
    if (state.data == NS_ACK_UNANSWERED_ALL || NS_GET(conn, flags) & NS_WAITS_UNSEEN) {
        ns_thread.waits++;
        ns_flush_pending();
        return;
    }
    state.data = NS_ACK_UNANSWERED_ALL;
    state.epoch = ns_thread.waits & 0x3fff;
    ns_conn_ack_put(conn, state);
}

void ns_in_end(int fd, struct ns_conn *conn, ssize_t result, int error, int flags)
{
    if (__builtin_expect(flags & MSG_ERRQUEUE, 0) || !ns_fd_names(fd, conn))
        return;
    if (result > 0) {
        if (!(flags & MSG_PEEK)) /* no option acknowledges unread data (tcp_cleanup_rbuf) */
            took(fd, conn, flags, (size_t)result);
    } else if (result == 0 && !(flags & MSG_PEEK)) {
        struct ns_ack_state state = ns_conn_ack(conn);
        if (!ns_ack_is_unanswered(state) || !ns_kernel_has_ended(fd)) /* 0 bytes were asked for */
            return;
        state.data = NS_ACK_ANSWERED; /* the peer waits for no ACK */
        ns_conn_ack_put(conn, state);
    } else if (error == EAGAIN) {
        ns_in_nothing(fd, conn);
    } else if (error == ENOTSOCK || error == EBADF) {
        ns_fd_refresh(fd, conn);
    }
}
