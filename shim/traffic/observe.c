/* SPDX-License-Identifier: MIT */
/* See observe.h. Owns ns_seat.flags and each thread's list of the connections that its next wait
 * looks at. Must never change a socket but where an experiment was asked for.
 *
 * A connection costs its process one ioctl at a wait that follows a write, and none where
 * TCP_NODELAY is on. Only where bytes are unsent is TCP_INFO asked for: before that wait (WAIT),
 * after it (WOKE), before the next write if they were still unsent after it (WRITE), and when the
 * answer is read if they had left by then but the answer had not come (WOKE again). */
#include "traffic/observe.h"

#include "base/clock.h"
#include "report/stats.h"
#include "conn/kernel.h"
#include "conn/recorder.h"
#include "traffic/experiment.h"

#include <netinet/tcp.h>

/* ns_seat.flags */
enum {
    WROTE = 1,     /* since the last wait */
    ASKED = 2,     /* written, and nothing read since */
    HELD = 4,      /* bytes were unsent at the last look */
    WAITING = 8,   /* that look was before a wait, which is not over */
    AWAITED = 16,  /* those bytes have left since, and the answer has not come */
    READ = 32,     /* read and not answered: for the experiment that acknowledges */
    MEASURED = 64, /* a look has told the round trip */
};

enum {
    SAME_NS = 1000000,     /* see is_same_wait */
    STREAM_NS = 100000000, /* see is_piece_of_stream */
    PIECES = 16,           /* so many looks are at a request that is written in pieces: is_stream */
    PIECE_NS = 4000000,    /* and from then on one in so long */
    LATE_NS = 30000000,    /* sooner no delayed ACK is sent on its timer (TCP_DELACK_MIN, 40 ms) */
    LONG_NS = 5000000,     /* more than a tick: worth a look at what took so long */
    NS_PER_US = 1000,
};

/* Of the connections whose bytes stay unsent, HELD_MOST at most are looked at around a thread's
 * waits, and where they are more than FEW no more often than once in SAME_NS: a server with
 * thousands of slow readers would look for longer than it works. The others are looked at when they
 * are read from or written to. */
enum { HELD_MOST = 16, FEW = 4 };

static _Thread_local struct {
    /* ns_recorder_generation, and 1 more than a seat's number; 0: none */
    _Atomic uint64_t list;              /* written to since the last wait */
    _Atomic uint64_t held[HELD_MOST];   /* what a wait left unsent */
    _Atomic uint32_t n_held;            /* how many those are */
    _Atomic uint32_t turn;              /* where all places are taken, the next one takes this */
    uint64_t passed_at;                 /* when they were looked at last */
    uint64_t woke_at;                   /* when the last wait was over */
    struct ns_seat *other;              /* what this thread waits for, if in a read */
    const struct ns_record_slot *heard; /* while it looks after that: what the data came from */
} mine;

static uint64_t now(void)
{
    return ns_clock_now(CLOCK_MONOTONIC);
}

/* --- the list --- */

static uint64_t as_list(uint32_t number)
{
    return (uint64_t)ns_recorder_generation() << 32 | number;
}

static void enlist(struct ns_seat *seat)
{
    if (atomic_exchange(&seat->listed, 1))
        return;
    uint64_t list = atomic_load(&mine.list);
    do /* against a signal handler that does the same */
        atomic_store(&seat->next, list >> 32 == ns_recorder_generation() ? (uint32_t)list : 0);
    while (!atomic_compare_exchange_weak(&mine.list, &list, as_list(ns_recorder_number(seat) + 1)));
}

static struct ns_seat *seat_of(uint64_t entry)
{
    uint32_t number = (uint32_t)entry;
    return number && entry >> 32 == ns_recorder_generation() ? ns_recorder_at(number - 1) : NULL;
}

/* Bytes there stay unsent: this thread's waits look at it from now on, if no other thread's do. */
static void keep(struct ns_seat *seat)
{
    uint64_t entry = as_list(ns_recorder_number(seat) + 1);
    if (atomic_exchange(&seat->held, 1))
        return;
    for (unsigned i = 0; i < HELD_MOST; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&mine.held[i], &none, entry)) {
            atomic_fetch_add(&mine.n_held, 1);
            return;
        }
    }
    struct ns_seat *old =
        seat_of(atomic_exchange(&mine.held[atomic_fetch_add(&mine.turn, 1) % HELD_MOST], entry));
    if (old)
        atomic_store(&old->held, 0);
}

/* Ask stays of each that is kept, and keep those of which it is true. */
static void each_kept(bool (*stays)(struct ns_seat *seat))
{
    for (unsigned i = 0; i < HELD_MOST && atomic_load(&mine.n_held); i++) {
        uint64_t entry = atomic_load(&mine.held[i]);
        struct ns_seat *seat = seat_of(entry);
        if (!entry || (seat && stays(seat)) ||
            !atomic_compare_exchange_strong(&mine.held[i], &entry, 0))
            continue;
        atomic_fetch_sub(&mine.n_held, 1);
        if (seat)
            atomic_store(&seat->held, 0);
    }
}

/* Take every seat off the list, and keep those of which keeps is true, to be looked at after the
 * wait. A signal handler may have changed the links meanwhile, even to a circle: so no more steps
 * than there are seats. */
static void each_listed(bool (*keeps)(struct ns_seat *seat))
{
    uint64_t list = atomic_exchange(&mine.list, 0);
    uint32_t next = list >> 32 == ns_recorder_generation() ? (uint32_t)list : 0;
    for (unsigned n = 0; next && n < NS_RECORD_SLOTS; n++) {
        struct ns_seat *seat = ns_recorder_at(next - 1);
        if (!seat)
            return;
        next = NS_GET(seat, next);
        atomic_store(&seat->listed, 0);
        if (keeps(seat))
            keep(seat);
    }
}

static bool has_listed(void)
{
    return atomic_load_explicit(&mine.list, memory_order_relaxed) != 0;
}

/* --- looks --- */

/* The connection of a seat, and a descriptor of it; NULL if it is closed. */
static struct ns_conn *conn_of(const struct ns_seat *seat, int *fd)
{
    *fd = NS_GET(seat, fd);
    struct ns_conn *conn = ns_observed(*fd);
    return conn && ns_recorder_find(conn) == seat ? conn : NULL;
}

static bool take(int fd, const struct ns_conn *conn, enum ns_look_kind kind, struct ns_look *look)
{
    uint64_t info[64]; /* more than any kernel's tcp_info */
    socklen_t size = ns_kernel_tcp_info(fd, info, sizeof info);
    if (!size)
        return false;
    int nodelay = ns_kernel_get(fd, IPPROTO_TCP, TCP_NODELAY);
    int cork = ns_kernel_get(fd, IPPROTO_TCP, TCP_CORK);
    *look = (struct ns_look){.at = now(), .kind = (uint8_t)kind};
    ns_look_take(look, info, size);
    if (nodelay >= 0 && cork >= 0)
        look->flags |= NS_LOOK_KNOWS_OPTIONS;
    if (nodelay > 0)
        look->flags |= NS_LOOK_NODELAY;
    if (cork > 0 || NS_GET(conn, app_corks) & NS_CORKS_FLAG)
        look->flags |= NS_LOOK_CORK;
    return true;
}

static void put(struct ns_seat *seat, const struct ns_look *look)
{
    ns_recorder_put(seat, look);
    NS_PUT(seat, looked_at, look->at);
    NS_PUT(seat, mss, look->mss);
}

/* Was it written to piece by piece, with nothing read in between, so that it is a stream and no
 * request? Many looks would all say the same, and leave no room for others in the record: so it is
 * looked at now and then, the less often the fuller the record is. */
static bool is_stream(const struct ns_seat *seat)
{
    return NS_GET(seat, unanswered) >= PIECES &&
           now() - NS_GET(seat, looked_at) < (uint64_t)PIECE_NS << ns_recorder_sixteenths();
}

/* Where a whole segment is unsent it is not Nagle who holds it: a look now and then will do. */
static bool is_piece_of_stream(const struct ns_seat *seat, uint32_t unsent)
{
    uint32_t mss = NS_GET(seat, mss);
    return mss && unsent >= mss && now() - NS_GET(seat, looked_at) < STREAM_NS;
}

/* --- waits --- */

/* Put the writes since the last wait down. */
static void note_writes(const struct ns_seat *seat, struct ns_record_slot *slot)
{
    NS_ADD(slot->waits, 1);
    NS_PUT(slot, n_writes, NS_GET(seat, n_writes));
    for (int i = 0; i < NS_RECORD_SIZES; i++)
        NS_PUT(slot, sizes[i], NS_GET(seat, sizes[i]));
}

/* Before a wait. Returns whether it is to be looked at again afterwards. */
static bool before(struct ns_seat *seat)
{
    int fd;
    struct ns_conn *conn = conn_of(seat, &fd);
    struct ns_record_slot *slot = ns_recorder_slot(seat);
    struct ns_look look;
    if (!conn || !slot)
        return false;
    uint8_t flags = NS_GET(seat, flags);
    if ((flags & (WAITING | WROTE)) == WAITING) /* the same wait goes on: see is_same_wait */
        return true;
    if (!(flags & (WROTE | HELD | READ)))
        return false;
    bool stream = is_stream(seat);
    uint32_t unsent = stream || NS_GET(conn, app_nodelay) ? 0 : ns_kernel_unsent(fd);
    bool held = unsent && !is_piece_of_stream(seat, unsent);
    bool looks = (held || flags & READ) && take(fd, conn, NS_LOOK_WAIT, &look);
    if (flags & WROTE)
        note_writes(seat, slot);
    if (looks) {
        ns_experiment(fd, flags & READ, &look);
        put(seat, &look);
        if (!(flags & HELD))
            NS_PUT(seat, held_at, look.at);
        NS_PUT(seat, unanswered, NS_GET(seat, unanswered) + 1);
        NS_PUT(seat, received, look.received);
        NS_PUT(seat, wait_began, 0);
        NS_PUT(slot, last, look.at);
    } else if (flags & WROTE) {
        uint64_t at = now();
        NS_PUT(seat, wait_began, stream || unsent ? 0 : at);
        NS_PUT(slot, last, at);
    }
    NS_PUT(seat, n_writes, 0);
    uint8_t stays = flags & (ASKED | MEASURED);
    if (looks)
        flags = stays | HELD | WAITING;
    else if (flags & (HELD | AWAITED)) /* they have left between two waits */
        flags = stays | AWAITED;
    else
        flags = stays;
    NS_PUT(seat, flags, flags);
    return looks;
}

/* Has data from the same peer by another connection ended the wait? In a conversation that has two
 * connections that is the answer. */
static bool has_heard_elsewhere(const struct ns_record_slot *slot)
{
    const struct ns_record_slot *heard = mine.heard;
    if (!slot || !heard || heard == slot)
        return false;
    const struct ns_record_address *one = &heard->remote, *other = &slot->remote;
    return NS_GET(one, known) && NS_GET(other, known) &&
           NS_GET(one, addr[0]) == NS_GET(other, addr[0]) &&
           NS_GET(one, addr[1]) == NS_GET(other, addr[1]);
}

/* The wait is over, or another thread has read the answer. Returns whether bytes are still unsent.
 */
static bool look_after(int fd, struct ns_conn *conn, struct ns_seat *seat)
{
    struct ns_look look;
    uint8_t flags = NS_GET(seat, flags) & (uint8_t) ~(WAITING | HELD | AWAITED);
    if (!take(fd, conn, NS_LOOK_WOKE, &look)) {
        NS_PUT(seat, flags, flags);
        return false;
    }
    bool arrived =
        look.received > NS_GET(seat, received) || has_heard_elsewhere(ns_recorder_slot(seat));
    if (arrived)
        look.flags |= NS_LOOK_ARRIVED;
    put(seat, &look);
    if (look.unsent)
        flags |= HELD;
    else if (!arrived)
        flags |= AWAITED;
    NS_PUT(seat, flags, flags);
    return look.unsent != 0;
}

/* Has something else woken the thread soon after the last look, with the bytes still unsent? Then
 * the wait that follows is taken for the same one. A busy event loop would look a thousand times at
 * what is held; now it does the less often the longer that is held. */
static bool is_same_wait(int fd, const struct ns_seat *seat)
{
    uint64_t last = NS_GET(seat, looked_at);
    return NS_GET(seat, flags) & HELD &&
           now() - last < SAME_NS + (last - NS_GET(seat, held_at)) / 4 && ns_kernel_unsent(fd);
}

/* After a wait. */
static bool after(struct ns_seat *seat)
{
    int fd;
    struct ns_conn *conn = conn_of(seat, &fd);
    if (!conn)
        return false;
    uint8_t flags = NS_GET(seat, flags);
    if (!(flags & WAITING)) /* another thread has read the answer */
        return flags & HELD;
    return is_same_wait(fd, seat) || look_after(fd, conn, seat);
}

void ns_observe_wait(struct ns_conn *conn)
{
    /* What it reads from another thread may have written to, and have on its list. */
    struct ns_seat *seat = conn ? ns_recorder_find(conn) : NULL;
    mine.other = seat && before(seat) ? seat : NULL;
    each_kept(before);
    if (has_listed())
        each_listed(before);
}

static void look_after_waits(const struct ns_conn *conn)
{
    const struct ns_seat *seat = conn ? ns_recorder_find(conn) : NULL;
    mine.heard = seat ? ns_recorder_slot(seat) : NULL;
    if (mine.other && after(mine.other))
        keep(mine.other);
    if (atomic_load(&mine.n_held) <= FEW || mine.woke_at - mine.passed_at >= SAME_NS) {
        each_kept(after);
        mine.passed_at = mine.woke_at;
    }
    mine.heard = NULL;
    mine.other = NULL;
}

void ns_observe_woke(const struct ns_conn *conn)
{
    mine.woke_at = now();
    if (mine.other || atomic_load(&mine.n_held))
        look_after_waits(conn);
}

static bool leave(struct ns_seat *seat)
{
    (void)seat;
    return false;
}

void ns_observe_thread_exits(void)
{
    each_kept(leave);
    if (has_listed())
        each_listed(leave);
}

/* --- writes and reads --- */

void ns_observe_write(int fd, struct ns_conn *conn)
{
    struct ns_seat *seat = ns_recorder_find(conn);
    struct ns_look look;
    if (!seat || !(NS_GET(seat, flags) & (HELD | AWAITED)))
        return;
    if (NS_GET(seat, flags) & HELD && take(fd, conn, NS_LOOK_WRITE, &look))
        put(seat, &look);
    NS_PUT(seat, flags, NS_GET(seat, flags) & (uint8_t) ~(HELD | AWAITED));
}

/* The peer's next bytes came late, and nothing had answered its last ones: was it Nagle on its
 * side, who waited for our delayed ACK? The timer that sends one fires on the kernel's tick. So
 * which part of a tick they came in is kept: bytes that such ACKs release come in the same one. */
static void note_late(struct ns_seat *seat, uint64_t at, uint64_t took)
{
    struct timespec tick = {0};
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    uint64_t length = tick.tv_nsec > 0 ? (uint64_t)tick.tv_nsec : 1;
    NS_PUT(seat, late_phase, (uint32_t)(at % length * NS_RECORD_PHASES / length));
    NS_PUT(seat, late_ns, took);
}

/* More of what the peer has to say, so long after the rest. */
static void note_part(struct ns_seat *seat, struct ns_record_slot *slot, uint64_t at, uint64_t took)
{
    if (took >= LATE_NS)
        note_late(seat, at, took);
    if (took < LONG_NS ||
        NS_GET(slot, role) != NS_ROLE_CLIENT) /* a server waits for whoever comes */
        return;
    NS_ADD(slot->parts, 1);
    NS_ADD(slot->parts_ns, took);
}

/* Once for each connection a look tells the round trip, without which what takes long could be the
 * wire or the peer. */
static void measure(int fd, struct ns_conn *conn, struct ns_seat *seat)
{
    struct ns_look look;
    uint8_t flags = NS_GET(seat, flags);
    if (flags & MEASURED)
        return;
    if (take(fd, conn, NS_LOOK_WOKE, &look))
        put(seat, &look);
    NS_PUT(seat, flags, flags | MEASURED);
}

/* What came late is answered now, and so it counts: see ns_record_slot.phases. */
static void count_late(int fd, struct ns_conn *conn, struct ns_seat *seat,
                       struct ns_record_slot *slot)
{
    measure(fd, conn, seat);
    NS_ADD(slot->phases[NS_GET(seat, late_phase) % NS_RECORD_PHASES], 1);
    NS_ADD(slot->late_ns, NS_GET(seat, late_ns));
    NS_PUT(seat, late_ns, 0);
}

void ns_observe_wrote(int fd, struct ns_conn *conn, size_t size)
{
    struct ns_seat *seat = ns_recorder_seat(fd, conn);
    struct ns_record_slot *slot = seat ? ns_recorder_slot(seat) : NULL;
    if (!slot)
        return;
    if (NS_GET(seat, late_ns))
        count_late(fd, conn, seat, slot);
    NS_ADD(slot->writes, 1);
    NS_PUT(slot, nodelay, NS_GET(conn, app_nodelay));
    uint32_t n = NS_GET(seat, n_writes);
    if (n < NS_RECORD_SIZES)
        NS_PUT(seat, sizes[n], size < UINT32_MAX ? (uint32_t)size : UINT32_MAX);
    NS_PUT(seat, n_writes, n + 1);
    NS_PUT(seat, fd, fd);
    NS_PUT(seat, wait_began, 0);
    NS_PUT(seat, read_at, 0);
    NS_PUT(seat, flags, (NS_GET(seat, flags) & (uint8_t)~READ) | WROTE | ASKED);
    enlist(seat);
}

static void count_wait(struct ns_record_slot *slot, uint64_t took)
{
    unsigned bucket = 0;
    for (uint64_t us = took / NS_PER_US; us > 1 && bucket < NS_RECORD_BUCKETS - 1; us /= 2)
        bucket++;
    NS_ADD(slot->buckets[bucket], 1);
    NS_ADD(slot->waited_ns, took);
}

void ns_observe_read(int fd, struct ns_conn *conn)
{
    struct ns_seat *seat = ns_recorder_seat(fd, conn);
    struct ns_record_slot *slot = seat ? ns_recorder_slot(seat) : NULL;
    if (!slot)
        return;
    uint8_t flags = NS_GET(seat, flags);
    uint64_t began = NS_GET(seat, wait_began), before_it = NS_GET(seat, read_at);
    uint64_t at = mine.woke_at; /* it was there by then, if the thread has waited for it */
    if (at < began || at < before_it || !at)
        at = now();
    NS_ADD(slot->reads, 1);
    if (flags & ASKED)
        NS_ADD(slot->requests, 1);
    if (began && at - began >= LONG_NS)
        measure(fd, conn, seat);
    if (began)
        count_wait(slot, at - began);
    else if (flags & WROTE) /* the answer was there before it came to wait */
        count_wait(slot, 0);
    else if (before_it)
        note_part(seat, slot, at, at - before_it);
    /* A program that delays its ACKs itself (TCP_QUICKACK 0) need not answer to owe one. */
    bool delays = NS_GET(slot, role) != NS_ROLE_UNKNOWN && ns_conn_ack(conn).interactive;
    if (NS_GET(seat, late_ns) && delays)
        count_late(fd, conn, seat, slot);
    NS_PUT(seat, wait_began, 0);
    NS_PUT(seat, unanswered, 0);
    NS_PUT(seat, read_at, at);
    NS_PUT(slot, last, at);
    if (flags & (WAITING | AWAITED))
        look_after(fd, conn, seat);
    flags = NS_GET(seat, flags) & (uint8_t)~ASKED;
    if (ns_recorder_experiment() == NS_EXPERIMENT_ACKNOWLEDGE) {
        NS_PUT(seat, fd, fd);
        flags |= READ;
    }
    NS_PUT(seat, flags, flags);
    if (flags & READ)
        enlist(seat);
}
