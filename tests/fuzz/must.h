/* SPDX-License-Identifier: MIT */
/* What must hold for every input of a fuzzer: where it does not, the fuzzer ends and keeps it. And
 * the input itself. */
#ifndef FUZZ_MUST_H
#define FUZZ_MUST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not true: %s\n", __LINE__, #condition);                      \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input, byte for byte; zeroes when it is used up. */
struct input {
    const uint8_t *at, *end;
};

static inline unsigned take(struct input *in, unsigned n)
{
    return in->at < in->end ? *in->at++ % n : 0;
}

#endif
