/* SPDX-License-Identifier: MIT */
/* What must hold for every input of a fuzzer: where it does not, the fuzzer ends and keeps it. */
#ifndef FUZZ_MUST_H
#define FUZZ_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not true: %s\n", __LINE__, #condition);                      \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
