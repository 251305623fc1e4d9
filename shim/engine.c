/* SPDX-License-Identifier: MIT */
/* What a write, a read and a wait do to a governed socket. Owns the changes of state in a slot that
 * come from traffic (rule.c owns those that come from a socket's life). Must never keep an
 * application's byte, block, or change errno. */
#include "engine.h"

#include "flusher.h"
#include "gather.h"
#include "sock.h"
#include "stats.h"

#include <netinet/tcp.h>

/* Something is owed on fd, as its slot says: have this thread's next wait settle it. */
static inline void owe(int fd, struct ns_sock *slot)
{
    if (NS_GET(slot, lister) != ns_thread.token || !ns_thread.token)
        ns_owe(fd, slot);
}

bool ns_engine_gathers(int fd, struct ns_sock *slot, size_t size, int flags)
{
    bool adaptive = NS_GET(slot, send) == NS_SEND_ADAPTIVE;
    if (__builtin_expect(!ns_thread.token, 0))
        ns_thread_begin();
    struct ns_tempo tempo = ns_tempo_of(slot);
    if (NS_GET(slot, burst_epoch) != ns_thread.epoch && !NS_GET(slot, held_until) &&
        !NS_MUTANT(burst_begins))
        ns_tempo_begin(&tempo);
    bool header = !tempo.burst && tempo.before <= NS_TEMPO_FEW;
    size_t most = adaptive && !header ? NS_TINY : NS_LARGE - 1;
    bool small = !(flags & NS_NEVER_HELD) && size <= most && !NS_GET(slot, no_hold) &&
                 !NS_GET(slot, app_corks);
    bool learns = adaptive && !ns_tempo_gathers(&tempo);
    if (small && !learns && !ns_flusher_ready()) {
        small = false;
        if (adaptive && ns_flusher_want()) {
            owe(fd, slot); /* so that the thread's next wait is looked at, and starts it */
            if (tempo.before == NS_TEMPO_MANY && !NS_MUTANT(start_in_stream))
                ns_flusher_start_if_wanted(); /* a stream: there may be none */
        }
    }
    bool holds = ns_tempo_write(&tempo, adaptive, small);
    ns_tempo_put(slot, tempo);
    NS_PUT(slot, burst_epoch, ns_thread.epoch);
    return holds;
}

/* The time in ns_ack_tempo's units: only differences count. */
static uint8_t ack_clock(void)
{
    return (uint8_t)(ns_flusher_now() / NS_ACK_UNIT_NS);
}

/* Does the time matter to what tempo becomes? */
static bool is_timed(struct ns_ack_tempo tempo)
{
    return tempo.needless >= NS_ACK_NEVER_AFTER - 1;
}

void ns_engine_answers(struct ns_sock *slot, bool owed)
{
    struct ns_ack_tempo tempo = ns_ack_tempo_of(slot);
    if (NS_MUTANT(ack_answered))
        return;
    ns_ack_answered(&tempo, owed, is_timed(tempo) ? ack_clock() : 0);
    ns_ack_tempo_put(slot, tempo);
}

struct ns_plain ns_engine_before_plain(int fd, struct ns_sock *slot, int flags)
{
    struct ns_plain before = {.ack_tempo = NS_GET(slot, ack_tempo)};
    if (__builtin_expect(flags & MSG_MORE, 0))
        ns_engine_push(fd, slot);
    else if (!(NS_GET(slot, app_corks) & NS_CORKS_OPTION))
        before.owed = ns_engine_carry(slot);
    /* What is gathered in memory keeps its mark: no write of another takes it along. */
    if (NS_GET(slot, held_until) && NS_GET(slot, kind) != NS_FD_GATHERS)
        before.mark = atomic_exchange(&slot->held_until, NS_HELD_OVERDUE);
    return before;
}

/* The deadline is stored after the call that held the bytes: see held_until. */
bool ns_engine_mark(int fd, struct ns_sock *slot)
{
    const struct ns_rule *rule = NS_GET(slot, rule);
    if (!rule || NS_GET(slot, held_until) > NS_HELD_OVERDUE)
        return true;
    NS_COUNT(bursts);
    atomic_store(&slot->held_until, ns_flusher_now() + (uint64_t)rule->max_delay_us * 1000);
    return ns_flusher_watch(fd);
}

static void mark_held(int fd, struct ns_sock *slot)
{
    if (!ns_engine_mark(fd, slot))
        ns_engine_push(fd, slot);
}

void ns_engine_held(int fd, struct ns_sock *slot, ssize_t result)
{
    if (result <= 0)
        return;
    ns_engine_carry(slot); /* the push will */
    mark_held(fd, slot);
    ns_engine_holds_on(fd);
    owe(fd, slot);
}

/* What was held has left. Bytes that somebody has held since keep their mark. */
static void pushed(struct ns_sock *slot)
{
    uint64_t overdue = NS_HELD_OVERDUE;
    atomic_compare_exchange_strong(&slot->held_until, &overdue, 0);
}

/* The write took nothing: what was held before it still is. */
static void put_back(int fd, struct ns_sock *slot, uint64_t mark)
{
    /* An overdue one was left as it is, or comes from gather_socket.c: then there is none yet. */
    uint64_t now = mark == NS_HELD_OVERDUE ? 0 : NS_HELD_OVERDUE, none = 0;
    bool back = mark && (atomic_compare_exchange_strong(&slot->held_until, &now, mark) ||
                         /* another's push, begun before bytes that came after it, has ended */
                         atomic_compare_exchange_strong(&slot->held_until, &none, mark));
    if (back && !ns_flusher_watch(fd))
        ns_engine_push(fd, slot);
}

void ns_engine_wrote(int fd, struct ns_sock *slot, ssize_t result, int flags,
                     struct ns_plain before)
{
    if (result > 0 && before.mark && !NS_MUTANT(taken_along)) {
        pushed(slot);
        if (NS_GET(slot, kind) == NS_FD_RULED && !NS_MUTANT(gather_after_along))
            ns_engine_may_gather(fd, slot);
    }
    if (result <= 0) {
        if (result < 0 && NS_GET(slot, kind) == NS_FD_GATHERS && ns_gather_breaks(errno))
            ns_gather_broken(fd, slot);
        else
            put_back(fd, slot, before.mark);
        ns_engine_carried(slot, result, before);
        return;
    }
    if (__builtin_expect(flags & MSG_MORE, 0)) {
        if (NS_MUTANT(own_more))
            return;
        NS_PUT(slot, app_corks, NS_GET(slot, app_corks) | NS_CORKS_FLAG);
        return;
    }
    if (__builtin_expect(NS_GET(slot, app_corks), 0)) {
        NS_PUT(slot, app_corks, NS_GET(slot, app_corks) & NS_CORKS_OPTION);
        if (NS_GET(slot, app_corks)) /* its bytes are still in its own cork */
            return;
    }
    if (NS_GET(slot, send) == NS_SEND_FLUSH_BEFORE_READ) {
        struct ns_tempo tempo = ns_tempo_of(slot);
        if (tempo.burst < NS_TEMPO_MANY)
            tempo.burst++;
        ns_tempo_put(slot, tempo);
        owe(fd, slot);
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

/* A read that does not wait has found nothing. */
static void found_nothing(int fd, struct ns_sock *slot)
{
    /* It looked for the answer to what this thread holds: that burst is over. */
    if (atomic_load(&slot->held_until) && NS_GET(slot, lister) == ns_thread.token &&
        !NS_MUTANT(push_before_polls))
        ns_engine_push(fd, slot);
    /* For an ACK, once is how an event loop finds the end of what is there. Twice is a busy poll,
     * and the wait that would settle this never comes. */
    if (!NS_GET(slot, ack_owed))
        return;
    if (NS_GET(slot, spun) && !NS_MUTANT(busy_poll))
        ns_settle(NS_OWES_ALL);
    else
        NS_PUT(slot, spun, 1);
}

void ns_engine_read(int fd, struct ns_sock *slot, ssize_t result, int error)
{
    bool stale = result < 0 && (error == ENOTSOCK || error == EBADF);
    if (__builtin_expect(NS_GET(slot, kind) == NS_FD_READS && !stale, 0) &&
        !NS_MUTANT(reader_accounts))
        slot = ns_fd_original(&fd, slot);
    if (result > 0) {
        NS_PUT(slot, heard, 1);
        NS_PUT(slot, burst_epoch, 0); /* this is the answer to the burst, or what it was one to */
        if (NS_GET(slot, ack) != NS_ACK_BEFORE_WAIT)
            return;
        struct ns_ack_tempo tempo = ns_ack_tempo_of(slot);
        if ((tempo.sent || tempo.needless) && !NS_MUTANT(ack_read)) {
            ns_ack_read(&tempo, NS_GET(slot, ack_owed), is_timed(tempo) ? ack_clock() : 0);
            ns_ack_tempo_put(slot, tempo);
        }
        NS_PUT(slot, ack_owed, 1);
        NS_PUT(slot, spun, 0);
        if (ns_ack_when(tempo) != NS_ACK_NEVER)
            owe(fd, slot);
    } else if (result == 0) {
        NS_PUT(slot, ack_owed, 0); /* the peer has ended its stream: nothing of it is held back */
    } else if (error == EAGAIN) {
        found_nothing(fd, slot);
    } else if (stale) {
        ns_engine_heal(fd, slot);
    } else if (NS_GET(slot, kind) == NS_FD_GATHERS && ns_gather_breaks(error)) {
        ns_gather_broken(fd, slot);
    }
}

bool ns_engine_may_be_held(const struct ns_sock *slot)
{
    if (NS_GET(slot, send) != NS_SEND_FLUSH_BEFORE_READ || NS_GET(slot, app_corks) ||
        NS_GET(slot, app_nodelay))
        return false;
    unsigned writes = ns_tempo_of(slot).burst;
    /* A single write leaves at once if what came before it is acknowledged, and data from the peer
     * has most likely carried that ACK. On a connection that only ever sends (the two-connection
     * quote client) nothing says so: push. */
    return writes > 1 || (writes == 1 && !NS_GET(slot, heard) && !NS_MUTANT(one_way_push));
}

static void nodelay_failed(int fd, struct ns_sock *slot, int error)
{
    if (error == -EBADF || error == -ENOTSOCK || error == -ENOPROTOOPT || error == -EOPNOTSUPP)
        ns_engine_heal(fd, slot);
    else if (!NS_MUTANT(hold_what_can_leave))
        NS_PUT(slot, no_hold, 1); /* what cannot be pushed must not be held (a filter, an LSM) */
}

/* The mark goes with the bytes, while nobody can add any: see ns_gather_flush. */
static void push_gathered(int fd, struct ns_sock *slot, bool late)
{
    struct ns_tempo tempo = ns_tempo_of(slot);
    if (tempo.burst) { /* and not the rest of an earlier one */
        ns_tempo_pushed(&tempo, late);
        ns_tempo_put(slot, tempo);
    }
    ns_gather_flush(fd, slot, 0);
}

/* Mark what is held as overdue, and not as gone, until it is: a signal handler may jump out of the
 * push. Returns false if nothing is held. */
static bool begin_push(struct ns_sock *slot, bool late)
{
    uint64_t until = atomic_load(&slot->held_until);
    while (until > NS_HELD_OVERDUE) {
        if (!atomic_compare_exchange_weak(&slot->held_until, &until, NS_HELD_OVERDUE))
            continue;
        struct ns_tempo tempo = ns_tempo_of(slot);
        ns_tempo_pushed(&tempo, late && !NS_MUTANT(late_in_vain));
        ns_tempo_put(slot, tempo);
        return true;
    }
    return until == NS_HELD_OVERDUE;
}

/* TCP_NODELAY pushes at once, even while corked and even if it is on already (tcp(7) and
 * __tcp_sock_set_nodelay in the kernel's net/ipv4/tcp.c). */
static bool push(int fd, struct ns_sock *slot, bool late)
{
    if (ns_engine_may_be_held(slot)) {
        ns_tempo_put(slot, (struct ns_tempo){0});
        NS_PUT(slot, heard, 0);
        int error = ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        if (error == 0)
            ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 0);
        else
            nodelay_failed(fd, slot, error);
        return true;
    }
    if (!NS_GET(slot, held_until))
        return false;
    if (NS_GET(slot, kind) == NS_FD_GATHERS) {
        push_gathered(fd, slot, late);
        return true;
    }
    if (!begin_push(slot, late))
        return false;
    int error = ns_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    pushed(slot);
    if (error)
        nodelay_failed(fd, slot, error);
    else
        ns_engine_may_gather(fd, slot);
    return true;
}

void ns_engine_push(int fd, struct ns_sock *slot)
{
    if (push(fd, slot, false))
        NS_COUNT(pushes);
}

void ns_engine_push_turned(int held)
{
    struct ns_sock *slot = ns_fd_slot(held);
    /* A single write was held in vain. */
    if (slot && !NS_MUTANT(push_turned) && push(held, slot, ns_tempo_of(slot).burst < 2))
        NS_COUNT(pushes);
    int now = held + 1; /* and after the push: a signal handler may jump out of it */
    atomic_compare_exchange_strong(&ns_thread.holding, &now, 0);
    /* What one has held there in between; of gathered bytes it may be a rest that cannot leave. */
    if (slot && atomic_load(&slot->held_until) && NS_GET(slot, kind) != NS_FD_GATHERS)
        ns_engine_push(held, slot);
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
    struct ns_ack_tempo tempo = ns_ack_tempo_of(slot);
    if (!NS_MUTANT(ack_sent))
        ns_ack_sent(&tempo);
    ns_ack_tempo_put(slot, tempo);
    /* An even value sends the ACK that is due and leaves the connection in interactive mode, so
     * that the next answer carries its ACK again (__tcp_sock_set_quickack, net/ipv4/tcp.c). */
    int error = ns_sock_set(fd, IPPROTO_TCP, TCP_QUICKACK, 2);
    if (error == -EBADF || error == -ENOTSOCK)
        ns_engine_heal(fd, slot);
    else if (error)
        NS_PUT(slot, ack, NS_ACK_APP); /* a protocol without it: do not ask again */
    NS_COUNT(acks);
}
