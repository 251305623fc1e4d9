/* SPDX-License-Identifier: MIT */
/* Whether a connection has to acknowledge what it has read: a pure decision table on a value of
 * eight bytes.
 *
 * Linux delays an ACK for longer than the program takes to read only in its interactive mode
 * (icsk_ack.pingpong), which begins when the program writes after it has read. Before that a read
 * of everything that has arrived acknowledges it (tcp_cleanup_rbuf, net/ipv4/tcp.c). A connection
 * that carries one request and one answer therefore needs no ACK of the library, and neither does
 * one that is only read.
 *
 * An ACK before a wait is useful only if the peer waits for it, and only an ACK that is skipped
 * shows this: data that waited for the kernel's delayed ACK comes a round trip after that ACK. So a
 * connection sends NS_ACK_FIRST ACKs and then skips them, until one was missed. Then it sends them
 * until NS_ACK_HELPED in a row have not helped. An ACK costs one small segment, a stall 40 ms. */
#ifndef NS_ACK_H
#define NS_ACK_H

#include <stdbool.h>
#include <stdint.h>

struct ns_ack_state {
    uint64_t interactive : 1; /* the kernel delays its ACKs here */
    uint64_t heard : 1;       /* data was read since the last write */
    uint64_t pending : 1;     /* data was read and neither answered nor acknowledged */
    uint64_t sent : 1;        /* it was acknowledged, and nothing came or went since */
    uint64_t again : 1;       /* more data came after an ACK, without an answer in between */
    uint64_t seen : 1;        /* a read has found no more data since */
    uint64_t answers : 1;     /* the library has seen a write to the socket */
    uint64_t skips : 1;       /* ACKs are skipped */
    uint64_t helps : 1;       /* since one that was skipped was missed */
    uint64_t epoch : 3;       /* the low bits of the reading thread's epoch */
    uint64_t spent : 10;      /* see ns_ack_spend */
    uint64_t sure : 5;        /* how sure it is that the peer does not wait for ACKs */
    uint64_t rtt : 9;         /* 1 + the shortest round trip in ms, at most 511; 0: not known */
    uint64_t lag : 8;         /* how much later data comes after an ACK, on average, in 256 us */
    uint64_t at : 20;         /* the low bits of the time of the last read, in 2 us */
};
_Static_assert(sizeof(struct ns_ack_state) == sizeof(uint64_t), "loaded and stored as one word");

enum {
    NS_ACK_FIRST = 28,    /* ACKs that are sent at first */
    NS_ACK_HELPED = 1000, /* ACKs that are sent after one has helped */
    NS_ACK_TRIAL = 1,     /* ACKs that are skipped while the library still limits the delay */
    NS_ACK_SURE = 31,     /* the most that ns_ack_state.sure can be */
    NS_ACK_DOUBT = 6,     /* and how much an ACK takes from it that seems to be missed */
    /* Microseconds. The kernel's delay is at least this long, with the library's limit and without
     * it, and by some timer ticks longer. Without the limit it may take a round trip, too
     * (__tcp_send_delayed_ack, net/ipv4/tcp_output.c). */
    NS_ACK_LIMITED = 8000,
    NS_ACK_DELAY = 40000,
    NS_ACK_TICKS = 8000,
};

/* Microseconds since the last read, modulo 2 s. us: the time. */
static inline unsigned ns_ack_age(struct ns_ack_state state, uint32_t us)
{
    return (((us >> 1) - (unsigned)state.at) & 0xfffff) << 1;
}

static inline unsigned ns_ack_rtt(struct ns_ack_state state)
{
    return state.rtt ? ((unsigned)state.rtt - 1) * 1000 : 0;
}

static inline void ns_ack_set_rtt(struct ns_ack_state *state, unsigned us)
{
    state->rtt = (us < 510000 ? us / 1000 + 1 : 511) & 511;
}

/* Does the next ns_ack_read need the round trip? */
static inline bool ns_ack_asks_rtt(struct ns_ack_state state)
{
    return !state.rtt && (state.sent || state.pending);
}

/* Would data that waited for a delayed ACK come now, and would it usually have come sooner after an
 * ACK? limited: the library has limited the delay. */
static inline bool ns_ack_was_missed(struct ns_ack_state state, uint32_t us, bool limited)
{
    unsigned rtt = ns_ack_rtt(state), age = ns_ack_age(state, us);
    unsigned delay = limited ? NS_ACK_LIMITED : NS_ACK_DELAY;
    unsigned longest = !limited && rtt > delay ? rtt : delay;
    return age + 1000 >= rtt + delay && age >= rtt + state.lag * 256u + delay / 2 &&
           age <= rtt + rtt / 2 + longest + NS_ACK_TICKS;
}

/* Did it do no harm to skip ACKs, so that the kernel's own delay may apply again? */
static inline bool ns_ack_is_free(struct ns_ack_state state)
{
    return state.skips && state.spent == NS_ACK_TRIAL;
}

/* Must an ACK be sent before the next wait? */
static inline bool ns_ack_is_pending(struct ns_ack_state state)
{
    return state.pending && !state.skips;
}

/* How many times has the thread that read waited since? waits: counts its waits. */
static inline unsigned ns_ack_waits(struct ns_ack_state state, unsigned waits)
{
    return (waits - (unsigned)state.epoch) & 7;
}

/* Is there anything that ns_ack_wrote would change? */
static inline bool ns_ack_is_carried(struct ns_ack_state state)
{
    return state.heard || state.pending || state.sent || !state.answers;
}

static inline void ns_ack_decide(struct ns_ack_state *state, bool skips, bool helps, unsigned spent)
{
    state->skips = skips;
    state->helps = helps;
    state->spent = spent & 0x3ff;
}

/* How many ACKs are sent until they are skipped; or, while they are, until the trial ends. */
static inline unsigned ns_ack_all(struct ns_ack_state state)
{
    return state.skips ? NS_ACK_TRIAL : state.helps ? NS_ACK_HELPED : NS_ACK_FIRST;
}

/* One more ACK that may be needless; or, while they are skipped, one that was not missed. */
static inline void ns_ack_spend(struct ns_ack_state *state)
{
    if (state->spent < ns_ack_all(*state))
        state->spent++;
}

/* How often data came that had waited for an ACK, against data that had not. */
static inline void ns_ack_weigh(struct ns_ack_state *state, int change)
{
    int sure = (int)state->sure + change;
    state->sure = (unsigned)(sure < 0 ? 0 : sure < NS_ACK_SURE ? sure : NS_ACK_SURE) & 31;
}

/* Data has come after an ACK was sent. If it had waited for the ACK, a round trip later. */
static inline void ns_ack_judge_sent(struct ns_ack_state *state, unsigned age, bool limited)
{
    unsigned rtt = ns_ack_rtt(*state), late = age > rtt ? age - rtt : 0;
    if (late < 1 << 16) /* otherwise ns_ack_was_missed cannot mistake it */
        state->lag = (unsigned)(state->lag + ((int)(late >> 8) - state->lag) / 8) & 0xff;
    bool helped = age >= rtt - rtt / 4 && late <= rtt / 4 + NS_ACK_TICKS / 2;
    ns_ack_weigh(state, helped ? -1 : 3);
    if (helped && (state->helps || !limited)) /* a trial without the limit would cost 40 ms */
        state->spent = 0;
}

/* Data has come after an ACK was skipped. A clock that stands still (age 0) proves nothing. */
static inline void ns_ack_judge_skipped(struct ns_ack_state *state, unsigned age, bool missed)
{
    if (!age || (missed && state->sure < NS_ACK_DOUBT)) {
        ns_ack_decide(state, false, true, 0);
        state->sure = 0;
    } else {
        ns_ack_weigh(state, missed ? -NS_ACK_DOUBT : 1);
        ns_ack_spend(state);
    }
}

/* Data was read at the time us, by a thread whose waits are counted by epoch. */
static inline void ns_ack_read(struct ns_ack_state *state, unsigned epoch, uint32_t us,
                               bool limited)
{
    unsigned age = ns_ack_age(*state, us);
    bool missed = ns_ack_was_missed(*state, us, limited);
    state->heard = 1;
    state->seen = 0;
    if (state->sent) {
        ns_ack_judge_sent(state, age, limited);
        state->again = 1;
        if (!state->interactive && !state->skips) /* after ns_ack_send the kernel acknowledges */
            ns_ack_spend(state);
    } else if (state->pending && state->skips && (epoch & 7) != state->epoch) {
        ns_ack_judge_skipped(state, age, missed);
        /* The kernel has sent the ACK, which ends the mode (tcp_delack_timer_handler). */
        state->interactive = age < (limited ? NS_ACK_LIMITED : NS_ACK_DELAY);
    } else if (state->pending && missed) {
        state->spent = 0; /* the kernel's ACK, which the library hastens, may have helped */
    }
    state->sent = state->sent && !state->interactive;
    state->pending = state->interactive;
    state->epoch = epoch & 7;
    state->at = us >> 1 & 0xfffff;
}

/* Nothing was read since the last write, or all of it is acknowledged. */
static inline void ns_ack_clear(struct ns_ack_state *state)
{
    state->heard = 0;
    state->pending = 0;
    state->sent = 0;
    state->again = 0;
    state->seen = 0;
}

/* The application writes; the segment carries the ACK. late: the kernel has sent one by then, which
 * it would not have without the library's limit. */
static inline void ns_ack_wrote(struct ns_ack_state *state, bool late)
{
    if (state->answers && state->pending && (state->skips || late))
        ns_ack_spend(state);
    if (!state->skips && state->spent == ns_ack_all(*state))
        ns_ack_decide(state, true, false, 0);
    state->interactive |= state->heard;
    state->answers = 1;
    ns_ack_clear(state);
}

/* The pending ACK is sent. Returns whether it should end the kernel's interactive mode: the peer
 * sends continuously, and outside this mode the kernel acknowledges at once. */
static inline bool ns_ack_send(struct ns_ack_state *state)
{
    bool ends = state->again && state->answers;
    state->interactive = !ends;
    state->pending = 0;
    state->sent = 1;
    state->seen = 0;
    ns_ack_spend(state);
    return ends;
}

/* What connections to one peer have learned, for the next one: how many ACKs they have spent, or
 * one of these numbers, or how many they have spent since one has helped. */
enum { NS_ACK_NEEDLESS = NS_ACK_FIRST, NS_ACK_HELPS };

/* known was learned before. A connection's state has changed from before to after. */
static inline unsigned ns_ack_learn(unsigned known, struct ns_ack_state before,
                                    struct ns_ack_state after)
{
    if (after.helps && (!before.helps || after.spent < before.spent))
        return NS_ACK_HELPS;
    if (before.skips == after.skips && before.spent >= after.spent)
        return known;
    if (known >= NS_ACK_HELPS)
        return known + 1 < NS_ACK_HELPS + NS_ACK_HELPED ? known + 1 : NS_ACK_NEEDLESS;
    return after.skips ? NS_ACK_NEEDLESS : after.spent & 31;
}

/* Begin with what is known. ACKs that others have found needless are skipped on trial. */
static inline void ns_ack_begin(struct ns_ack_state *state, unsigned known)
{
    bool skips = known == NS_ACK_NEEDLESS, helps = known >= NS_ACK_HELPS;
    ns_ack_decide(state, skips, helps, skips ? 0 : helps ? known - NS_ACK_HELPS : known);
}

#endif
