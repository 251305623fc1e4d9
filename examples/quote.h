/* SPDX-License-Identifier: MIT */
/* What the quote client and the quote server say to each other. No code that does I/O.
 *
 * A connection begins with one byte that tells what it is for; then a request is a number of stocks
 * and their numbers, and its answer one quote for each of them. */
#ifndef EXAMPLES_QUOTE_H
#define EXAMPLES_QUOTE_H

#include <stdint.h>

#define CONNECTION_COMMANDS 'C'
#define CONNECTION_DATA 'D'
#define CONNECTION_BOTH 'B'

enum { QUOTE_LIMIT = 1000 };

/* In network byte order. */
struct quote_request {
    uint32_t count;
    uint32_t stocks[QUOTE_LIMIT];
};

struct quote {
    uint32_t stock;
    uint32_t price; /* in cents */
    char name[16];
};

/* In cents, in host byte order. */
static inline uint32_t price_of(uint32_t stock)
{
    return stock * 2654435761u % 100000;
}

#endif
