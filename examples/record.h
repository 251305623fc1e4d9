/* SPDX-License-Identifier: MIT */
/* The format of a record, shared by sender and receiver. No code for I/O.
 *
 * A stream is a sequence of records, each with its length first. */
#ifndef EXAMPLES_RECORD_H
#define EXAMPLES_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum { RECORD_LEAST = 20, RECORD_MOST = 100 };

/* In host byte order, because both ends use the same clock and so are on one machine. */
struct record {
    uint16_t length; /* of the whole record */
    uint16_t zero;
    uint32_t number;
    int64_t made_ns; /* CLOCK_MONOTONIC when it was produced */
    char text[RECORD_MOST - 16];
};

/* 20 to 100 bytes, the same in every run. */
static inline uint16_t record_length(uint32_t number)
{
    return (uint16_t)(RECORD_LEAST +
                      (number * 2654435761u >> 16) % (RECORD_MOST - RECORD_LEAST + 1));
}

#endif
