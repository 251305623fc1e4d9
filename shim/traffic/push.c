/* SPDX-License-Identifier: MIT */
/* See push.h. Owns ns_sock.joins. Must never push what the application itself corks. */
#include "traffic/push.h"

#include "life/life.h"
#include "traffic/settle.h"
#include "conn/kernel.h"
#include "base/stats.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <time.h>

_Atomic bool ns_push_joined;

uint16_t ns_push_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint16_t)((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
}

/* Pushing failed: find out why. */
static void nodelay_failed(int fd, struct ns_sock *slot, int error)
{
    if (error == -EBADF || error == -ENOTSOCK || error == -ENOPROTOOPT || error == -EOPNOTSUPP)
        ns_life_heal(fd, slot);
    else /* what cannot be pushed must not be held (a filter, an LSM) */
        NS_PUT(slot, steady, NS_STEADY_NEVER);
}

void ns_join_owed(int fd, struct ns_sock *slot)
{
    NS_PUT(slot, joins, 1);
    atomic_store_explicit(&ns_push_joined, true, memory_order_relaxed);
    ns_thread.may_push = true;
    ns_owe_once(fd, slot);
}

void ns_join(int fd, struct ns_sock *slot)
{
    /* First what is owed: a signal handler may jump away as soon as the kernel has it. */
    NS_PUT(slot, kernel_nodelay, 0);
    ns_join_owed(fd, slot);
    int error = ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 0);
    if (!error) {
        NS_COUNT(joined);
        return;
    }
    NS_PUT(slot, joins, 0);
    NS_PUT(slot, kernel_nodelay, 1);
    nodelay_failed(fd, slot, error);
}

/* TCP_NODELAY sends at once what is held, even while corked and even if it is on already (tcp(7)
 * and
 * __tcp_sock_set_nodelay, net/ipv4/tcp.c). */
static void push_joined(int fd, struct ns_sock *slot, bool ends)
{
    struct ns_burst burst = ns_fd_burst(slot);
    bool adaptive = NS_GET(slot, send) == NS_SEND_ADAPTIVE;
    NS_PUT(slot, joins, 0); /* first: a signal handler may join anew */
    NS_PUT(slot, heard, 0);
    if (NS_GET(slot, app_corks))
        return; /* the application's to send, with what it has corked since */
    int error = ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (error) {
        nodelay_failed(fd, slot, error);
        return;
    }
    if (adaptive) {
        NS_PUT(slot, kernel_nodelay, 1);
        if (ends)
            ns_burst_pushed(&burst, ns_push_clock());
    } else {
        ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, NS_GET(slot, kernel_nodelay));
        burst.writes = 0;
    }
    ns_fd_burst_put(slot, burst);
}

/* Mark what is held as overdue, and not as gone, until it is: a signal handler may jump out of the
 * push. Returns false if nothing is held. */
static bool begin_push(struct ns_sock *slot)
{
    uint64_t until = atomic_load(&slot->held_until);
    while (until > NS_HELD_OVERDUE) {
        if (!atomic_compare_exchange_weak(&slot->held_until, &until, NS_HELD_OVERDUE))
            continue;
        struct ns_cork cork = ns_fd_cork(slot);
        ns_cork_pushed(&cork, false);
        ns_fd_cork_put(slot, cork);
        return true;
    }
    return until == NS_HELD_OVERDUE;
}

static void push_held(int fd, struct ns_sock *slot)
{
    uint64_t overdue = NS_HELD_OVERDUE;
    if (!begin_push(slot))
        return;
    int error = ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    /* Bytes that somebody has held since keep their mark. */
    atomic_compare_exchange_strong(&slot->held_until, &overdue, 0);
    if (error)
        nodelay_failed(fd, slot, error);
    else
        NS_PUT(slot, kernel_nodelay, 1);
}

void ns_push(int fd, struct ns_sock *slot)
{
    if (NS_GET(slot, joins)) {
        push_joined(fd, slot, true);
        NS_COUNT(pushes);
    } else if (atomic_load_explicit(&slot->held_until, memory_order_relaxed)) {
        push_held(fd, slot);
        NS_COUNT(pushes);
    }
}

void ns_push_paused(int fd, struct ns_sock *slot)
{
    push_joined(fd, slot, false);
    NS_COUNT(late);
}

void ns_push_turned(int held)
{
    struct ns_sock *slot = ns_fd_slot(held);
    if (slot)
        ns_push(held, slot);
    int now = held + 1; /* and after the push: a signal handler may jump out of it */
    atomic_compare_exchange_strong(&ns_thread.holding, &now, 0);
    if (slot && atomic_load(&slot->held_until)) /* what one has held there in between */
        ns_push(held, slot);
}

/* TCP_QUICKACK sends the ACK that is due. With an even value the connection stays in interactive
 * mode, so that the next answer carries its ACK again; with an odd one the kernel acknowledges by
 * itself from now on (__tcp_sock_set_quickack, net/ipv4/tcp.c). */
void ns_acknowledge(int fd, struct ns_sock *slot)
{
    struct ns_ack_state state = ns_fd_ack(slot);
    if (!state.owed)
        return;
    bool ends = ns_ack_sent(&state);
    ns_fd_ack_put(slot, state);
    int error = ns_sock_set(fd, IPPROTO_TCP, TCP_QUICKACK, ends ? 1 : 2);
    if (error == -EBADF || error == -ENOTSOCK)
        ns_life_heal(fd, slot);
    else if (error)
        NS_PUT(slot, ack, NS_ACK_APP); /* a protocol without it: do not ask again */
    NS_COUNT(acks);
}
