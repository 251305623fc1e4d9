/* SPDX-License-Identifier: MIT */
/* When a connection owes its peer an ACK: a pure decision table on a value of four bytes.
 *
 * Linux delays an ACK for longer than it takes the program to read only in its interactive mode
 * (icsk_ack.pingpong), which begins when the program writes after it has read. Before that whoever
 * reads all that is there acknowledges it (tcp_cleanup_rbuf, net/ipv4/tcp.c). So a connection that
 * carries one request and one answer owes nothing, and neither does one that only ever reads. */
#ifndef NS_ACK_H
#define NS_ACK_H

#include <stdbool.h>
#include <stdint.h>

struct ns_ack_state {
    uint8_t interactive : 1; /* the kernel delays its ACKs here */
    uint8_t heard : 1;       /* data was read since the last write */
    uint8_t pending : 1;     /* and neither answered nor acknowledged */
    uint8_t sent : 1;        /* it was acknowledged, and nothing came or went since */
    uint8_t again : 1;       /* more came after an ACK, without an answer in between */
    uint8_t pieces : 1;      /* an ACK was left out, and the peer had waited for it: never again */
    uint8_t seen : 1;        /* nothing more was found since it was read */
    uint8_t answers : 1;     /* this descriptor writes, too, and not another one of the socket */
    uint8_t needless;        /* ACKs in a row after which an answer went and nothing came */
    uint8_t epoch;           /* of the thread that read, its low bits */
    uint8_t unused;
};
_Static_assert(sizeof(struct ns_ack_state) == sizeof(uint32_t), "loaded and stored as one word");

/* After so many needless ACKs in a row they are left out: the answer comes from elsewhere (another
 * thread, an upstream server) and carries them. */
enum { NS_ACK_NEEDLESS = 32 };

static inline bool ns_ack_is_skipped(struct ns_ack_state state)
{
    return state.needless >= NS_ACK_NEEDLESS;
}

/* Is one to be sent before the next wait? */
static inline bool ns_ack_is_pending(struct ns_ack_state state)
{
    return state.pending && !ns_ack_is_skipped(state);
}

/* Data was read, by a thread whose waits are counted by epoch. */
static inline void ns_ack_read(struct ns_ack_state *state, uint8_t epoch)
{
    state->heard = 1;
    state->seen = 0;
    if (!state->interactive)
        return;
    if (state->pending && ns_ack_is_skipped(*state) && epoch != state->epoch) {
        state->pieces = 1; /* the thread has waited for this, and nobody had acknowledged */
        state->needless = 0;
    } else if (state->sent) {
        state->again = 1;
        state->needless = 0;
    }
    state->pending = 1;
    state->sent = 0;
    state->epoch = epoch;
}

/* The application writes, and what it writes carries the ACK. */
static inline void ns_ack_wrote(struct ns_ack_state *state)
{
    bool needless = state->sent || (state->pending && ns_ack_is_skipped(*state));
    if (needless && !state->pieces && state->needless < NS_ACK_NEEDLESS)
        state->needless++;
    if (state->heard)
        state->interactive = 1;
    state->answers = 1;
    state->heard = 0;
    state->pending = 0;
    state->sent = 0;
    state->again = 0;
    state->seen = 0;
}

/* A wait sends the ACK that is owed. Returns whether the interactive mode is to end with it,
 * because the peer sends on and on and this end only reads: then the kernel acknowledges by itself.
 */
static inline bool ns_ack_sent(struct ns_ack_state *state)
{
    bool ends = state->again && state->answers;
    state->interactive = !ends;
    state->again = 0;
    state->pending = 0;
    state->sent = !ends;
    state->seen = 0;
    return ends;
}

#endif
