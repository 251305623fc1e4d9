/* SPDX-License-Identifier: MIT */
/* What a write, a read and a wait do to a governed socket. Owns the changes of state in a slot that
 * come from traffic (rule.c owns those that come from a socket's life). Must never keep an
 * application's byte, block, or change errno. */
#include "engine.h"

#include "flusher.h"
#include "sock.h"
#include "stats.h"

#include <netinet/tcp.h>

/* A change to what is owed on fd: debts before it, so that a socket that already owes and was last
 * listed by this thread is not listed again. */
static void owe(int fd, struct ns_sock *slot, bool owed_before)
{
    if (!owed_before || NS_GET(slot, lister) != ns_thread.token)
        ns_owe(fd, slot);
}

static bool owes(const struct ns_sock *slot)
{
    return NS_GET(slot, ack_owed) || NS_GET(slot, held_until) || ns_engine_may_be_held(slot);
}

bool ns_engine_holds(struct ns_sock *slot, int flags)
{
    if (NS_GET(slot, send) != NS_SEND_AUTO_CORK)
        return false;
    if (flags & NS_NEVER_HELD || NS_GET(slot, no_hold) || NS_GET(slot, app_corks) ||
        !ns_flusher_ready())
        return false;
    if (NS_GET(slot, foretold)) {
        /* One more, and no answer has come: that burst was longer than foretold. Learn anew. */
        NS_PUT(slot, foretold, 0);
        NS_PUT(slot, burst_expected, 0);
        NS_PUT(slot, burst_before, 0);
    }
    uint16_t burst = (uint16_t)(NS_GET(slot, burst) + 1);
    NS_PUT(slot, burst, burst);
    /* If this is the last write of a burst like the two before it, it takes the others with it and
     * saves the push. If it is not, what follows is a second segment, no more. */
    bool last = burst == NS_GET(slot, burst_expected);
    NS_PUT(slot, foretold, last);
    return !last;
}

/* A burst has ended; late: by the deadline, not by a wait. */
static void burst_ended(struct ns_sock *slot, bool late)
{
    uint16_t burst = NS_GET(slot, burst);
    NS_PUT(slot, burst_expected, !late && burst == NS_GET(slot, burst_before) ? burst : 0);
    NS_PUT(slot, burst_before, late ? 0 : burst);
    NS_PUT(slot, burst_thread, 0);
    NS_PUT(slot, burst, 0);
}

struct ns_plain ns_engine_before_plain(int fd, struct ns_sock *slot, int flags)
{
    struct ns_plain before = {0, false};
    if (__builtin_expect(flags & MSG_MORE, 0))
        ns_engine_push(fd, slot);
    else if (!(NS_GET(slot, app_corks) & NS_CORKS_OPTION))
        before.owed = ns_engine_carry(slot);
    if (NS_GET(slot, held_until))
        before.mark = atomic_exchange(&slot->held_until, 0);
    return before;
}

/* The deadline is stored after the call that held the bytes: see held_until. */
static void mark_held(int fd, struct ns_sock *slot)
{
    const struct ns_rule *rule = NS_GET(slot, rule);
    if (!rule || NS_GET(slot, held_until))
        return;
    NS_COUNT(bursts);
    atomic_store(&slot->held_until, ns_flusher_now() + (uint64_t)rule->max_delay_us * 1000);
    if (!ns_flusher_watch(fd))
        ns_engine_push(fd, slot);
}

void ns_engine_held(int fd, struct ns_sock *slot, ssize_t result)
{
    if (result <= 0)
        return;
    ns_engine_carry(slot); /* the push will */
    bool owed = owes(slot);
    mark_held(fd, slot);
    owe(fd, slot, owed);
    NS_PUT(slot, burst_thread, ns_thread.token);
}

/* The write took nothing: what was held before it still is. */
static void put_back(int fd, struct ns_sock *slot, uint64_t mark)
{
    uint64_t none = 0;
    if (mark && atomic_compare_exchange_strong(&slot->held_until, &none, mark) &&
        !ns_flusher_watch(fd))
        ns_engine_push(fd, slot);
}

void ns_engine_wrote(int fd, struct ns_sock *slot, ssize_t result, int flags,
                     struct ns_plain before)
{
    if (result <= 0) {
        put_back(fd, slot, before.mark);
        ns_engine_carried(slot, result, before.owed);
        return;
    }
    NS_PUT(slot, burst, 0);
    NS_PUT(slot, burst_thread, 0);
    if (__builtin_expect(flags & MSG_MORE, 0)) {
        NS_PUT(slot, app_corks, NS_GET(slot, app_corks) | NS_CORKS_FLAG);
        return;
    }
    if (__builtin_expect(NS_GET(slot, app_corks), 0)) {
        NS_PUT(slot, app_corks, NS_GET(slot, app_corks) & NS_CORKS_OPTION);
        if (NS_GET(slot, app_corks)) /* its bytes are still in its own cork */
            return;
    }
    bool owed = owes(slot);
    if (NS_GET(slot, send) == NS_SEND_FLUSH_BEFORE_READ) {
        if (NS_GET(slot, writes) < UINT16_MAX)
            NS_PUT(slot, writes, (uint16_t)(NS_GET(slot, writes) + 1));
        owe(fd, slot, owed);
    }
}

/* errno values that a held write gets from something that is not a connected TCP socket; see
 * hold_address in interpose_write.c. */
bool ns_engine_is_stale(int error)
{
    return error == EINVAL || error == EISCONN || error == EOPNOTSUPP || error == EAFNOSUPPORT ||
           error == EDESTADDRREQ || error == ENOTSOCK || error == EBADF || error == EPROTOTYPE ||
           error == ENOPROTOOPT;
}

void ns_engine_heal(int fd, struct ns_sock *slot)
{
    int saved = errno;
    if (ns_sock_ask(fd).tcp)
        NS_PUT(slot, no_hold, 1); /* a kernel that will not have our address: then plain writes */
    else
        ns_fd_reset(slot);
    errno = saved;
}

void ns_engine_read(int fd, struct ns_sock *slot, ssize_t result, int error)
{
    if (result > 0) {
        NS_PUT(slot, heard, 1);
        NS_PUT(slot, foretold,
               0); /* the burst was over: this is its answer, or what it was one to */
        if (NS_GET(slot, ack) != NS_ACK_BEFORE_WAIT)
            return;
        bool owed = owes(slot);
        if (NS_GET(slot, acked)) { /* it was of use: more came, and no answer of ours between */
            NS_PUT(slot, acked, 0);
            NS_PUT(slot, needless, 0);
        }
        NS_PUT(slot, ack_owed, 1);
        NS_PUT(slot, spun, 0);
        owe(fd, slot, owed);
    } else if (result == 0) {
        NS_PUT(slot, ack_owed, 0); /* the peer has ended its stream: nothing of it is held back */
    } else if (error == EAGAIN && NS_GET(slot, ack_owed)) {
        /* Once is how an event loop finds the end of what is there. Twice is a busy poll, and the
         * wait that would settle this never comes. */
        if (NS_GET(slot, spun))
            ns_settle(NS_OWES_ALL);
        else
            NS_PUT(slot, spun, 1);
    } else if (error == ENOTSOCK || error == EBADF) {
        ns_engine_heal(fd, slot);
    }
}

bool ns_engine_may_be_held(const struct ns_sock *slot)
{
    if (NS_GET(slot, send) != NS_SEND_FLUSH_BEFORE_READ || NS_GET(slot, app_corks) ||
        NS_GET(slot, app_nodelay))
        return false;
    uint32_t writes = NS_GET(slot, writes);
    /* A single write leaves at once if what came before it is acknowledged, and data from the peer
     * has most likely carried that ACK. On a connection that only ever sends (the two-connection
     * quote client) nothing says so: push. */
    return writes > 1 || (writes == 1 && !NS_GET(slot, heard));
}

static void nodelay_failed(int fd, struct ns_sock *slot, int error)
{
    if (error == -EBADF || error == -ENOTSOCK || error == -ENOPROTOOPT || error == -EOPNOTSUPP)
        ns_engine_heal(fd, slot);
}

/* TCP_NODELAY pushes at once, even while corked and even if it is on already (tcp(7) and
 * __tcp_sock_set_nodelay in the kernel's net/ipv4/tcp.c). */
static bool push(int fd, struct ns_sock *slot, bool late)
{
    if (ns_engine_may_be_held(slot)) {
        NS_PUT(slot, writes, 0);
        NS_PUT(slot, heard, 0);
        int error = ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        if (error == 0)
            ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 0);
        else
            nodelay_failed(fd, slot, error);
        return true;
    }
    if (!NS_GET(slot, held_until) || !atomic_exchange(&slot->held_until, 0))
        return false;
    burst_ended(slot, late);
    int error = ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (error)
        nodelay_failed(fd, slot, error);
    return true;
}

void ns_engine_push(int fd, struct ns_sock *slot)
{
    if (push(fd, slot, false))
        NS_COUNT(pushes);
}

void ns_engine_push_late(int fd, struct ns_sock *slot)
{
    if (push(fd, slot, true))
        NS_COUNT(late);
}

void ns_engine_acknowledge(int fd, struct ns_sock *slot)
{
    if (!NS_GET(slot, ack_owed))
        return;
    NS_PUT(slot, ack_owed, 0);
    NS_PUT(slot, acked, 1);
    /* An even value sends the ACK that is due and leaves the connection in interactive mode, so
     * that the next answer carries its ACK again (__tcp_sock_set_quickack, net/ipv4/tcp.c). */
    int error = ns_sock_set(fd, IPPROTO_TCP, TCP_QUICKACK, 2);
    if (error == -EBADF || error == -ENOTSOCK)
        ns_engine_heal(fd, slot);
    else if (error)
        NS_PUT(slot, ack, NS_ACK_APP); /* a protocol without it: do not ask again */
    NS_COUNT(acks);
}
