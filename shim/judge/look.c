/* SPDX-License-Identifier: MIT */
/* See look.h. Includes the kernel's tcp_info, which is newer than libc's and conflicts with it. */
#include "judge/look.h"

#include <linux/tcp.h>
#include <string.h>

void ns_look_take(struct ns_look *look, const void *tcp_info, size_t size)
{
    struct tcp_info info;
    memset(&info, 0, sizeof info);
    memcpy(&info, tcp_info, size < sizeof info ? size : sizeof info);
    look->acked = info.tcpi_bytes_acked;
    look->received = info.tcpi_bytes_received;
    look->sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
    look->pacing = info.tcpi_pacing_rate;
    look->sent_segments = info.tcpi_segs_out;
    look->data_segments = info.tcpi_data_segs_out;
    look->unsent = info.tcpi_notsent_bytes;
    look->unacked = info.tcpi_unacked;
    look->mss = info.tcpi_snd_mss;
    look->cwnd = info.tcpi_snd_cwnd;
    look->window = info.tcpi_snd_wnd;
    look->min_rtt_us = info.tcpi_min_rtt;
    look->since_sent_ms = info.tcpi_last_data_sent;
    look->since_ack_ms = info.tcpi_last_ack_recv;
    look->since_received_ms = info.tcpi_last_data_recv;
    look->retransmitted = info.tcpi_total_retrans;
    look->state = info.tcpi_state;
    look->congestion = info.tcpi_ca_state;
    look->probes = info.tcpi_probes;
    look->backoff = info.tcpi_backoff;
    if (size >= offsetof(struct tcp_info, tcpi_snd_wnd) + sizeof info.tcpi_snd_wnd)
        look->flags |= NS_LOOK_KNOWS_WINDOW;
}
