/* SPDX-License-Identifier: MIT */
/* Addresses for the unit tests. */
#ifndef UNIT_ADDRESS_H
#define UNIT_ADDRESS_H

#include "policy/match.h"

/* 10.0.0.last, mapped to IPv6. */
static inline struct ns_address at(uint8_t last, uint16_t port)
{
    struct ns_address address = {.known = true, .port = port};
    address.addr.s6_addr[10] = address.addr.s6_addr[11] = 0xff;
    address.addr.s6_addr[12] = 10;
    address.addr.s6_addr[15] = last;
    return address;
}

#endif
