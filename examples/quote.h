/* SPDX-License-Identifier: MIT */
/* The protocol of the quote client and the quote server. No code for I/O.
 *
 * The first byte of a connection is its purpose. Each request is answered by a quote. */
#ifndef EXAMPLES_QUOTE_H
#define EXAMPLES_QUOTE_H

#include <stdint.h>

#define CONNECTION_COMMANDS 'C'
#define CONNECTION_DATA 'D'

/* In network byte order. */
struct quote_request {
    uint32_t number;
    uint32_t stock;
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
