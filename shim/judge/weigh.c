/* SPDX-License-Identifier: MIT */
/* See weigh.h. Owns nothing. */
#include "judge/weigh.h"

#include <math.h>

/* So many answers are weighed at once: a peer's clock drifts away from ours meanwhile by
 * microseconds. Of fewer than the least nothing can be said. */
enum { BLOCK = 16, LEAST = 4 };
/* By so much more than the answers do the lengths of the waits concentrate. */
static const double unlike = 0.25;

static void add(struct ns_circle *circle, double part)
{
    circle->x += cos(2 * M_PI * part);
    circle->y += sin(2 * M_PI * part);
    circle->n++;
}

static double concentration(const struct ns_circle *circle)
{
    return circle->n ? hypot(circle->x, circle->y) / circle->n : 0;
}

static bool is_unlike(const struct ns_weigh *weigh)
{
    return weigh->answers.n >= LEAST &&
           concentration(&weigh->lengths) > concentration(&weigh->answers) + unlike;
}

void ns_weigh_answer(struct ns_weigh *weigh, uint64_t at, uint64_t length, uint64_t tick_ns)
{
    if (tick_ns == 0)
        return;
    add(&weigh->answers, (double)(at % tick_ns) / (double)tick_ns);
    add(&weigh->lengths, (double)(length % tick_ns) / (double)tick_ns);
    if (weigh->answers.n < BLOCK)
        return;
    weigh->blocks++;
    weigh->unlike += is_unlike(weigh);
    weigh->answers = weigh->lengths = (struct ns_circle){0};
}

void ns_weigh_lag(struct ns_weigh *weigh, double ns)
{
    weigh->lags++;
    weigh->lag_ns += ns;
}

bool ns_weigh_doubts(const struct ns_weigh *weigh, uint64_t tick_ns, uint64_t most_ns)
{
    if (weigh->blocks > 0 ? weigh->unlike * 2 > weigh->blocks : is_unlike(weigh))
        return true;
    if (weigh->lags == 0)
        return false;
    /* One time is known to a tick; the mean of many, to a quarter of it. */
    double tick = (double)tick_ns;
    return weigh->lag_ns / weigh->lags > (double)most_ns + tick / 4 + tick / weigh->lags;
}
