/* SPDX-License-Identifier: MIT */
/* Whether a connection has to acknowledge what it has read: a pure decision table on a value of
 * eight bytes.
 *
 * Linux delays an ACK for longer than the program takes to read only in its interactive mode
 * (icsk_ack.pingpong), which begins when the program writes after it has read. Before that a read
 * of everything that has arrived acknowledges it in most cases (tcp_cleanup_rbuf, net/ipv4/tcp.c).
 *
 * An ACK before a wait is useful only if the peer waits for it, and only an ACK that is skipped
 * shows this: data is late then, which means that it comes when a delayed ACK would have released
 * it. A connection sends its first ACKs, skips some on trial, and then skips them all. Late data
 * makes it send ACKs for a term, which ends with another trial. Data that is late as often although
 * ACKs are sent is late by chance: each time this happens, more late data is needed for the next
 * term. An ACK costs one small segment, a stall 40 ms. */
#ifndef NS_ACK_H
#define NS_ACK_H

#include "conn/conn.h"

struct ns_ack_state {
    uint64_t interactive : 1; /* the kernel delays its ACKs here */
    uint64_t data : 2;        /* enum ns_ack_data */
    uint64_t here : 6;        /* what was read since the last wait, in 128 bytes; 0: never any */
    uint64_t skips : 1;       /* ACKs are skipped */
    uint64_t term : 3;        /* trials in a row in which ACKs were missed, at most NS_ACK_TERMS */
    uint64_t epoch : 14;      /* the low bits of the reading thread's waits (ns_thread) */
    uint64_t spent : 10;      /* since the last decision: first, in 1/16 of an ACK; in a term, in
                                 8^(term - 1) ACKs; while they are skipped, reads */
    uint64_t late : 6;        /* late reads among them */
    uint64_t doubt : 3;       /* (2 << doubt) - 1 late reads are needed for the next term */
    uint64_t every : 3;       /* one read in 1 << every was late, before this term */
    uint64_t at : 15;         /* the low bits of the time of the last read, in 64 us */
};

/* What has become of the data that was read. */
enum ns_ack_data {
    NS_ACK_ANSWERED,      /* the program has answered it, or there was none */
    NS_ACK_SENT,          /* it was acknowledged, and nothing came or went since */
    NS_ACK_UNANSWERED,    /* neither */
    NS_ACK_UNANSWERED_ALL /* neither, and a read has found no more data since */
};

_Static_assert(sizeof(struct ns_ack_state) == sizeof(uint64_t), "loaded and stored as one word");
NS_CONN_WORD(ns_ack_state, ns_conn_ack, ack_state)

enum {
    NS_ACK_FIRST = 12, /* ACKs that are sent at first; 16 reads with an answer count as one */
    NS_ACK_PART = 16,
    NS_ACK_TERM = 1000, /* after some were missed; 8 times as many after each trial that confirms */
    NS_ACK_TERMS = 4,
    NS_ACK_TRIAL = 4, /* reads for which they are skipped while the library limits the delay */
    NS_ACK_DOUBT = 5,
    /* Microseconds. Data within NS_ACK_THERE was there already, and proves nothing. The kernel's
     * delay is at least as long as the next two, with the library's limit and without it, and by
     * some timer ticks longer. Without the limit it may take a round trip, too
     * (__tcp_send_delayed_ack, net/ipv4/tcp_output.c). */
    NS_ACK_THERE = 1000,
    NS_ACK_COARSE = 5000, /* the error of the clock that is used where the delay is not limited */
    NS_ACK_LIMITED = 8000,
    NS_ACK_DELAY = 40000,
    NS_ACK_TICKS = 12000,
};

/* Microseconds since the last read, modulo 2 s. us: the time. */
static inline unsigned ns_ack_age(struct ns_ack_state state, uint32_t us)
{
    return (((us >> 6) - (unsigned)state.at) & 0x7fff) << 6;
}

/* Data has come us microseconds after the last read. Is it as late as if the peer had waited for a
 * delayed ACK? Such data takes the delay, and so many round trips (trips) of rtt microseconds.
 * limited: the library has limited the delay, perhaps when an ACK was already due after the
 * kernel's longer one. clump: several times as much has come as before. Then it waited, perhaps for
 * less than the delay, as Linux sends what it holds after 17 writes that it could not join. */
static inline bool ns_ack_is_late(unsigned rtt, unsigned us, unsigned trips, bool limited,
                                  bool clump)
{
    unsigned delay = limited ? NS_ACK_LIMITED : NS_ACK_DELAY;
    unsigned longest = !limited && rtt > delay ? rtt : delay;
    unsigned least = clump || limited ? NS_ACK_LIMITED - NS_ACK_THERE : delay - NS_ACK_COARSE;
    return us >= trips * rtt + least && (us <= trips * rtt + rtt / 2 + longest + NS_ACK_TICKS ||
                                         (limited && ns_ack_is_late(rtt, us, trips, false, false)));
}

/* The size of data in the unit of ns_ack_state.here. */
static inline unsigned ns_ack_amount(size_t size)
{
    return size / 128 < 62 ? (unsigned)(size / 128) + 1 : 63;
}

/* Did it do no harm to skip ACKs, so that the kernel's own delay may apply again? */
static inline bool ns_ack_is_free(struct ns_ack_state state)
{
    return state.skips && state.spent >= NS_ACK_TRIAL;
}

/* Was data read and neither answered nor acknowledged? */
static inline bool ns_ack_is_unanswered(struct ns_ack_state state)
{
    return state.data >= NS_ACK_UNANSWERED;
}

/* Must an ACK be sent before the next wait? */
static inline bool ns_ack_is_pending(struct ns_ack_state state)
{
    return ns_ack_is_unanswered(state) && !state.skips;
}

/* How many times has the thread that read waited since? waits: counts its waits. For another
 * thread's waits the result is any number, and 0 only by chance. */
static inline unsigned ns_ack_waits(struct ns_ack_state state, unsigned waits)
{
    return (waits - (unsigned)state.epoch) & 0x3fff;
}

/* Is there anything that ns_ack_wrote would change? */
static inline bool ns_ack_is_carried(struct ns_ack_state state)
{
    return state.data != NS_ACK_ANSWERED || (state.here && !state.interactive);
}

static inline void ns_ack_decide(struct ns_ack_state *state, bool skips, unsigned spent)
{
    state->skips = skips;
    state->spent = spent & 0x3ff;
    state->late = 0;
}

/* The part of a term's ACKs that is counted: one in 1 << the result. */
static inline unsigned ns_ack_scale(struct ns_ack_state state)
{
    return state.skips || !state.term ? 0 : (state.term - 1u) * 3;
}

/* acks: of an ACK, or of a read while they are skipped; otherwise of a read that was answered.
 * chance: any number, which decides whether an ACK of a long term is counted. */
static inline void ns_ack_spend(struct ns_ack_state *state, bool acks, unsigned chance)
{
    bool first = !state->skips && !state->term;
    unsigned each = first && acks ? NS_ACK_PART : first || acks;
    if (chance * 2654435769u & ((1u << ns_ack_scale(*state)) - 1u) << 20)
        return;
    unsigned spent = state->spent + each;
    state->spent = (spent < 0x3ff ? spent : 0x3ff) & 0x3ff;
}

/* A read was late after an ACK that was skipped. Is it time to send them? */
static inline void ns_ack_missed(struct ns_ack_state *state)
{
    unsigned spent = state->spent, late = state->late, each = spent / late;
    bool trial = spent <= NS_ACK_TRIAL;
    if (trial || late >= (2u << state->doubt) - 1) {
        if (!trial || state->term < NS_ACK_TERMS)
            state->term = (trial ? state->term + 1u : 1) & 7;
        for (state->every = 0; each > 1 && state->every < 7; each /= 2)
            state->every++;
        ns_ack_decide(state, false, 0);
    }
}

/* A read was late although ACKs are sent. Is it chance, since this is about as often as without
 * them? */
static inline void ns_ack_chanced(struct ns_ack_state *state)
{
    unsigned scale = ns_ack_scale(*state), spent = state->spent;
    spent = state->term ? (spent + (scale > 0)) << scale : spent / NS_ACK_PART;
    unsigned times = state->doubt < 2 ? 8 : 2; /* few late reads say little about how often */
    if (state->late < 2 || spent > times * state->late << state->every)
        return;
    if (state->doubt < NS_ACK_DOUBT)
        state->doubt++;
    ns_ack_decide(state, true, NS_ACK_TRIAL);
}

/* Data has come after an ACK was sent or skipped, or a read of a whole answer has ended. */
static inline void ns_ack_judge(struct ns_ack_state *state, bool late)
{
    if (state->skips)
        ns_ack_spend(state, true, 0);
    if (!late)
        return;
    if (state->late < 0x3f)
        state->late++;
    if (state->skips)
        ns_ack_missed(state);
    else
        ns_ack_chanced(state);
}

/* If the term has ended, the trial begins. */
static inline void ns_ack_try(struct ns_ack_state *state)
{
    if (state->skips || state->spent < (state->term ? NS_ACK_TERM : NS_ACK_FIRST * NS_ACK_PART))
        return;
    if (state->term && state->doubt)
        state->doubt--;
    ns_ack_decide(state, true, 0);
}

/* Does data that is read now show whether an ACK was of use? Not if skipping was taken over from
 * another connection after it was sent. */
static inline bool ns_ack_shows(struct ns_ack_state state, unsigned epoch)
{
    return state.skips ? ns_ack_is_unanswered(state) && ns_ack_waits(state, epoch)
                       : state.data == NS_ACK_SENT;
}

/* size bytes were read at the time us, by a thread whose waits are counted by epoch. */
static inline void ns_ack_note(struct ns_ack_state *state, unsigned epoch, uint32_t us, size_t size)
{
    unsigned here = ns_ack_amount(size) + (ns_ack_waits(*state, epoch) ? 0 : state->here);
    state->here = (here < 63 ? here : 63) & 63;
    state->epoch = epoch & 0x3fff;
    state->at = us >> 6 & 0x7fff;
}

/* The same, and the kernel may delay its ACK. late: it shows that an ACK was of use, or chance; see
 * ns_ack_is_late. */
static inline void ns_ack_read(struct ns_ack_state *state, unsigned epoch, uint32_t us,
                               bool limited, bool late, size_t size)
{
    if (ns_ack_shows(*state, epoch)) {
        unsigned age = ns_ack_age(*state, us);
        bool sent = state->data == NS_ACK_SENT;
        if (sent || age >= NS_ACK_THERE)
            ns_ack_judge(state, late);
        /* After an ACK of the kernel's own the mode has ended (tcp_delack_timer_handler). */
        state->interactive = sent || age < (limited ? NS_ACK_LIMITED : NS_ACK_DELAY);
        ns_ack_try(state);
    }
    state->data = NS_ACK_ANSWERED;
    if (state->interactive)
        state->data = NS_ACK_UNANSWERED;
    ns_ack_note(state, epoch, us, size);
}

/* The application writes; the segment carries the ACK. late: the kernel has sent one by then, which
 * it would not have without the library's limit. */
static inline void ns_ack_wrote(struct ns_ack_state *state, bool late)
{
    if (ns_ack_is_unanswered(*state))
        ns_ack_spend(state, state->skips || late, 0);
    ns_ack_try(state);
    if (state->here)
        state->interactive = 1;
    state->data = NS_ACK_ANSWERED;
}

/* The pending ACK is sent. */
static inline void ns_ack_send(struct ns_ack_state *state, unsigned chance)
{
    state->data = NS_ACK_SENT;
    ns_ack_spend(state, true, chance);
}

/* A read that may wait inside the kernel after a first part of the data, where only the kernel can
 * acknowledge it, begins. Must the kernel be asked to acknowledge at once from now on? */
static inline bool ns_ack_begin_whole(struct ns_ack_state *state, unsigned chance)
{
    state->data = NS_ACK_ANSWERED;
    ns_ack_try(state);
    if (state->skips)
        return false;
    ns_ack_spend(state, true, chance); /* twice: the data may come in several parts */
    ns_ack_spend(state, true, chance + 1);
    state->interactive = 0;
    return true;
}

#endif
