/* SPDX-License-Identifier: MIT */
/* What one look at a TCP socket saw: from outside by sock_diag(7), from inside by TCP_INFO. The
 * fields are those of struct tcp_info (linux/tcp.h) unless said otherwise. Plain data of a fixed
 * layout, since an observed process leaves looks in a file. */
#ifndef NS_LOOK_H
#define NS_LOOK_H

#include <stddef.h>
#include <stdint.h>

enum ns_look_kind {
    NS_LOOK_SAMPLE, /* from outside, by a clock */
    /* from inside: */
    NS_LOOK_WAIT,  /* the program is about to wait, and has written here since it waited last */
    NS_LOOK_WOKE,  /* that wait is over */
    NS_LOOK_WRITE, /* it is about to write again, and what it wrote before was held when it woke */
};

/* flags */
enum {
    NS_LOOK_KNOWS_UNSENT = 1,  /* the kernel has tcpi_notsent_bytes (Linux 4.6) */
    NS_LOOK_KNOWS_WINDOW = 2,  /* the kernel has tcpi_snd_wnd (Linux 5.4) */
    NS_LOOK_KNOWS_OPTIONS = 4, /* the next two could be asked for */
    NS_LOOK_NODELAY = 8,       /* TCP_NODELAY is on */
    NS_LOOK_CORK = 16,         /* TCP_CORK is on, or the last write had MSG_MORE */
    /* WOKE: data had arrived, here or from the same peer elsewhere; it is what was waited for */
    NS_LOOK_ARRIVED = 32,
    NS_LOOK_PUSHED = 64,        /* WAIT: the experiment pushed here */
    NS_LOOK_ACKNOWLEDGED = 128, /* WAIT: the experiment acknowledged here */
    NS_LOOK_TRIED = 256,        /* WAIT: the experiment tossed its coin here */
};

struct ns_look {
    uint64_t at; /* CLOCK_MONOTONIC, nanoseconds */
    uint64_t acked,
        received;    /* bytes, since the connection was made; a client's acked counts its SYN */
    uint64_t sent;   /* bytes, since the connection was made; what was sent again counts once */
    uint64_t pacing; /* bytes a second: no faster than congestion control sends; ~0: no limit */
    uint32_t sent_segments;      /* tcpi_segs_out */
    uint32_t unsent;             /* bytes that no segment has carried yet */
    uint32_t unacked;            /* segments in flight */
    uint32_t mss, cwnd, window;  /* bytes; segments; bytes */
    uint32_t rtt_us, min_rtt_us; /* min_rtt_us: ~0 before the first is known */
    uint32_t since_sent_ms;      /* since data was sent last: exact to a tick of the kernel */
    uint32_t since_ack_ms, since_received_ms;
    uint32_t retransmitted; /* segments, since the connection was made */
    uint16_t flags;
    uint8_t kind;       /* enum ns_look_kind */
    uint8_t state;      /* TCP_ESTABLISHED and its like */
    uint8_t congestion; /* tcpi_ca_state: 0 is Open */
    uint8_t probes;     /* window probes and keep-alives without an answer */
    uint8_t backoff;
    uint8_t app_limited; /* tcpi_delivery_rate_app_limited */
};

/* Fill look's fields that a kernel's tcp_info of that size has, and flags' KNOWS_UNSENT and
 * KNOWS_WINDOW; at, kind and the other flags are the caller's. Async-signal-safe. */
void ns_look_take(struct ns_look *look, const void *tcp_info, size_t size);

#endif
