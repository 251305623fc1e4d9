/* SPDX-License-Identifier: MIT */
/* When an ACK is pending on a connection: a pure decision table on a value of four bytes.
 *
 * Linux delays ACKs beyond the program's read only in interactive mode (icsk_ack.pingpong), which
 * begins when the program writes after it has read. Before that, a read of all data acknowledges it
 * (tcp_cleanup_rbuf, net/ipv4/tcp.c). So no ACK is ever pending on a connection that carries one
 * request and one answer, or that is only read. */
#ifndef NS_ACK_H
#define NS_ACK_H

#include <stdbool.h>
#include <stdint.h>

struct ns_ack_state {
    uint8_t interactive : 1; /* the kernel delays its ACKs here */
    uint8_t heard : 1;       /* data was read since the last write */
    uint8_t pending : 1;     /* it was neither answered nor acknowledged */
    uint8_t sent : 1;        /* an ACK was sent, and nothing was read or written since */
    uint8_t again : 1;       /* data was read after an ACK without an answer in between */
    uint8_t pieces : 1;      /* the peer had waited for an ACK that was skipped: skip no more */
    uint8_t seen : 1;        /* a read found nothing more */
    uint8_t answers : 1;     /* the program writes here, too */
    uint8_t needless;        /* ACKs in a row that were followed by an answer, not by data */
    uint8_t epoch;           /* low bits of the reading thread's epoch */
    uint8_t unused;
};
_Static_assert(sizeof(struct ns_ack_state) == sizeof(uint32_t), "loaded and stored as one word");

/* After so many needless ACKs in a row they are skipped: the answer comes from another thread or an
 * upstream server, and carries them. */
enum { NS_ACK_NEEDLESS = 32 };

static inline bool ns_ack_is_skipped(struct ns_ack_state state)
{
    return state.needless >= NS_ACK_NEEDLESS;
}

/* Must an ACK be sent before the next wait? */
static inline bool ns_ack_is_pending(struct ns_ack_state state)
{
    return state.pending && !ns_ack_is_skipped(state);
}

/* Data was read. epoch: low bits of the thread's epoch, which changes with each of its waits. */
static inline void ns_ack_read(struct ns_ack_state *state, uint8_t epoch)
{
    state->heard = 1;
    state->seen = 0;
    if (!state->interactive)
        return;
    if (state->pending && ns_ack_is_skipped(*state) && epoch != state->epoch) {
        state->pieces = 1; /* the thread has waited for this data without an ACK */
        state->needless = 0;
    } else if (state->sent) {
        state->again = 1;
        state->needless = 0;
    }
    state->pending = 1;
    state->sent = 0;
    state->epoch = epoch;
}

/* The application writes; the segment carries the ACK. */
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

/* The pending ACK is sent. Returns whether interactive mode should end with it, because the peer
 * keeps sending and this end only reads: then the kernel acknowledges by itself. */
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
