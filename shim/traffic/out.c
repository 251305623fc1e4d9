/* SPDX-License-Identifier: MIT */
/* See out.h. Owns the burst of a connection, and under auto-cork the mark of what is held. */
#include "traffic/out.h"

#include "hold/deadline.h"
#include "base/real.h"
#include "conn/kernel.h"
#include "base/stats.h"

#include <netinet/tcp.h>

/* A write on a socket that blocks is a wait for what this thread owes elsewhere, if there is no
 * room for it. With more than BIG bytes nobody can tell, and there the call costs more than
 * settling. */
static void before_other_debts(int fd, const struct ns_sock *slot, size_t size, int flags)
{
    enum { BIG = 64 * 1024 };
    if (!ns_owes() || ns_owes_only(fd))
        return;
    if ((slot && NS_GET(slot, nonblock)) || flags & MSG_DONTWAIT || !ns_owes_elsewhere(fd))
        return;
    if (size >= BIG)
        ns_settle(NS_OWES_ALL);
    else
        ns_settle_unless_ready(fd, POLLOUT);
}

/* --- adaptive --- */

static void count_adaptive(int fd, struct ns_sock *slot)
{
    struct ns_burst burst = ns_fd_burst(slot);
    bool joins = NS_GET(slot, joins);
    if (!joins && NS_GET(slot, burst_epoch) != ns_thread.epoch)
        ns_burst_begin(&burst);
    uint16_t now = ns_burst_is_timed(&burst, joins) ? ns_push_clock() : 0;
    enum ns_burst_step step = ns_burst_write(&burst, joins, now);
    burst.look = ns_thread.looks;
    ns_fd_burst_put(slot, burst);
    NS_PUT(slot, burst_epoch, ns_thread.epoch);
    if (step == NS_BURST_JOIN) {
        /* Only what is ours is taken off. */
        if (NS_GET(slot, kernel_nodelay) && !NS_GET(slot, app_nodelay) && !NS_GET(slot, steady))
            ns_join(fd, slot);
    } else if (step == NS_BURST_LATE) {
        ns_push_paused(fd, slot);
    } else if (joins) {
        ns_owe_once(fd, slot); /* another thread may have begun it */
    }
}

/* --- flush-before-read --- */

static void count_flushed(int fd, struct ns_sock *slot)
{
    struct ns_burst burst = ns_fd_burst(slot);
    if (burst.writes < UINT16_MAX)
        burst.writes++;
    ns_fd_burst_put(slot, burst);
    /* A single write leaves at once if what came before it is acknowledged, and data from the peer
     * has most likely carried that ACK. On a connection that only ever sends (the two-connection
     * quote client) nothing says so. */
    if ((burst.writes > 1 || !NS_GET(slot, heard)) && !NS_GET(slot, app_nodelay))
        ns_join_owed(fd, slot);
}

/* --- auto-cork --- */

static bool is_to_be_held(int fd, struct ns_sock *slot, size_t size, int flags)
{
    struct ns_cork cork = ns_fd_cork(slot);
    if (NS_GET(slot, burst_epoch) != ns_thread.epoch && !NS_GET(slot, held_until))
        ns_cork_begin(&cork);
    bool small = size && size < NS_LARGE && !(flags & NS_NEVER_HELD) && ns_deadline_ready();
    if (small && !NS_GET(slot, kernel_nodelay))
        ns_life_enforce_nodelay(fd, slot); /* what cannot be pushed must not be held */
    bool holds = ns_cork_write(&cork, small && !NS_GET(slot, steady));
    ns_fd_cork_put(slot, cork);
    NS_PUT(slot, burst_epoch, ns_thread.epoch);
    return holds;
}

static inline bool holding(int fd)
{
    return atomic_load_explicit(&ns_thread.holding, memory_order_relaxed) == fd + 1;
}

/* A thread's burst is over, too, where it writes to another socket: what it writes first leaves
 * first, also to different peers, which may be one program. So it holds bytes on one at most. */
static inline void turn_to(int fd)
{
    int held = atomic_load_explicit(&ns_thread.holding, memory_order_relaxed);
    if (__builtin_expect(held && held != fd + 1, 0))
        ns_push_turned(held - 1);
}

/* Bytes are about to be held: a signal handler may jump away as soon as the kernel has them, so
 * what is owed is noted first, without a time. */
static void foresee_held(int fd, struct ns_sock *slot)
{
    uint64_t none = 0;
    atomic_compare_exchange_strong(&slot->held_until, &none, NS_HELD_OVERDUE);
    ns_thread.may_push = true;
    ns_owe_once(fd, slot);
    ns_deadline_watch(fd);
}

/* They were not: nothing is held but what was before. */
static void forget_foreseen(struct ns_sock *slot)
{
    uint64_t overdue = NS_HELD_OVERDUE;
    atomic_compare_exchange_strong(&slot->held_until, &overdue, 0);
}

/* Bytes are held from now on, if they were not before. The deadline is stored after the call that
 * held them: see held_until. */
static void mark_held(int fd, struct ns_sock *slot)
{
    const struct ns_rule *rule = NS_GET(slot, rule);
    if (!rule || NS_GET(slot, held_until) > NS_HELD_OVERDUE)
        return;
    NS_COUNT(bursts);
    atomic_store(&slot->held_until, ns_deadline_now() + (uint64_t)rule->max_delay_us * 1000);
    if (!ns_deadline_watch(fd))
        ns_push(fd, slot);
}

void ns_out_held(int fd, const struct ns_out *out, ssize_t result)
{
    struct ns_sock *slot = out->slot;
    if (result <= 0) {
        forget_foreseen(slot);
        return;
    }
    struct ns_ack_state state = ns_fd_ack(slot);
    ns_ack_wrote(&state); /* the push carries it */
    ns_fd_ack_put(slot, state);
    NS_PUT(slot, wrote, 1);
    mark_held(fd, slot);
    while (!holding(fd)) {
        turn_to(fd); /* what a signal handler has held since */
        int none = 0;
        atomic_compare_exchange_strong(&ns_thread.holding, &none, fd + 1);
    }
    ns_thread.may_push = true;
    ns_owe_once(fd, slot);
    if (result >= NS_LARGE)
        ns_push(fd, slot);
}

void ns_out_went_on(int fd, ssize_t result)
{
    struct ns_out out = {.slot = ns_fd_slot(fd)};
    /* The deadline thread has pushed meanwhile, and perhaps before these bytes, or a signal handler
     * has turned to another socket: mark them anew. */
    if (out.slot && (atomic_load(&out.slot->held_until) <= NS_HELD_OVERDUE || !holding(fd)))
        ns_out_held(fd, &out, result);
}

void ns_out_refused(int fd, struct ns_out *out)
{
    forget_foreseen(out->slot);
    ns_life_heal(fd, out->slot);
    out->holds = false;
    if (NS_GET(out->slot, kind) != NS_FD_RULED)
        out->slot = NULL;
}

/* The write took nothing: what was held before it still is. */
static void put_back(int fd, struct ns_sock *slot, uint64_t mark)
{
    uint64_t now = NS_HELD_OVERDUE, none = 0;
    bool back = mark > NS_HELD_OVERDUE &&
                (atomic_compare_exchange_strong(&slot->held_until, &now, mark) ||
                 /* another's push, begun before bytes that came after it, has ended */
                 atomic_compare_exchange_strong(&slot->held_until, &none, mark));
    if (back && !ns_deadline_watch(fd))
        ns_push(fd, slot);
}

/* --- every rule --- */

/* TCP_NODELAY is not set before it matters: what a connection writes first finds nothing in flight
 * that Nagle could wait for. */
static void set_nodelay_in_time(int fd, struct ns_sock *slot)
{
    if (!NS_GET(slot, kernel_nodelay) && !NS_GET(slot, joins) && NS_GET(slot, wrote))
        ns_life_enforce_nodelay(fd, slot);
}

static void before_plain(int fd, struct ns_out *out)
{
    struct ns_sock *slot = out->slot;
    if (out->flags & MSG_MORE) {
        ns_push(fd, slot); /* what we hold leaves first, so that the two are not mixed up */
    } else if (!(NS_GET(slot, app_corks) & NS_CORKS_OPTION)) {
        struct ns_ack_state state = ns_fd_ack(slot);
        out->ack_state = NS_GET(slot, ack_state);
        ns_ack_wrote(&state);
        ns_fd_ack_put(slot, state);
    }
    /* Taken away, so that another thread that holds bytes during the call marks them anew. */
    if (NS_GET(slot, held_until))
        out->mark = atomic_exchange(&slot->held_until, NS_HELD_OVERDUE);
}

static struct ns_out begin(int fd, size_t size, int flags, bool plain)
{
    struct ns_out out = {.slot = ns_life_ruled(fd), .flags = flags};
    struct ns_sock *slot = out.slot;
    if (slot && NS_GET(slot, send) == NS_SEND_AUTO_CORK)
        turn_to(fd);
    before_other_debts(fd, slot, size, flags);
    if (!slot)
        return out;
    if (__builtin_expect(!ns_thread.token, 0))
        ns_thread_begin();
    ns_thread.wrote = true;
    out.ack_state = NS_GET(slot, ack_state);
    if (!NS_GET(slot, app_corks)) {
        switch ((enum ns_send)NS_GET(slot, send)) {
        case NS_SEND_ADAPTIVE:
            set_nodelay_in_time(fd, slot);
            if (size) /* what has no bytes is no piece of anything */
                count_adaptive(fd, slot);
            break;
        case NS_SEND_NODELAY:
            set_nodelay_in_time(fd, slot);
            break;
        case NS_SEND_AUTO_CORK:
            set_nodelay_in_time(fd, slot);
            out.holds = is_to_be_held(fd, slot, plain ? 0 : size, flags);
            break;
        case NS_SEND_FLUSH_BEFORE_READ:
        case NS_SEND_APP:
            break;
        }
    }
    if (out.holds)
        foresee_held(fd, slot);
    else
        before_plain(fd, &out);
    return out;
}

struct ns_out ns_out_begin(int fd, size_t size, int flags)
{
    return begin(fd, size, flags, false);
}

struct ns_out ns_out_begin_plain(int fd, size_t size, int flags)
{
    return begin(fd, size, flags, true);
}

/* Nothing left. */
static void failed(int fd, const struct ns_out *out)
{
    struct ns_ack_state before, now = ns_fd_ack(out->slot);
    union {
        uint32_t word;
        struct ns_ack_state state;
    } both = {.word = out->ack_state};
    before = both.state;
    if (before.owed && !now.owed) {
        NS_PUT(out->slot, ack_state, out->ack_state);
        if (ns_ack_owes(before))
            ns_owe_once(fd, out->slot);
    }
    put_back(fd, out->slot, out->mark);
}

void ns_out_end(int fd, const struct ns_out *out, ssize_t result)
{
    struct ns_sock *slot = out->slot;
    if (!slot)
        return;
    if (__builtin_expect(result <= 0, 0)) {
        failed(fd, out);
        return;
    }
    uint64_t overdue = NS_HELD_OVERDUE;
    if (out->mark) /* taken along; bytes that somebody has held since keep their mark */
        atomic_compare_exchange_strong(&slot->held_until, &overdue, 0);
    if (__builtin_expect(out->flags & MSG_MORE, 0)) {
        NS_PUT(slot, app_corks, NS_GET(slot, app_corks) | NS_CORKS_FLAG);
        return;
    }
    if (__builtin_expect(NS_GET(slot, app_corks), 0)) {
        uint8_t corks = NS_GET(slot, app_corks) & NS_CORKS_OPTION;
        NS_PUT(slot, app_corks, corks ? corks | NS_CORKS_BYTES : 0);
        if (corks) /* its bytes are still in its own cork */
            return;
    }
    if (!NS_GET(slot, wrote))
        NS_PUT(slot, wrote, 1);
    if (NS_GET(slot, send) == NS_SEND_FLUSH_BEFORE_READ)
        count_flushed(fd, slot);
}
