/* SPDX-License-Identifier: MIT */
/* Samples of an imagined connection for the judge's unit tests: a program writes 281 bytes, then
 * 480 that are held, and waits, on a kernel with 250 ticks a second. */
#pragma once

#include "../probes/system.h"
#include "judge/judge.h"

#include <netinet/tcp.h>

enum { US = 1000, MS = 1000000, TICK = 4 * MS };
enum { HEAD = 281, TAIL = 480, ANSWER = 100 };

/* A judge, the connection now, and the last hold that ended. */
struct talk {
    struct ns_judge judge;
    struct ns_look now;
    uint64_t sent_at, received_at, acked_at;
    struct ns_hold hold;
    int holds;
};

static inline void talk_begin(struct talk *talk)
{
    *talk = (struct talk){.now = {.at = 1000000000,
                                  .acked = 1,
                                  .mss = 1448,
                                  .cwnd = 10,
                                  .window = 65536,
                                  .min_rtt_us = 60,
                                  .pacing = UINT64_MAX,
                                  .state = TCP_ESTABLISHED,
                                  .flags = NS_LOOK_KNOWS_WINDOW}};
    ns_judge_begin(&talk->judge, TICK);
}

static inline void talk_pass(struct talk *talk, uint64_t ns)
{
    talk->now.at += ns;
}

/* Bytes are sent in one segment. */
static inline void talk_send(struct talk *talk, uint32_t bytes)
{
    talk->now.sent += bytes;
    talk->now.unacked++;
    talk->now.sent_segments++;
    talk->now.data_segments++;
    talk->sent_at = talk->now.at;
}

/* The peer's ACK of everything that was sent. */
static inline void talk_ack(struct talk *talk)
{
    talk->now.acked = talk->now.sent + 1;
    talk->now.unacked = 0;
    talk->acked_at = talk->now.at;
}

/* The held bytes are sent. */
static inline void talk_release(struct talk *talk)
{
    uint32_t bytes = talk->now.unsent;
    talk->now.unsent = 0;
    talk_send(talk, bytes);
}

static inline void talk_receive(struct talk *talk, uint32_t bytes)
{
    talk->now.received += bytes;
    talk->received_at = talk->now.at;
}

/* The kernel counts these in ticks. */
static inline uint32_t ticks_ms(uint64_t now, uint64_t then)
{
    return (uint32_t)((now / TICK - then / TICK) * TICK / MS);
}

static inline bool talk_look(struct talk *talk, enum ns_look_kind kind, unsigned flags)
{
    struct ns_look look = talk->now;
    struct ns_hold hold;
    look.kind = (uint8_t)kind;
    look.flags |= (uint16_t)flags;
    look.since_sent_ms = ticks_ms(look.at, talk->sent_at);
    look.since_received_ms = ticks_ms(look.at, talk->received_at);
    look.since_ack_ms = ticks_ms(look.at, talk->acked_at);
    bool ended = ns_judge_look(&talk->judge, &look, &hold);
    if (ended) {
        talk->hold = hold;
        talk->holds++;
    }
    return ended;
}

/* Two writes: the second is held. */
static inline void talk_write_twice(struct talk *talk)
{
    talk_send(talk, HEAD);
    talk->now.unsent = TAIL;
}

/* The peer's ACK releases the held bytes; its answer acknowledges them. */
static inline void talk_let_go(struct talk *talk)
{
    talk_ack(talk);
    talk_release(talk);
}

static inline void talk_answer(struct talk *talk)
{
    talk_ack(talk);
    talk_receive(talk, ANSWER);
}

static inline struct ns_verdict talk_verdict(const struct talk *talk)
{
    struct ns_verdict verdict;
    ns_judge_verdict(&talk->judge, &verdict);
    return verdict;
}
