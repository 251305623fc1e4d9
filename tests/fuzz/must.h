/* SPDX-License-Identifier: MIT */
/* Conditions that must hold for every input of a fuzzer: if one does not, the fuzzer ends and keeps
 * the input. Also reads the input. */
#pragma once

#include "../probes/system.h"

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not true: %s\n", __LINE__, #condition);                      \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input, byte by byte; zeros after its end. */
struct input {
    const uint8_t *at, *end;
};

static inline unsigned take(struct input *in, unsigned n)
{
    return in->at < in->end ? *in->at++ % n : 0;
}
