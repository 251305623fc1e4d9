/* SPDX-License-Identifier: MIT */
/* Statistics for verdicts. Pure; nothing allocates. */
#ifndef NS_STATISTICS_H
#define NS_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

/* A difference with a smaller probability of chance is significant. */
#define NS_P_SIGNIFICANT 0.01

/* Sorts values and returns the median; 0 if there are none. */
double ns_statistics_median(double *values, size_t n);

/* The probability that chance makes at least this difference between two samples: the two-sided
 * Mann-Whitney test, exact for small samples without ties, otherwise the normal approximation with
 * the correction for ties. Sorts both. 1 if one is empty. */
double ns_statistics_mann_whitney(double *left, size_t n_left, double *right, size_t n_right);

/* How concentrated counts in equal parts of a circle are: the length of the mean resultant vector,
 * from 0 (even) to 1 (all in one part). */
double ns_statistics_resultant(const uint32_t *parts, size_t n);

#endif
