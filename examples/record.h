/* SPDX-License-Identifier: MIT */
/* The form of a record, which its sender and its receiver share. No code that does I/O.
 *
 * A stream is a row of records, each with its length in front. A batch has a header before it,
 * which looks like a record of length zero and tells how many records follow. */
#ifndef EXAMPLES_RECORD_H
#define EXAMPLES_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum { RECORD_LEAST = 20, RECORD_MOST = 100 };

/* In host byte order: both ends read one clock, so they are on one machine. */
struct record {
    uint16_t length; /* of all of it */
    uint16_t zero;
    uint32_t number;
    int64_t made_ns; /* CLOCK_MONOTONIC when it was produced */
    char text[RECORD_MOST - 16];
};

struct batch_header {
    uint16_t zero;
    uint16_t records;
};

/* 20 to 100 bytes, the same in every run. */
static inline uint16_t record_length(uint32_t number)
{
    return (uint16_t)(RECORD_LEAST +
                      (number * 2654435761u >> 16) % (RECORD_MOST - RECORD_LEAST + 1));
}

#endif
