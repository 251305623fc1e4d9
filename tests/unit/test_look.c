/* SPDX-License-Identifier: MIT */
/* look.h, hold.c, and the edges of verdict.c. */
#include "looks.h"
#include "unit.h"

CHECK(check_extremes)
{
    struct ns_verdict usual = {.stalls = 1, .shortest_ns = 42 * MS}, sum = usual;
    const struct ns_verdict brief = {.stalls = 1, .shortest_ns = 8 * MS};
    ns_verdict_add(&sum, &brief);
    ns_verdict_add(&sum, &usual);
    OK(sum.shortest_ns == 8 * MS, "a sum has the length of the shortest stall of all");
    const uint32_t phases[NS_PHASES] = {[0] = 100};
    ns_verdict_arrivals(&usual, phases, 100 * 40 * (uint64_t)MS, 0);
    OK(usual.stalls == 1, "a tick that is not known divides nothing");
}

CHECK(check_look)
{
    char info[1024] = {0};
    struct ns_look look = {.flags = NS_LOOK_CORK}, early = look;
    ns_look_take(&look, info, sizeof info);
    ns_look_take(&early, info, 100);
    OK(look.flags == (NS_LOOK_CORK | NS_LOOK_KNOWS_WINDOW) && early.flags == NS_LOOK_CORK,
       "a recent kernel reports the window, an early one does not, and other flags stay");
    look = (struct ns_look){.state = TCP_ESTABLISHED,
                            .flags = NS_LOOK_KNOWS_WINDOW,
                            .sent = 10,
                            .acked = 10, /* with the SYN, that is one byte less */
                            .unacked = 1,
                            .mss = 1000,
                            .cwnd = 10,
                            .unsent = 50,
                            .window = 51};
    OK(ns_hold_why(&look, NULL) == NS_DELAY_NAGLE, "one byte in flight leaves room in the window");
    look.window = 50;
    OK(ns_hold_why(&look, NULL) == NS_DELAY_WINDOW, "but a window that it fills holds the rest");
}
