/* SPDX-License-Identifier: MIT */
/* See statistics.h. Not async-signal-safe. */
#include "judge/statistics.h"

#include <math.h>
#include <stdlib.h>

/* Up to this size of both samples the exact distribution is computed, in an array of this room. */
enum { EXACT_MOST = 20 };

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void sort(double *values, size_t n)
{
    if (n > 1)
        qsort(values, n, sizeof *values, by_value);
}

double ns_statistics_median(double *values, size_t n)
{
    sort(values, n);
    return n == 0 ? 0 : (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* The ranks of both samples together. */
struct ranks {
    double left; /* sum of the ranks of left; ties share their mean rank */
    double ties; /* the sum of t^3 - t over groups of t equal values */
};

static struct ranks rank(const double *left, size_t n_left, const double *right, size_t n_right)
{
    struct ranks ranks = {0};
    size_t i = 0, j = 0;
    while (i < n_left || j < n_right) {
        double value = j == n_right || (i < n_left && left[i] < right[j]) ? left[i] : right[j];
        size_t first = i + j, of_left = i;
        while (i < n_left && left[i] <= value)
            i++;
        while (j < n_right && right[j] <= value)
            j++;
        double equal = (double)(i + j - first);
        ranks.left += (double)(i - of_left) * ((double)first + (equal + 1) / 2);
        ranks.ties += equal * equal * equal - equal;
    }
    return ranks;
}

/* The part of all orders of m and n values in which U is at most u. The numbers of orders are the
 * coefficients of the Gaussian binomial, the product of (1 - q^(n+i)) / (1 - q^i). */
static double part_of_orders(size_t m, size_t n, double u)
{
    double ways[EXACT_MOST * EXACT_MOST + 1] = {1};
    double all = 0, few = 0;
    size_t most = m * n;
    for (size_t i = 1; i <= m; i++) {
        for (size_t k = most; k >= n + i; k--)
            ways[k] -= ways[k - n - i];
        for (size_t k = i; k <= most; k++)
            ways[k] += ways[k - i];
    }
    for (size_t k = 0; k <= most; k++) {
        all += ways[k];
        if ((double)k <= u)
            few += ways[k];
    }
    return few / all;
}

double ns_statistics_mann_whitney(double *left, size_t n_left, double *right, size_t n_right)
{
    if (n_left == 0 || n_right == 0)
        return 1;
    sort(left, n_left);
    sort(right, n_right);
    double m = (double)n_left, n = (double)n_right, all = m + n;
    struct ranks ranks = rank(left, n_left, right, n_right);
    double u = ranks.left - m * (m + 1) / 2;
    u = fmin(u, m * n - u);
    if (n_left <= EXACT_MOST && n_right <= EXACT_MOST && !(ranks.ties > 0))
        return fmin(1, 2 * part_of_orders(n_left, n_right, u));
    double variance = m * n / 12 * (all + 1 - ranks.ties / (all * (all - 1)));
    if (!(variance > 0))
        return 1; /* all values are equal */
    /* Continuity correction: U is an integer. */
    double distance = fmax(m * n / 2 - u - 0.5, 0);
    return erfc(distance / sqrt(2 * variance));
}

double ns_statistics_resultant(const uint32_t *parts, size_t n)
{
    double x = 0, y = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        double angle = 2 * M_PI * (double)i / (double)n;
        x += parts[i] * cos(angle);
        y += parts[i] * sin(angle);
        all += parts[i];
    }
    return all > 0 ? hypot(x, y) / all : 0;
}
