/* SPDX-License-Identifier: MIT */
/* What the runs of `nagleshim compare` have come to, and how that is told. */
#ifndef NS_COMPARE_H
#define NS_COMPARE_H

#include <cJSON.h>
#include <stdint.h>
#include <stdio.h>

enum { NS_COMPARE_RUNS_MOST = 1000 };
enum ns_arm { NS_ARM_WITHOUT, NS_ARM_WITH };

struct ns_comparison_arm {
    unsigned n;
    double ms[NS_COMPARE_RUNS_MOST]; /* of whole runs; sorted by ns_compare_conclude */
    uint64_t stalls;                 /* seen from outside, in all runs */
    uint64_t segments, delayed_acks; /* of this network namespace meanwhile */
    double median_ms, longest_ms;
};

struct ns_comparison {
    unsigned wanted; /* runs of each arm */
    struct ns_comparison_arm arms[2];
    double p;       /* that chance makes such a difference */
    double p_least; /* the smallest that so few runs can have */
};

/* From the runs to medians and chance. */
void ns_compare_conclude(struct ns_comparison *comparison);

void ns_compare_print(FILE *stream, const struct ns_comparison *comparison);

/* The members besides those that every object has; counts are of one run, as in the table. */
void ns_compare_fill_json(cJSON *object, const struct ns_comparison *comparison);

/* So many of each can show a difference that is believed; fewer cannot. */
unsigned ns_compare_runs_least(void);

#endif
