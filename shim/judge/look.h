/* SPDX-License-Identifier: MIT */
/* A sample of a TCP socket: taken from outside by sock_diag(7), or from inside by TCP_INFO. The
 * fields are those of struct tcp_info (linux/tcp.h) unless noted. Its layout is fixed, since an
 * observed process leaves samples in a file. */
#ifndef NS_LOOK_H
#define NS_LOOK_H

#include <stddef.h>
#include <stdint.h>

enum ns_look_kind {
    NS_LOOK_SAMPLE, /* from outside, at regular times */
    /* from inside: */
    NS_LOOK_WAIT,  /* the program is about to wait and has written here since its last wait */
    NS_LOOK_WOKE,  /* that wait is over */
    NS_LOOK_WRITE, /* it is about to write again, and its last write was held when it woke */
};

/* Lengths of waits are counted from 2^n to 2^(n+1) microseconds, shorter ones in the first;
 * arrivals are counted in parts of a tick. */
enum { NS_WAIT_BUCKETS = 32, NS_PHASES = 16 };

/* What is tried before waits that are chosen by chance. */
enum ns_experiment {
    NS_EXPERIMENT_NONE,
    NS_EXPERIMENT_PUSH,        /* send held bytes: TCP_NODELAY set to 1, then to 0 */
    NS_EXPERIMENT_ACKNOWLEDGE, /* acknowledge data that was read: TCP_QUICKACK */
};

/* flags */
enum {
    NS_LOOK_KNOWS_WINDOW = 1, /* the kernel has tcpi_snd_wnd (Linux 5.4) */
    /* from inside: */
    NS_LOOK_NODELAY = 2, /* TCP_NODELAY is on */
    NS_LOOK_CORK = 4,    /* TCP_CORK is on, or the last write had MSG_MORE */
    NS_LOOK_ARRIVED = 8, /* WOKE: the awaited data had arrived, here or on another connection of the
                          * same peer */
    NS_LOOK_PUSHED = 16, /* WAIT: the experiment pushed here */
    NS_LOOK_ACKNOWLEDGED = 32, /* WAIT: the experiment acknowledged here */
    NS_LOOK_TRIED = 64,        /* WAIT: chance decided whether it did */
};

struct ns_look {
    _Alignas(8) uint64_t at; /* CLOCK_MONOTONIC, nanoseconds */
    uint64_t acked,
        received;    /* bytes, since the connection was made; a client's acked counts its SYN */
    uint64_t sent;   /* bytes, since the connection was made, without retransmissions */
    uint64_t pacing; /* bytes a second, the limit of congestion control; ~0: none */
    uint32_t sent_segments;     /* tcpi_segs_out */
    uint32_t data_segments;     /* tcpi_data_segs_out; the others are pure ACKs, SYN and FIN */
    uint32_t unsent;            /* bytes not sent yet */
    uint32_t unacked;           /* segments in flight */
    uint32_t mss, cwnd, window; /* bytes; segments; bytes */
    uint32_t min_rtt_us;        /* ~0 before the first is known */
    uint32_t since_sent_ms;     /* since data was last sent, exact to a tick */
    uint32_t since_ack_ms, since_received_ms;
    uint32_t retransmitted; /* segments, since the connection was made */
    uint16_t flags;
    uint8_t kind;       /* enum ns_look_kind */
    uint8_t state;      /* TCP_ESTABLISHED and its like */
    uint8_t congestion; /* tcpi_ca_state: 0 is Open */
    uint8_t probes;     /* unanswered window probes and keep-alives */
    uint8_t backoff;
};

/* Fill the fields that a tcp_info of this size has, and set KNOWS_WINDOW. The caller sets at, kind
 * and the other flags. Async-signal-safe. */
void ns_look_take(struct ns_look *look, const void *tcp_info, size_t size);

#endif
