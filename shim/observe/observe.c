/* SPDX-License-Identifier: MIT */
/* See observe.h. Owns ns_observed.flags and each thread's list of the connections that its next
 * wait samples. Must never change a socket, unless an experiment was asked for.
 *
 * A wait that follows a write asks what is unsent (one ioctl, and none if TCP_NODELAY is on). The
 * connection is sampled (TCP_INFO) only if bytes are unsent: before that wait (WAIT), after it
 * (WOKE), before the next write if they were still unsent after it (WRITE), and when the answer is
 * read if they had left by then but the answer had not come (WOKE again). */
#include "observe/observe.h"

#include "base/clock.h"
#include "observe/experiment.h"
#include "observe/sample.h"
#include "observe/descriptor.h"

#include <netinet/tcp.h>

/* ns_observed.flags */
enum {
    WROTE = 1,     /* since the last wait */
    ASKED = 2,     /* written, and nothing read since */
    HELD = 4,      /* bytes were unsent at the last sample */
    WAITING = 8,   /* that sample was before a wait, which is not over */
    AWAITED = 16,  /* those bytes have left since, and the answer has not come */
    READ = 32,     /* read and not answered: for the experiment that acknowledges */
    MEASURED = 64, /* a sample has the round-trip time */
    MORE = 128,    /* the last write had MSG_MORE */
};

enum {
    SAME_NS = 1000000,     /* see is_same_wait */
    STREAM_NS = 100000000, /* see is_piece_of_stream */
    PIECES = 16,           /* a request written in pieces has this many samples: is_stream */
    PIECE_NS = 4000000,    /* and then one sample in this time */
    LATE_NS = 30000000,    /* sooner no delayed ACK is sent on its timer (TCP_DELACK_MIN, 40 ms) */
    LONG_NS = 5000000,     /* more than a tick: a sample shows the cause */
    NS_PER_US = 1000,
};

/* A thread remembers MOST of the connections that it has written to since its last wait. Of those
 * with bytes that stay unsent, its later waits sample KEPT at most, and if there are more than FEW,
 * only once in SAME_NS. A server with thousands of slow readers would otherwise take samples longer
 * than it works. The others are sampled when they are read from or written to. */
enum { MOST = 128, KEPT = 16, FEW = 4 };

static _Thread_local struct {
    /* Connections that this thread's waits sample: written to since the last wait, or with bytes
     * that a wait left unsent. ns_recorder_generation, and 1 more than the connection's number; 0:
     * none. */
    _Atomic uint64_t conns[MOST];
    _Atomic uint32_t n;
    uint32_t turn;             /* if all places are taken, the next connection takes this */
    uint32_t token;            /* names this thread in ns_observed.owner; 0: not yet */
    uint64_t passed_at;        /* when they were sampled last */
    uint64_t woke_at;          /* when the last wait was over */
    struct ns_observed *other; /* the connection that a read of this thread waits for */
    const struct ns_record_slot *heard; /* during the samples after a wait: where data came from */
} mine;

static uint64_t now(void)
{
    return ns_clock_now(CLOCK_MONOTONIC);
}

/* --- the list --- */

static struct ns_observed *conn_of(uint64_t entry)
{
    uint32_t number = (uint32_t)entry;
    return number && entry >> 32 == ns_recorder_generation() ? ns_recorder_at(number - 1) : NULL;
}

/* This thread's waits sample the connection from now on, and no other thread's. */
static void enlist(struct ns_observed *conn)
{
    static _Atomic uint32_t threads;
    uint64_t entry = (uint64_t)ns_recorder_generation() << 32 | (ns_recorder_number(conn) + 1);
    if (!mine.token)
        mine.token = atomic_fetch_add(&threads, 1) + 1;
    if (NS_GET(conn, owner) == mine.token)
        return;
    NS_PUT(conn, owner, mine.token);
    for (unsigned i = 0; i < MOST; i++) {
        uint64_t none = 0; /* exchanged: a signal handler may do the same */
        if (atomic_compare_exchange_strong(&mine.conns[i], &none, entry)) {
            atomic_fetch_add(&mine.n, 1);
            return;
        }
    }
    struct ns_observed *old = conn_of(atomic_exchange(&mine.conns[mine.turn++ % MOST], entry));
    if (old)
        NS_PUT(old, owner, 0);
}

/* Call stays for each connection of the list, and keep the first KEPT for which it is true. */
static void each(bool (*stays)(struct ns_observed *conn))
{
    unsigned kept = 0;
    for (unsigned i = 0; i < MOST && atomic_load(&mine.n) > kept; i++) {
        uint64_t entry = atomic_load(&mine.conns[i]);
        struct ns_observed *conn = conn_of(entry);
        bool owned = conn && NS_GET(conn, owner) == mine.token;
        if (!entry)
            continue;
        if (owned && stays(conn) && kept < KEPT) {
            kept++;
        } else if (atomic_compare_exchange_strong(&mine.conns[i], &entry, 0)) {
            atomic_fetch_sub(&mine.n, 1);
            if (owned)
                NS_PUT(conn, owner, 0);
        }
    }
}

/* --- samples --- */

/* A descriptor of the connection; -1: it is closed. */
static int fd_of(const struct ns_observed *conn)
{
    int fd = NS_GET(conn, fd);
    return ns_sample_cookie(fd) == NS_GET(conn, cookie) ? fd : -1;
}

static bool take(int fd, const struct ns_observed *conn, enum ns_look_kind kind,
                 struct ns_look *sample)
{
    return ns_sample_take(fd, NS_GET(conn, flags) & MORE, kind, sample);
}

static void put(struct ns_observed *conn, const struct ns_look *sample)
{
    ns_recorder_put(conn, sample);
    NS_PUT(conn, sampled_at, sample->at);
    NS_PUT(conn, mss, sample->mss);
}

/* Was it written to piece by piece, with nothing read in between, so that it is a stream and not a
 * request? Its samples are all alike and would leave no room for others in the record. So it is
 * sampled now and then, and less often as the record fills. */
static bool is_stream(const struct ns_observed *conn)
{
    return NS_GET(conn, unanswered) >= PIECES &&
           now() - NS_GET(conn, sampled_at) < (uint64_t)PIECE_NS << ns_recorder_sixteenths();
}

/* Nagle's algorithm does not hold a whole segment: sample it only now and then. */
static bool is_piece_of_stream(const struct ns_observed *conn, uint32_t unsent)
{
    uint32_t mss = NS_GET(conn, mss);
    return mss && unsent >= mss && now() - NS_GET(conn, sampled_at) < STREAM_NS;
}

/* --- waits --- */

/* Record the writes since the last wait. */
static void note_writes(const struct ns_observed *conn, struct ns_record_slot *slot)
{
    NS_PUT(slot, n_writes, NS_GET(conn, n_writes));
    for (int i = 0; i < NS_RECORD_SIZES; i++)
        NS_PUT(slot, sizes[i], NS_GET(conn, sizes[i]));
}

/* Before a wait. Returns whether the connection must be sampled again afterwards. */
static bool before(struct ns_observed *conn)
{
    uint8_t flags = NS_GET(conn, flags);
    if ((flags & (WAITING | WROTE)) == WAITING) /* the same wait continues: see is_same_wait */
        return true;
    if (!(flags & (WROTE | HELD | READ)))
        return false;
    int fd = flags & WROTE ? NS_GET(conn, fd) : fd_of(conn);
    struct ns_record_slot *slot = ns_recorder_slot(conn);
    if (fd < 0 || !slot)
        return false;
    bool stream = is_stream(conn);
    uint32_t unsent = stream || NS_GET(slot, nodelay) ? 0 : ns_sample_unsent(fd);
    bool held = unsent && !is_piece_of_stream(conn, unsent);
    struct ns_look sample;
    bool samples = (held || flags & READ) && take(fd, conn, NS_LOOK_WAIT, &sample);
    if (flags & WROTE) {
        note_writes(conn, slot);
        NS_PUT(conn, waited_at, now());
    }
    if (samples) {
        ns_experiment(fd, flags & READ, &sample);
        put(conn, &sample);
        if (!(flags & HELD))
            NS_PUT(conn, held_at, sample.at);
        NS_PUT(conn, unanswered, NS_GET(conn, unanswered) + 1);
        NS_PUT(conn, received, sample.received);
        NS_PUT(conn, wait_began, 0);
        NS_PUT(slot, last, sample.at);
    } else if (flags & WROTE) {
        uint64_t at = now();
        NS_PUT(conn, wait_began, stream || unsent ? 0 : at);
        NS_PUT(slot, last, at);
    }
    uint8_t stays = flags & (ASKED | MEASURED | MORE);
    if (samples)
        flags = stays | HELD | WAITING;
    else if (flags & (HELD | AWAITED)) /* they have left between two waits */
        flags = stays | AWAITED;
    else
        flags = stays;
    NS_PUT(conn, flags, flags);
    return samples;
}

/* Has data from the same peer by another connection ended the wait? In a conversation over two
 * connections it is the answer. */
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
static bool sample_after(int fd, struct ns_observed *conn)
{
    struct ns_look sample;
    uint8_t flags = NS_GET(conn, flags) & (uint8_t) ~(WAITING | HELD | AWAITED);
    if (!take(fd, conn, NS_LOOK_WOKE, &sample)) {
        NS_PUT(conn, flags, flags);
        return false;
    }
    bool arrived =
        sample.received > NS_GET(conn, received) || has_heard_elsewhere(ns_recorder_slot(conn));
    if (arrived)
        sample.flags |= NS_LOOK_ARRIVED;
    put(conn, &sample);
    if (sample.unsent)
        flags |= HELD;
    else if (!arrived)
        flags |= AWAITED;
    NS_PUT(conn, flags, flags);
    return sample.unsent != 0;
}

/* Has something else woken the thread soon after the last sample, with the bytes still unsent? Then
 * the next wait counts as the same one. A busy event loop would otherwise take a thousand samples
 * of one hold; so it takes them less often the longer the hold lasts. */
static bool is_same_wait(int fd, const struct ns_observed *conn)
{
    uint64_t last = NS_GET(conn, sampled_at);
    return NS_GET(conn, flags) & HELD &&
           now() - last < SAME_NS + (last - NS_GET(conn, held_at)) / 4 && ns_sample_unsent(fd);
}

/* After a wait. */
static bool after(struct ns_observed *conn)
{
    uint8_t flags = NS_GET(conn, flags);
    int fd = fd_of(conn);
    if (fd < 0)
        return false;
    if (!(flags & WAITING)) /* another thread has read the answer */
        return flags & HELD;
    return is_same_wait(fd, conn) || sample_after(fd, conn);
}

void ns_observe_wait(struct ns_observed *conn)
{
    /* Another thread may have written to what this one reads from, and have it on its list. */
    mine.other = conn && before(conn) ? conn : NULL;
    ns_descriptor_waits();
    each(before);
}

static void sample_after_wait(const struct ns_observed *conn)
{
    mine.heard = conn ? ns_recorder_slot(conn) : NULL;
    if (mine.other && after(mine.other))
        enlist(mine.other);
    if (atomic_load(&mine.n) <= FEW || mine.woke_at - mine.passed_at >= SAME_NS) {
        each(after);
        mine.passed_at = mine.woke_at;
    }
    mine.heard = NULL;
    mine.other = NULL;
}

void ns_observe_woke(const struct ns_observed *conn)
{
    mine.woke_at = now();
    if (mine.other || atomic_load(&mine.n))
        sample_after_wait(conn);
}

/* --- writes and reads --- */

void ns_observe_write(int fd, struct ns_observed *conn)
{
    struct ns_look sample;
    if (!(NS_GET(conn, flags) & (HELD | AWAITED)))
        return;
    if (NS_GET(conn, flags) & HELD && take(fd, conn, NS_LOOK_WRITE, &sample))
        put(conn, &sample);
    NS_PUT(conn, flags, NS_GET(conn, flags) & (uint8_t) ~(HELD | AWAITED));
}

/* The peer's next bytes came late, and the program had not answered its last ones: did Nagle's
 * algorithm on the peer's side wait for this end's delayed ACK? The timer that sends it fires on
 * the kernel's tick. So remember in which part of a tick the bytes came: bytes that such ACKs
 * release always come in the same part. */
static void note_late(struct ns_observed *conn, uint64_t at, uint64_t took)
{
    struct timespec tick = {0};
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    uint64_t length = tick.tv_nsec > 0 ? (uint64_t)tick.tv_nsec : 1;
    NS_PUT(conn, late_phase, (uint32_t)(at % length * NS_PHASES / length));
    NS_PUT(conn, late_ns, took);
}

/* Further data of the peer, that much later than the data before it. */
static void note_part(struct ns_observed *conn, struct ns_record_slot *slot, uint64_t at,
                      uint64_t took)
{
    if (took >= LATE_NS)
        note_late(conn, at, took);
    if (took < LONG_NS || NS_GET(slot, role) != NS_ROLE_CLIENT) /* a server waits for requests */
        return;
    NS_ADD(slot->parts, 1);
    NS_ADD(slot->parts_ns, took);
}

/* Sample each connection once for its round-trip time, without which a long wait could as well be
 * caused by the network. */
static void measure(int fd, struct ns_observed *conn)
{
    struct ns_look sample;
    uint8_t flags = NS_GET(conn, flags);
    if (flags & MEASURED)
        return;
    if (take(fd, conn, NS_LOOK_WOKE, &sample))
        put(conn, &sample);
    NS_PUT(conn, flags, flags | MEASURED);
}

/* Data that came late is answered now, so it counts: see ns_record_slot.phases. */
static void count_late(int fd, struct ns_observed *conn, struct ns_record_slot *slot)
{
    measure(fd, conn);
    NS_ADD(slot->phases[NS_GET(conn, late_phase) % NS_PHASES], 1);
    NS_ADD(slot->late_ns, NS_GET(conn, late_ns));
    NS_PUT(conn, late_ns, 0);
}

void ns_observe_wrote(int fd, struct ns_observed *conn, size_t size, int flags)
{
    struct ns_record_slot *slot = ns_recorder_slot(conn);
    if (!slot)
        return;
    if (NS_GET(conn, late_ns))
        count_late(fd, conn, slot);
    NS_ADD(slot->writes, 1);
    uint32_t n = NS_GET(conn, n_writes);
    /* A wait that was over at once was for room, and the request goes on. */
    if (NS_GET(conn, waited_at) && mine.woke_at - NS_GET(conn, waited_at) >= SAME_NS)
        n = 0;
    NS_PUT(conn, waited_at, 0);
    uint32_t place = n < NS_RECORD_SIZES ? n : NS_RECORD_SIZES - 1;
    if (place < n)
        NS_PUT(conn, sizes[place - 1], NS_GET(conn, sizes[place]));
    NS_PUT(conn, sizes[place], size < UINT32_MAX ? (uint32_t)size : UINT32_MAX);
    NS_PUT(conn, n_writes, n + 1);
    NS_PUT(conn, wait_began, 0);
    NS_PUT(conn, read_at, 0);
    int others = NS_GET(conn, flags) & ~(READ | MORE);
    NS_PUT(conn, flags, (uint8_t)(others | WROTE | ASKED | (flags & MSG_MORE ? MORE : 0)));
    enlist(conn);
}

static void count_wait(struct ns_record_slot *slot, uint64_t took)
{
    unsigned bucket = 0;
    for (uint64_t us = took / NS_PER_US; us > 1 && bucket < NS_WAIT_BUCKETS - 1; us /= 2)
        bucket++;
    NS_ADD(slot->buckets[bucket], 1);
    NS_ADD(slot->waited_ns, took);
    if (took < LONG_NS)
        return;
    NS_ADD(slot->slow, 1);
    NS_ADD(slot->slow_ns, took);
}

void ns_observe_read(int fd, struct ns_observed *conn)
{
    struct ns_record_slot *slot = ns_recorder_slot(conn);
    if (!slot)
        return;
    uint8_t flags = NS_GET(conn, flags);
    uint64_t began = NS_GET(conn, wait_began), before_it = NS_GET(conn, read_at);
    uint64_t at = mine.woke_at; /* data was there by then, if the thread has waited for it */
    if (at < began || at < before_it || !at)
        at = now();
    NS_ADD(slot->reads, 1);
    if (flags & ASKED)
        NS_ADD(slot->requests, 1);
    if (began && at - began >= LONG_NS)
        measure(fd, conn);
    if (began)
        count_wait(slot, at - began);
    else if (flags & WROTE) /* the answer was there before the thread waited */
        count_wait(slot, 0);
    else if (before_it)
        note_part(conn, slot, at, at - before_it);
    /* If a program delays its ACKs itself (TCP_QUICKACK 0), one is pending even without an answer.
     */
    bool delays = NS_GET(slot, role) != NS_ROLE_UNKNOWN && NS_GET(conn, delays);
    if (NS_GET(conn, late_ns) && delays)
        count_late(fd, conn, slot);
    NS_PUT(conn, wait_began, 0);
    NS_PUT(conn, unanswered, 0);
    NS_PUT(conn, n_writes, 0);
    NS_PUT(conn, read_at, at);
    NS_PUT(slot, last, at);
    if (flags & (WAITING | AWAITED))
        sample_after(fd, conn);
    flags = NS_GET(conn, flags) & (uint8_t)~ASKED;
    if (ns_recorder_experiment() == NS_EXPERIMENT_ACKNOWLEDGE) {
        flags |= READ;
        enlist(conn);
    }
    NS_PUT(conn, flags, flags);
}

void ns_observe_option(struct ns_observed *conn, int option, int value)
{
    struct ns_record_slot *slot = ns_recorder_slot(conn);
    if (option == TCP_QUICKACK) /* an even value begins the mode that delays ACKs (tcp(7)) */
        NS_PUT(conn, delays, value % 2 == 0);
    else if (slot)
        NS_PUT(slot, nodelay, value != 0);
}
