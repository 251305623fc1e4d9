/* SPDX-License-Identifier: MIT */
/* Per-socket state, and what a socket's life, a write, a read and a wait do to it. Nothing here
 * blocks, allocates with malloc or takes a lock; errno is unchanged by all of it; all is
 * async-signal-safe, but for the first write that holds bytes (it starts the deadline thread). */
#ifndef NS_ENGINE_H
#define NS_ENGINE_H

#include "fdtable.h"
#include "match.h"
#include "settle.h"

#include <errno.h>
#include <sys/socket.h>

/* Start-up: the rules of this process. They must stay for good. */
void ns_engine_open(const struct ns_ruleset *rules);

/* Leave every socket alone from now on: push what is held, end the deadline thread, pass every
 * call. */
void ns_engine_stand_aside(void);

/* --- the life of a socket --- */

/* After socket() gave fd. */
void ns_engine_created(int fd, int domain, int type, int protocol);

/* Before connect(): choose the rule, set what has to be set before the handshake. */
void ns_engine_connecting(int fd, const struct sockaddr *remote, socklen_t len);

/* Before listen(). */
void ns_engine_listening(int fd);

/* After accept() gave fd; flags are accept4's. */
void ns_engine_accepted(int listener, int fd, int flags);

/* fd came into the process by a way that we did not see. At start-up touch says whether an
 * inherited connection is given its rule at once; if not, at its first use. */
void ns_engine_inherited(int fd, bool touch);

/* from has a duplicate, to, in this process. */
void ns_engine_duplicated(int from, int to);

/* Before fd is closed or replaced: forget it, before its number can be used again. */
void ns_engine_closing(int fd);

/* The same for descriptors low to high, both included. */
void ns_engine_closing_range(unsigned low, unsigned high);

/* fd is about to be shared with somebody whose writes we do not see (SCM_RIGHTS, stdio): push, and
 * never hold there again. */
void ns_engine_never_hold(int fd);

/* Before a fork or an exec: push what any thread holds, and give the kernel what waits for a rule.
 */
void ns_engine_handing_on(void);

/* The process ends, or becomes another program, or we stand aside: the same, and nothing is
 * gathered in user memory from now on. */
void ns_engine_leaving(void);

/* Somebody writes to fd past us, or, for -1, perhaps to any descriptor: what is gathered in user
 * memory leaves first, and none is any more. */
void ns_engine_bypassed(int fd);

/* --- calls on a socket --- */

struct ns_sock *ns_engine_adopt(int fd, struct ns_sock *slot);

/* After connect() has made the connection. */
void ns_engine_connected(int fd);

/* A connection that exists, is nobody else's, and holds nothing: have it gather in user memory if
 * its rule says so. */
void ns_engine_may_gather(int fd, struct ns_sock *slot);

/* The slot of a connection that a rule governs, NULL for everything else. */
static inline struct ns_sock *ns_engine_ruled(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (!slot)
        return NULL;
    uint8_t kind = NS_GET(slot, kind);
    if (__builtin_expect(kind == NS_FD_OTHER, 1))
        return NULL;
    if (kind == NS_FD_RULED)
        return slot;
    return ns_engine_adopt(fd, slot);
}

/* The same for one that is about to be read from, which ends no gathering. */
static inline struct ns_sock *ns_engine_reads(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    return slot && NS_GET(slot, kind) == NS_FD_READS ? slot : ns_engine_ruled(fd);
}

/* Flags of a write that say it is not to be held: the application corks by itself, or the bytes are
 * not for merging. */
enum { NS_NEVER_HELD = MSG_MORE | MSG_OOB | MSG_EOR | MSG_FASTOPEN | MSG_ZEROCOPY };

/* What a plain write took away before its call, to be put back if it fails. */
struct ns_plain {
    uint64_t mark;      /* held_until */
    uint32_t ack_tempo; /* if owed */
    bool owed;          /* ack_owed */
};

/* Data of ours is about to leave, and an ACK with it. Called before the call: after it the peer's
 * next request may already have been read, by another thread. Returns whether there was a debt, for
 * the next. */
void ns_engine_answers(struct ns_sock *slot, bool owed);

static inline bool ns_engine_carry(struct ns_sock *slot)
{
    bool owed = NS_GET(slot, ack_owed);
    if (owed)
        NS_PUT(slot, ack_owed, 0);
    struct ns_ack_tempo tempo = ns_ack_tempo_of(slot);
    if (__builtin_expect(tempo.sent || (owed && tempo.needless), 0))
        ns_engine_answers(slot, owed);
    return owed;
}

/* It did not leave. */
static inline void ns_engine_carried(struct ns_sock *slot, ssize_t result, struct ns_plain before)
{
    if (__builtin_expect(result <= 0 && before.owed && !NS_MUTANT(debt_put_back), 0)) {
        NS_PUT(slot, ack_tempo, before.ack_tempo);
        NS_PUT(slot, ack_owed, 1);
    }
}

/* A write of this size and more is not small: merging it with others saves nothing. */
enum { NS_LARGE = 16 * 1024 };

/* What adaptive holds at most, but for the first of a few writes (a header). Where larger pieces
 * follow each other the kernel joins them by itself while earlier ones are on their way
 * (tcp_autocorking), into large segments, and what MSG_MORE has filled it sends one by one: a
 * stream of 512 bytes each took three times as long when it was held, one of 128 as long, and one
 * of 64 half as long. */
enum { NS_TINY = 128 };

/* Is a write of size bytes with these flags to be held, that is sent with MSG_MORE? From the slot
 * alone; counts the write as one of its burst. */
bool ns_engine_gathers(int fd, struct ns_sock *slot, size_t size, int flags);

static inline bool ns_engine_holds(int fd, struct ns_sock *slot, size_t size, int flags)
{
    uint8_t send = NS_GET(slot, send);
    return (send == NS_SEND_AUTO_CORK || send == NS_SEND_ADAPTIVE) &&
           ns_engine_gathers(fd, slot, size, flags);
}

/* Counts a write that is never held as one of its burst. */
static inline void ns_engine_count(int fd, struct ns_sock *slot)
{
    ns_engine_holds(fd, slot, NS_LARGE, 0);
}

/* Is this thread inside a burst on fd that is being held, and may one more write of it be? Then it
 * may be sent with MSG_MORE and nothing else: without the address that finds out what fd is, and
 * with nothing to tell the engine afterwards but ns_engine_continued. Since its last write, held as
 * well, the thread has not waited, and every way to replace a descriptor that libc sees ends the
 * burst. What is left is a program that does it by bare system calls, or by io_uring, between two
 * such writes. endless: also where it goes on for long, since what it gathers is sent with the
 * address. */
static inline bool ns_engine_bursts(int fd, struct ns_sock *slot, size_t size, bool endless)
{
    if (NS_GET(slot, burst_epoch) != ns_thread.epoch ||
        NS_GET(slot, held_until) <= NS_HELD_OVERDUE || !ns_owes_only(fd) ||
        size - 1 >= (NS_GET(slot, send) == NS_SEND_ADAPTIVE ? NS_TINY : NS_LARGE - 1))
        return false;
    struct ns_tempo tempo = ns_tempo_of(slot);
    if (tempo.burst == NS_TEMPO_MANY)
        return endless;
    if (tempo.burst + 1 == tempo.expected)
        return false;
    tempo.burst++;
    ns_tempo_put(slot, tempo);
    return true;
}

/* Does a plain write on slot change nothing but counts, so that it may be made at once and nothing
 * be told afterwards? Counts it then. */
__attribute__((always_inline)) static inline bool ns_engine_passes(struct ns_sock *slot,
                                                                   size_t size)
{
    if (ns_owes() || NS_GET(slot, held_until) || NS_GET(slot, app_corks) ||
        NS_GET(slot, ack_owed) || ns_ack_tempo_of(slot).sent)
        return false;
    if (NS_GET(slot, send) == NS_SEND_NODELAY)
        return true;
    if (NS_GET(slot, send) != NS_SEND_ADAPTIVE || !ns_thread.token)
        return false;
    struct ns_tempo tempo = ns_tempo_of(slot);
    if (NS_GET(slot, burst_epoch) != ns_thread.epoch)
        ns_tempo_begin(&tempo);
    if (ns_tempo_gathers(&tempo))
        return false;
    ns_tempo_write(&tempo, true, size <= NS_TINY);
    NS_PUT(slot, burst_epoch, ns_thread.epoch);
    ns_tempo_put(slot, tempo);
    return true;
}

/* Bytes are held from now on, if they were not before: they leave by the deadline. False: there is
 * nobody to push them, so the caller does. */
bool ns_engine_mark(int fd, struct ns_sock *slot);

/* After a held write: sent with MSG_MORE. */
void ns_engine_held(int fd, struct ns_sock *slot, ssize_t result);

/* A thread's burst is over, too, where it writes to another socket: what it writes first leaves
 * first, also to different peers, which may be one program. So it holds bytes on one at most. */
void ns_engine_push_turned(int held);

static inline bool ns_engine_holding(int fd)
{
    return atomic_load_explicit(&ns_thread.holding, memory_order_relaxed) == fd + 1;
}

static inline void ns_engine_turns_to(int fd)
{
    int holding = atomic_load_explicit(&ns_thread.holding, memory_order_relaxed);
    if (__builtin_expect(holding && holding != fd + 1, 0))
        ns_engine_push_turned(holding - 1);
}

/* This thread has held bytes on fd. */
static inline void ns_engine_holds_on(int fd)
{
    while (!ns_engine_holding(fd)) {
        ns_engine_turns_to(fd); /* what a signal handler held since fd was turned to */
        int none = 0;
        atomic_compare_exchange_strong(&ns_thread.holding, &none, fd + 1);
    }
}

/* After a held write that ns_engine_bursts allowed. */
static inline void ns_engine_continued(int fd, struct ns_sock *slot, ssize_t result)
{
    /* The deadline thread has pushed meanwhile, and perhaps before these bytes, or a signal handler
     * has turned to another socket: mark them anew. */
    if (__builtin_expect(atomic_load(&slot->held_until) <= NS_HELD_OVERDUE, 0) ||
        __builtin_expect(!ns_engine_holding(fd), 0))
        ns_engine_held(fd, slot, result);
}

/* Around a write that is not held, with the application's flags; it takes what is held with it. The
 * first takes the mark away, so that another thread that holds bytes during the call marks them
 * anew, and returns it for the second. The application's own MSG_MORE makes what we hold leave
 * first, so that the two are not mixed up. */
struct ns_plain ns_engine_before_plain(int fd, struct ns_sock *slot, int flags);
void ns_engine_wrote(int fd, struct ns_sock *slot, ssize_t result, int flags,
                     struct ns_plain before);

/* A held write failed with errno in a way that a TCP socket does not fail: find out what fd is. The
 * caller then makes the call as the application asked. */
bool ns_engine_is_stale(int error);
void ns_engine_heal(int fd, struct ns_sock *slot);

/* After a read of stream data (no MSG_ERRQUEUE; MSG_PEEK only if it found nothing). error is errno
 * after it. */
void ns_engine_read(int fd, struct ns_sock *slot, ssize_t result, int error);

/* --- debts --- */

/* flush-before-read: may Nagle hold bytes of this socket? */
bool ns_engine_may_be_held(const struct ns_sock *slot);

/* Settle one debt of fd if there is one. _late is the deadline thread's. */
void ns_engine_push(int fd, struct ns_sock *slot);
void ns_engine_push_late(int fd, struct ns_sock *slot);
void ns_engine_acknowledge(int fd, struct ns_sock *slot);

#endif
