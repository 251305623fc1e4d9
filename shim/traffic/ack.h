/* SPDX-License-Identifier: MIT */
/* Whether a connection has to acknowledge what it has read: a pure decision table on a value of
 * four bytes.
 *
 * Linux delays an ACK for longer than the program takes to read only in its interactive mode
 * (icsk_ack.pingpong), which begins when the program writes after it has read. Before that a read
 * of everything that has arrived acknowledges it (tcp_cleanup_rbuf, net/ipv4/tcp.c). A connection
 * that carries one request and one answer therefore needs no ACK of the library, and neither does
 * one that is only read.
 *
 * An ACK before a wait is useful only if the peer waits for it. The library finds out in two ways:
 * if answers follow the ACKs and no data does, they were needless; if data follows them, one ACK is
 * skipped as a test, and the time until more data comes shows whether the peer had waited. */
#ifndef NS_ACK_H
#define NS_ACK_H

#include <stdbool.h>
#include <stdint.h>

struct ns_ack_state {
    uint32_t interactive : 1; /* the kernel delays its ACKs here */
    uint32_t heard : 1;       /* data was read since the last write */
    uint32_t pending : 1;     /* data was read and neither answered nor acknowledged */
    uint32_t sent : 1;        /* it was acknowledged, and nothing came or went since */
    uint32_t again : 1;       /* more data came after an ACK, without an answer in between */
    uint32_t pieces : 1;      /* the peer did wait for an ACK that was skipped: never skip again */
    uint32_t seen : 1;        /* a read has found no more data since */
    uint32_t answers : 1;     /* the library has seen a write to the socket */
    uint32_t testing : 1;     /* the pending ACK is skipped as a test */
    uint32_t needless : 5;    /* ACKs in a row that an answer followed, and no data */
    uint32_t helped : 5;      /* ACKs after which more data came; before the first write: reads */
    uint32_t epoch : 3;       /* the low bits of the reading thread's epoch */
    uint32_t at : 10;         /* the low bits of the tick of the read, or of the test's begin */
};
_Static_assert(sizeof(struct ns_ack_state) == sizeof(uint32_t), "loaded and stored as one word");

enum {
    NS_ACK_NEEDLESS = 31, /* after this many needless ACKs in a row, ACKs are skipped */
    NS_ACK_HELPED = 31,   /* after this many that seemed to help, one is skipped as a test */
    NS_ACK_ASKED = 16,    /* the kernel may be asked for its mode before this many reads */
    NS_ACK_TICK_MS = 4,
    /* Ticks. Data that waited for a delayed ACK comes after 8 ms (the library's limit) or about 40
     * ms (the kernel's). Later data waited for something else. */
    NS_ACK_LATE = 2,
    NS_ACK_LATEST = 15,
};

/* Ticks since data was read, or since the test began. */
static inline unsigned ns_ack_age(struct ns_ack_state state, unsigned tick)
{
    return (tick - state.at) & 0x3ff;
}

/* Data has come at tick, while an ACK was skipped. Had the peer waited for it? */
static inline bool ns_ack_was_missed(struct ns_ack_state state, unsigned tick)
{
    unsigned ticks = ns_ack_age(state, tick);
    return ticks >= NS_ACK_LATE && ticks <= NS_ACK_LATEST;
}

/* Are ACKs skipped, since they have proven needless? */
static inline bool ns_ack_is_skipped(struct ns_ack_state state)
{
    return state.needless >= NS_ACK_NEEDLESS;
}

/* Must an ACK be sent before the next wait? */
static inline bool ns_ack_is_pending(struct ns_ack_state state)
{
    return state.pending && !state.testing && !ns_ack_is_skipped(state);
}

/* How many times has the thread that read waited since? waits: counts its waits. */
static inline unsigned ns_ack_waits(struct ns_ack_state state, unsigned waits)
{
    return (waits - state.epoch) & 7;
}

/* May the connection be in interactive mode because of writes that the library cannot see? unseen:
 * such writes are known to happen here. Otherwise false at the first read, so that a connection
 * with one request and one answer costs no system call. */
static inline bool ns_ack_asks(struct ns_ack_state state, bool unseen)
{
    bool first = !state.answers && state.helped > 0 && state.helped < NS_ACK_ASKED;
    return !state.interactive && (unseen || first);
}

/* Data was read at tick (if interactive), by a thread whose waits are counted by epoch. */
static inline void ns_ack_read(struct ns_ack_state *state, unsigned epoch, unsigned tick)
{
    bool waited = (epoch & 7) != state->epoch;
    state->heard = 1;
    state->seen = 0;
    if (!state->interactive) {
        if (!state->answers && state->helped < NS_ACK_ASKED)
            state->helped++;
        return;
    }
    if (state->pending && (state->testing || ns_ack_is_skipped(*state))) {
        if (waited && ns_ack_age(*state, tick) >= NS_ACK_LATE) {
            state->pieces = ns_ack_was_missed(*state, tick);
            state->needless = 0; /* the peer may have waited and be far away */
        } else if (state->testing) {
            state->needless = NS_ACK_NEEDLESS; /* it came as soon as without a wait for an ACK */
        }
        state->helped = 0;
        state->testing = 0;
    } else if (state->sent) {
        state->again = 1;
        state->needless = 0;
        if (state->helped < NS_ACK_HELPED)
            state->helped++;
    } else if (state->pending && ns_ack_was_missed(*state, tick)) {
        state->needless = 0; /* the kernel's ACK, which the library hastens, may have helped */
    }
    state->pending = 1;
    state->sent = 0;
    state->epoch = epoch & 7;
    state->at = tick & 0x3ff;
}

/* Is there anything that ns_ack_wrote would change? */
static inline bool ns_ack_is_carried(struct ns_ack_state state)
{
    return state.heard || state.pending || state.sent || !state.answers;
}

/* The application writes; the segment carries the ACK. late: the kernel has sent one by then, which
 * it would not have without the library's limit. */
static inline void ns_ack_wrote(struct ns_ack_state *state, bool late)
{
    bool needless = state->sent || (state->pending && (late || ns_ack_is_skipped(*state)));
    if (needless && !state->pieces && state->needless < NS_ACK_NEEDLESS)
        state->needless++;
    if (state->heard)
        state->interactive = 1;
    if (!state->answers)
        state->helped = 0;
    state->answers = 1;
    state->heard = 0;
    state->pending = 0;
    state->sent = 0;
    state->again = 0;
    state->seen = 0;
    state->testing = 0;
}

/* Have enough ACKs seemed to help, so that one may be skipped as a test? */
static inline bool ns_ack_may_skip(struct ns_ack_state state)
{
    return !state.pieces && state.helped == NS_ACK_HELPED;
}

/* The pending ACK is skipped, at tick. */
static inline void ns_ack_skip(struct ns_ack_state *state, unsigned tick)
{
    state->testing = 1;
    state->at = tick & 0x3ff;
}

/* The pending ACK is sent. Returns whether it should end the kernel's interactive mode: the peer
 * sends continuously, and outside this mode the kernel acknowledges at once. */
static inline bool ns_ack_send(struct ns_ack_state *state)
{
    bool ends = state->again && state->answers;
    state->interactive = !ends;
    state->again = 0;
    state->pending = 0;
    state->sent = !ends;
    state->seen = 0;
    return ends;
}

/* --- reads with MSG_WAITALL: after a first part they wait inside the kernel, where only the kernel
 * can acknowledge that part. It does so at once after TCP_QUICKACK=1. This costs one or two
 * segments for each read, so it is done only if such reads were late. --- */

struct ns_whole {
    uint8_t step : 2;
    uint8_t tries : 2; /* late reads in a row, although the kernel acknowledges at once */
    uint8_t count : 4; /* reads in time since then */
};
_Static_assert(sizeof(struct ns_whole) == 1, "loaded and stored as one byte");

enum ns_whole_step {
    NS_WHOLE_UNKNOWN,
    NS_WHOLE_ON,     /* the kernel acknowledges at once; it is not known yet if this helps */
    NS_WHOLE_NEEDED, /* it does */
    NS_WHOLE_OFF,    /* it does not: the peer takes its time */
};

enum { NS_WHOLE_TRIES = 3, NS_WHOLE_COUNT = 15 };

/* Before such a read: should the kernel acknowledge at once? After NS_WHOLE_COUNT reads in time
 * this is skipped once, as a test. */
static inline bool ns_whole_begins(struct ns_whole whole)
{
    return whole.step == NS_WHOLE_NEEDED ||
           (whole.step == NS_WHOLE_ON && whole.count < NS_WHOLE_COUNT);
}

/* After such a read, which took this many ticks. */
static inline void ns_whole_ended(struct ns_whole *whole, unsigned ticks)
{
    bool late = ticks >= NS_ACK_LATE && ticks <= NS_ACK_LATEST;
    if (whole->step == NS_WHOLE_UNKNOWN && late) {
        *whole = (struct ns_whole){.step = NS_WHOLE_ON};
    } else if (whole->step == NS_WHOLE_ON) {
        if (whole->count == NS_WHOLE_COUNT)
            *whole = (struct ns_whole){.step = late ? NS_WHOLE_NEEDED : NS_WHOLE_UNKNOWN};
        else if (!late)
            whole->count++;
        else if (!whole->count && ++whole->tries == NS_WHOLE_TRIES)
            whole->step = NS_WHOLE_OFF;
    }
}

#endif
