/* SPDX-License-Identifier: MIT */
/* The little statistics that verdicts need. Pure; nothing allocates. */
#ifndef NS_STATISTICS_H
#define NS_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

/* Sorts values. The middle one, or the mean of the two in the middle; 0 if there are none. */
double ns_statistics_median(double *values, size_t n);

/* The value below which that part (0 to 1) of sorted values lies; interpolated. */
double ns_statistics_quantile(const double *sorted, size_t n, double part);

/* How likely it is that a difference like that between two samples, or a larger one, comes from
 * chance: the two-sided Mann-Whitney test, exact for small samples without ties, otherwise by the
 * normal approximation with its correction for ties. Sorts both. 1 if one is empty. */
double ns_statistics_mann_whitney(double *left, size_t n_left, double *right, size_t n_right);

/* How much counts in equal parts of a circle concentrate: the length of the mean resultant vector,
 * 0 (spread evenly) to 1 (all in one part). */
double ns_statistics_resultant(const uint32_t *parts, size_t n);

#endif
