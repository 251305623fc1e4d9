/* SPDX-License-Identifier: MIT */
/* See judge.h. */
#include "judge/judge.h"

#include <stdlib.h>

/* Fewer waits say nothing. */
enum { LEAST = 4 };
/* Answers that follow a release come within a sixteenth of a tick. Measured with a tick of 4 ms:
 * 0.05 to 0.15 ms; for a peer that takes 44 ms at least 0.55 ms. */
enum { NARROW = 16 };
/* From outside: only answers whose place is known to three quarters of a tick count. FULL percent
 * at one place are evidence for the release: answers at random times have two thirds at the fullest
 * place, as samples are half a tick apart. At least PLACED_LEAST are so much evidence that the
 * answers may come later. */
enum { PLACED_LEAST = 16, FULL = 90 };
/* If a quarter of the answers is somewhat too late to be certain, the others may be the early part
 * of the same distribution. */
enum { SLOW = 4 };
/* Ticks that are shorter do not make an answer late. */
enum { LATE_NS = 4000000 };

/* One very late answer of a busy machine must not outweigh many others. A millisecond is prompt. */
static double capped(double ns, uint64_t tick_ns)
{
    double most = tick_ns < LATE_NS ? LATE_NS : (double)tick_ns;
    return ns < most ? ns : most;
}

static int by_value(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* The width of the narrowest interval with `within` of n sorted values; *first: its begin. With a
 * period, values wrap around. */
static uint32_t narrowest(const uint32_t *sorted, uint32_t n, uint32_t within, uint32_t period,
                          uint32_t *first)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < (period ? n : n - within + 1); i++) {
        uint32_t end = i + within - 1;
        uint32_t width = end < n ? sorted[end] - sorted[i] : sorted[end - n] + period - sorted[i];
        if (width < least) {
            least = width;
            *first = sorted[i];
        }
    }
    return least;
}

/* Take the half of the waits whose lengths are closest together. Do their ends vary more within the
 * tick than their lengths do? The end of a wait for the release is fixed to the tick, so its length
 * varies with its begin. Only half of that half must be close together, since a busy processor
 * delays some answers. */
static bool is_unlike(const struct ns_weigh *weigh, uint64_t tick_ns)
{
    uint32_t values[NS_WEIGH_BLOCK], first = 0, n = 0;
    uint32_t half = weigh->n / 2 < LEAST ? LEAST : weigh->n / 2;
    uint32_t tick_us = (uint32_t)(tick_ns / 1000);
    if (weigh->n < LEAST)
        return false;
    for (uint32_t i = 0; i < weigh->n; i++)
        values[i] = weigh->answers[i].length_us;
    qsort(values, weigh->n, sizeof values[0], by_value);
    uint32_t lengths = narrowest(values, weigh->n, half, 0, &first);
    for (uint32_t i = 0; i < weigh->n; i++) {
        if (weigh->answers[i].length_us - first <= lengths) /* unsigned: shorter ones wrap */
            values[n++] = weigh->answers[i].place_us;
    }
    qsort(values, n, sizeof values[0], by_value);
    uint32_t places = narrowest(values, n, n / 2 + 1, tick_us, &first);
    return places > tick_us / NARROW && places > lengths;
}

void ns_weigh_answer(struct ns_weigh *weigh, const struct ns_weigh_answer *answer, uint64_t tick_ns)
{
    if (tick_ns == 0)
        return;
    weigh->all++;
    weigh->since_ns += capped((double)answer->since, tick_ns);
    weigh->answers[weigh->n].place_us = (uint32_t)(answer->at % tick_ns / 1000);
    weigh->answers[weigh->n].length_us = (uint32_t)(answer->length / 1000);
    if (++weigh->n < NS_WEIGH_BLOCK)
        return;
    weigh->blocks++;
    weigh->unlike += is_unlike(weigh, tick_ns);
    weigh->n = 0;
}

void ns_weigh_lag(struct ns_weigh *weigh, const struct ns_weigh_lag *lag, uint64_t tick_ns)
{
    weigh->lags++;
    weigh->slow += lag->slow;
    weigh->lag_ns += capped(lag->ns, tick_ns);
    uint64_t part = tick_ns / NS_WEIGH_PLACES;
    if (part == 0 || lag->high - lag->low > tick_ns / 4 * 3 || weigh->placed == UINT16_MAX)
        return;
    weigh->placed++;
    for (uint64_t at = lag->low / part; at <= lag->high / part; at++)
        weigh->places[at % NS_WEIGH_PLACES]++;
}

/* From outside: do answers come at random places of the tick, or long after the release? */
static bool lags(const struct ns_weigh *weigh, double most_ns, double tick_ns)
{
    uint32_t fullest = 0;
    if (weigh->lags == 0)
        return false;
    if (weigh->slow * SLOW > weigh->lags)
        return true;
    for (uint32_t i = 0; i < NS_WEIGH_PLACES; i++) {
        if (weigh->places[i] > fullest)
            fullest = weigh->places[i];
    }
    if (weigh->placed >= LEAST && fullest * 100 < weigh->placed * FULL)
        return true;
    return weigh->lag_ns / weigh->lags >
           (weigh->placed < PLACED_LEAST ? most_ns : most_ns + tick_ns / 2);
}

bool ns_weigh_doubts(const struct ns_weigh *weigh, uint64_t tick_ns, uint64_t most_ns)
{
    if (weigh->blocks > 0 ? weigh->unlike * 2 >= weigh->blocks : is_unlike(weigh, tick_ns))
        return true;
    /* Most come a tick later: the peer did not wait for the release, and the processor was busy. */
    if (weigh->all >= LEAST && weigh->since_ns / weigh->all > (double)most_ns)
        return true;
    return lags(weigh, (double)most_ns, (double)tick_ns);
}
