/* SPDX-License-Identifier: MIT */
/* Owns what a comparison is said to show. It must not call a difference one that chance makes as
 * easily. Pure but for what it prints. */
#include "cli/compare.h"

#include "judge/statistics.h"

/* A difference that chance makes less often than this is believed. */
#define P_BELIEVED 0.01

/* How likely chance makes the clearest difference that n runs of each can show: every run of one
 * arm shorter than every one of the other, which is one of the orders in which they may come. */
static double least_chance(unsigned n)
{
    double p = 2;

    for (unsigned i = 1; i <= n; i++)
        p *= (double)i / (double)(n + i);
    return p;
}

void ns_compare_conclude(struct ns_comparison *comparison)
{
    struct ns_comparison_arm *without = &comparison->arms[NS_ARM_WITHOUT];
    struct ns_comparison_arm *with = &comparison->arms[NS_ARM_WITH];
    unsigned n = without->n < with->n ? without->n : with->n;

    comparison->p = ns_statistics_mann_whitney(without->ms, without->n, with->ms, with->n);
    for (int i = 0; i < 2; i++) {
        struct ns_comparison_arm *arm = &comparison->arms[i];

        arm->median_ms = ns_statistics_median(arm->ms, arm->n);
        arm->longest_ms = arm->n ? arm->ms[arm->n - 1] : 0;
    }
    comparison->p_least = least_chance(n);
}

unsigned ns_compare_runs_least(void)
{
    unsigned n = 1;

    while (least_chance(n) >= P_BELIEVED)
        n++;
    return n;
}

static const char *conclusion(const struct ns_comparison *comparison)
{
    if (comparison->p_least >= P_BELIEVED)
        return "these are too few runs to tell a difference from chance";
    if (comparison->p >= P_BELIEVED)
        return "no more difference than chance makes";
    return comparison->arms[NS_ARM_WITH].median_ms < comparison->arms[NS_ARM_WITHOUT].median_ms
               ? "with the shim it is faster, and that is no chance"
               : "with the shim it is slower, and that is no chance";
}

static double each(uint64_t sum, unsigned n)
{
    return n ? (double)sum / n : 0;
}

void ns_compare_print(FILE *stream, const struct ns_comparison *comparison)
{
    const struct ns_comparison_arm *without = &comparison->arms[NS_ARM_WITHOUT];
    const struct ns_comparison_arm *with = &comparison->arms[NS_ARM_WITH];

    fprintf(stream, "nagleshim compare: %s (%u and %u runs, p %.2g)\n\n", conclusion(comparison),
            without->n, with->n, comparison->p);
    fprintf(stream, "%-34s%14s%16s\n", "", "without", "with the shim");
    fprintf(stream, "%-34s%14.1f%16.1f\n", "ms a run, median", without->median_ms, with->median_ms);
    fprintf(stream, "%-34s%14.1f%16.1f\n", "ms a run, longest", without->longest_ms,
            with->longest_ms);
    fprintf(stream, "%-34s%14.1f%16.1f\n", "stalls a run, seen from outside",
            each(without->stalls, without->n), each(with->stalls, with->n));
    fprintf(stream, "%-34s%14.1f%16.1f\n", "delayed ACKs a run, all programs",
            each(without->delayed_acks, without->n), each(with->delayed_acks, with->n));
    fprintf(stream, "%-34s%14.1f%16.1f\n", "segments a run, all programs",
            each(without->segments, without->n), each(with->segments, with->n));
}

static void add_arm(cJSON *object, const char *name, const struct ns_comparison_arm *arm)
{
    cJSON *entry = cJSON_AddObjectToObject(object, name), *list;

    cJSON_AddNumberToObject(entry, "runs", arm->n);
    cJSON_AddNumberToObject(entry, "median_ms", arm->median_ms);
    cJSON_AddNumberToObject(entry, "longest_ms", arm->longest_ms);
    cJSON_AddNumberToObject(entry, "stalls", each(arm->stalls, arm->n));
    cJSON_AddNumberToObject(entry, "delayed_acks", each(arm->delayed_acks, arm->n));
    cJSON_AddNumberToObject(entry, "segments", each(arm->segments, arm->n));
    list = cJSON_AddArrayToObject(entry, "ms");
    for (unsigned i = 0; i < arm->n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(arm->ms[i]));
}

void ns_compare_fill_json(cJSON *object, const struct ns_comparison *comparison)
{
    cJSON_AddStringToObject(object, "verdict", conclusion(comparison));
    cJSON_AddNumberToObject(object, "p", comparison->p);
    cJSON_AddBoolToObject(object, "differs",
                          comparison->p < P_BELIEVED && comparison->p_least < P_BELIEVED);
    add_arm(object, "without", &comparison->arms[NS_ARM_WITHOUT]);
    add_arm(object, "with", &comparison->arms[NS_ARM_WITH]);
}
