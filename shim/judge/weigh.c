/* SPDX-License-Identifier: MIT */
/* See weigh.h. Owns nothing. */
#include "judge/weigh.h"

#include <math.h>

/* Waits are alike that differ by no more than a twelfth of a tick. With fewer than the least alike
 * nothing can be said, and with less than a quarter of all. */
enum { ALIKE = 12, LEAST = 4, QUARTER = 4 };
/* Answers within half a tick concentrate by this at least. */
static const double spread = 0.6;

/* How many waits are as long as this one or a little longer, and how much their answers
 * concentrate. */
static uint32_t alike(const struct ns_weigh *weigh, uint32_t i, uint32_t width_us,
                      double *concentration)
{
    double x = 0, y = 0;
    uint32_t n = 0, from = weigh->answers[i].length_us;
    for (uint32_t j = 0; j < weigh->n; j++) {
        if (weigh->answers[j].length_us - from > width_us) /* shorter ones wrap */
            continue;
        double angle = 2 * M_PI * (double)weigh->answers[j].phase;
        x += cos(angle);
        y += sin(angle);
        n++;
    }
    *concentration = hypot(x, y) / n;
    return n;
}

/* Are many waits alike, although their answers come anywhere within the tick? */
static bool is_unlike(const struct ns_weigh *weigh, uint64_t tick_ns)
{
    uint32_t most = 0, width_us = (uint32_t)(tick_ns / 1000 / ALIKE);
    double of_most = 1;
    for (uint32_t i = 0; i < weigh->n; i++) {
        double concentration;
        uint32_t n = alike(weigh, i, width_us, &concentration);
        if (n > most) {
            most = n;
            of_most = concentration;
        }
    }
    return most >= LEAST && most * QUARTER > weigh->n && of_most < spread;
}

void ns_weigh_answer(struct ns_weigh *weigh, uint64_t at, uint64_t length, uint64_t tick_ns)
{
    if (tick_ns == 0)
        return;
    weigh->answers[weigh->n].phase = (float)(at % tick_ns) / (float)tick_ns;
    weigh->answers[weigh->n].length_us = (uint32_t)(length / 1000);
    if (++weigh->n < NS_WEIGH_BLOCK)
        return;
    weigh->blocks++;
    weigh->unlike += is_unlike(weigh, tick_ns);
    weigh->n = 0;
}

void ns_weigh_lag(struct ns_weigh *weigh, double ns)
{
    weigh->lags++;
    weigh->lag_ns += ns;
}

bool ns_weigh_doubts(const struct ns_weigh *weigh, uint64_t tick_ns, uint64_t most_ns)
{
    if (weigh->blocks > 0 ? weigh->unlike * 2 > weigh->blocks : is_unlike(weigh, tick_ns))
        return true;
    if (weigh->lags == 0)
        return false;
    /* One time is known to a tick; the mean of many, to a quarter of it. */
    double tick = (double)tick_ns;
    return weigh->lag_ns / weigh->lags > (double)most_ns + tick / 4 + tick / weigh->lags;
}
