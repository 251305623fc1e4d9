/* SPDX-License-Identifier: MIT */
/* The few macros of the unit tests: one TAP line per condition, and an exit status. */
#pragma once

#include "../probes/system.h"

static int ns_unit_count, ns_unit_failures;

/* Check a condition; the other arguments are a printf text that says what holds. */
#define OK(condition, ...)                                                                         \
    do {                                                                                           \
        int ns_unit_good = !!(condition);                                                          \
        printf("%sok %d - ", ns_unit_good ? "" : "not ", ++ns_unit_count);                         \
        printf(__VA_ARGS__);                                                                       \
        printf("\n");                                                                              \
        if (!ns_unit_good) {                                                                       \
            ns_unit_failures++;                                                                    \
            printf("# %s:%d: %s\n", __FILE__, __LINE__, #condition);                               \
        }                                                                                          \
    } while (0)

/* CHECK(name) { ... }: main runs these in the order of the file. */
static void (*ns_unit_checks[100])(void);
static int ns_unit_check_count;

#define CHECK(name) NS_UNIT_CHECK(name, __COUNTER__)
#define NS_UNIT_CHECK(name, number)                                                                \
    static void name(void);                                                                        \
    __attribute__((constructor(101 + number))) static void add_##name(void)                        \
    {                                                                                              \
        ns_unit_checks[ns_unit_check_count++] = name;                                              \
    }                                                                                              \
    static void name(void)

int main(void)
{
    for (int i = 0; i < ns_unit_check_count; i++)
        ns_unit_checks[i]();
    printf("1..%d\n", ns_unit_count);
    return ns_unit_failures != 0;
}
