/* SPDX-License-Identifier: MIT */
/* statistics.h, compared with values computed by hand, or by R's wilcox.test. */
#include "judge/statistics.h"

#include "unit.h"

#define N(array) (sizeof(array) / sizeof *(array))

static bool near(double value, double wanted)
{
    return fabs(value - wanted) <= 1e-6 * fmax(1e-3, fabs(wanted));
}

CHECK(check_middle)
{
    double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2};
    OK(near(ns_statistics_median(odd, 3), 3), "the middle one of three");
    OK(near(ns_statistics_median(even, 4), 2.5), "the mean of the two in the middle of four");
    OK(ns_statistics_median(even, 0) == 0, "the median of nothing is 0");
}

CHECK(check_chance)
{
    double left[] = {3, 1, 2}, right[] = {6, 4, 5};
    OK(near(ns_statistics_mann_whitney(left, 3, right, 3), 0.1), "three before three: 2 of 20");
    double a[] = {1, 3, 5, 7, 9, 11}, b[] = {2, 4, 6, 8, 10};
    OK(near(ns_statistics_mann_whitney(a, 6, b, 5), 1), "alternating values may be chance");
    double c[] = {1.1, 2.2, 3.3, 4.4, 9.9}, d[] = {5.5, 6.6, 7.7, 8.8};
    OK(near(ns_statistics_mann_whitney(d, 4, c, 5), 24.0 / 126), "U of 4 in 4 and 5: 24 of 126");
    OK(near(ns_statistics_mann_whitney(b, 0, b, 5), 1),
       "with an empty sample everything may be chance");
    double same[] = {4, 4, 4}, also[] = {4, 4};
    OK(near(ns_statistics_mann_whitney(same, 3, also, 2), 1), "equal values are chance");
}

CHECK(check_ties)
{
    double a[] = {1, 2, 2, 3, 3, 3}, b[] = {2, 3, 4, 4, 5};
    double p = ns_statistics_mann_whitney(a, 6, b, 5);
    /* U = 5.5; the variance is 6 * 5 / 12 * (12 - (24 + 60 + 6) / 110). */
    OK(near(p, erfc(9 / sqrt(2 * 2.5 * (12 - 90.0 / 110)))), "ties share their ranks: %.6f", p);
}

CHECK(check_circle)
{
    uint32_t even[16], one[16] = {[5] = 9}, none[16] = {0};
    for (int i = 0; i < 16; i++)
        even[i] = 100;
    OK(ns_statistics_resultant(even, N(even)) < 1e-9, "an even spread is 0");
    OK(near(ns_statistics_resultant(one, 16), 1), "all values in one part is 1");
    OK(ns_statistics_resultant(none, 16) == 0, "no values give 0");
}
