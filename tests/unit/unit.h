/* SPDX-License-Identifier: MIT */
/* The few macros of the unit tests: one TAP line per check, and an exit status. */
#ifndef NS_UNIT_H
#define NS_UNIT_H

#include <stdio.h>

static int ns_unit_count, ns_unit_failures;

/* Check a condition; the rest of the arguments is printf's and says what the user gets. */
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

/* What main returns. */
static inline int ns_unit_done(void)
{
    printf("1..%d\n", ns_unit_count);
    return ns_unit_failures != 0;
}

#endif
