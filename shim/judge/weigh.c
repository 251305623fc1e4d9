/* SPDX-License-Identifier: MIT */
/* See weigh.h. Owns nothing. */
#include "judge/weigh.h"

#include <stdlib.h>

/* With fewer waits nothing can be said. */
enum { LEAST = 4 };
/* The places of answers behind releases keep within a sixteenth of a tick: measured 0.05 to 0.15 ms
 * of 4, where a peer that thinks for 44 ms had 0.55 at least. */
enum { NARROW = 16 };
/* From outside: places that are known to three quarters of a tick tell something; this many of
 * them, and so large a part of them at one place, speak for the release. Answers at any time have
 * two thirds of theirs at the fullest place, as looks are half a tick apart. */
enum { PLACED_LEAST = 16, FULL = 90 };
/* If a fourth comes somewhat too late to be certain, the others may be the near end of the same. */
enum { SLOW = 4 };

static int by_value(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* The width of the narrowest part that holds `within` of n sorted values; *first: where it begins.
 * With a period values go round. */
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

/* Is the half of the waits that is most alike in length spread more widely over the tick than its
 * lengths are? What waits for the release is as long as the release makes it: where it was begun
 * sooner or later within the tick, its length differs by so much, and its end does not. Half of
 * that half must be together, since others that use the processor make some answers late. */
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
        if (weigh->answers[i].length_us - first <= lengths) /* shorter ones wrap */
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
    weigh->since_ns += (double)(answer->since < tick_ns ? answer->since : tick_ns);
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
    /* One that is very late, since others use the processor, is not worth many that are not. */
    weigh->lag_ns += lag->ns < (double)tick_ns ? lag->ns : (double)tick_ns;
    uint64_t part = tick_ns / NS_WEIGH_PLACES;
    if (part == 0 || lag->high - lag->low > tick_ns / 4 * 3 || weigh->placed == UINT16_MAX)
        return;
    weigh->placed++;
    for (uint64_t at = lag->low / part; at <= lag->high / part; at++)
        weigh->places[at % NS_WEIGH_PLACES]++;
}

/* From outside: do answers come at any time within the tick, or long after the release? */
static bool lags(const struct ns_weigh *weigh, double most_ns, double tick_ns)
{
    uint32_t fullest = 0;
    if (weigh->lags == 0)
        return false;
    if (weigh->slow * SLOW > weigh->lags)
        return true;
    if (weigh->placed < PLACED_LEAST)
        return weigh->lag_ns / weigh->lags > most_ns;
    for (uint32_t i = 0; i < NS_WEIGH_PLACES; i++) {
        if (weigh->places[i] > fullest)
            fullest = weigh->places[i];
    }
    return fullest * 100 < weigh->placed * FULL ||
           weigh->lag_ns / weigh->lags > most_ns + tick_ns / 2;
}

bool ns_weigh_doubts(const struct ns_weigh *weigh, uint64_t tick_ns, uint64_t most_ns)
{
    if (weigh->blocks > 0 ? weigh->unlike * 2 >= weigh->blocks : is_unlike(weigh, tick_ns))
        return true;
    /* Most come on the next tick: what had to wait for a processor, after the peer had thought. */
    if (weigh->all >= LEAST && weigh->since_ns / weigh->all > (double)most_ns)
        return true;
    return lags(weigh, (double)most_ns, (double)tick_ns);
}
