/* SPDX-License-Identifier: MIT */
/* See text.h. Owns the spelling of address and port ranges. Strict, since a policy for another
 * network than its author believes is worse than a rejected one: no leading zeros, no bits set
 * beyond the prefix, no host names (resolving could block, and the answer changes). */
#include "policy/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends text at c. Returns what follows c; NULL if there is no c. */
static char *cut(char *text, char c)
{
    char *at = strchr(text, c);
    if (at)
        *at++ = '\0';
    return at;
}

/* A decimal number without leading zeros, not above most; otherwise -1. */
static int number(const char *digits, int most)
{
    size_t length = strspn(digits, "0123456789");
    if (length == 0 || length > 5 || digits[length] || (*digits == '0' && length > 1))
        return -1;
    int value = atoi(digits);
    return value <= most ? value : -1;
}

static const char *read_ports(char *low, struct ns_endpoint *endpoint)
{
    char *high = cut(low, '-');
    int first = number(low, 65535), last = high ? number(high, 65535) : first;
    if (high && (!*low || !*high))
        return "a range needs both ends, as 1-1023";
    if (first < 1 || last < 1)
        return "a port is 1 to 65535";
    if (first > last)
        return "the first port of a range is larger than the last";
    endpoint->port_low = (uint16_t)first;
    endpoint->port_high = (uint16_t)last;
    return NULL;
}

static bool set_beyond(const struct in6_addr *addr, unsigned prefix)
{
    unsigned beyond = 0xFF >> prefix % 8; /* bits of the byte where the prefix ends */
    for (unsigned i = prefix / 8; i < sizeof addr->s6_addr; i++, beyond = 0xFF)
        if (addr->s6_addr[i] & beyond)
            return true;
    return false;
}

/* ADDRESS or ADDRESS/BITS of one family. */
static const char *read_address(char *text, int family, struct ns_endpoint *endpoint)
{
    bool v4 = family == AF_INET;
    struct in6_addr *addr = &endpoint->addr;
    char *prefix = cut(text, '/');
    int most = v4 ? 32 : 128, bits = prefix ? number(prefix, most) : most;
    if (v4)
        addr->s6_addr[10] = addr->s6_addr[11] = 0xFF;
    if (inet_pton(family, text, v4 ? &addr->s6_addr[12] : addr->s6_addr) != 1)
        return v4 ? "not an IPv4 address" : "not an IPv6 address";
    if (bits < 0)
        return v4 ? "an IPv4 prefix is /0 to /32" : "an IPv6 prefix is /0 to /128";
    endpoint->prefix = (uint8_t)(v4 ? bits + 96 : bits);
    return set_beyond(addr, endpoint->prefix) ? "the address has bits set beyond its prefix" : NULL;
}

static bool made_of(const char *text, const char *characters)
{
    return text[strspn(text, characters)] == '\0';
}

static const char *read_endpoint(char *text, struct ns_endpoint *endpoint)
{
    int family = AF_INET;
    char *ports = NULL;
    if (*text == '\0')
        return "it is empty; leave the key out for any address and port";
    if (made_of(text, "0123456789-"))
        return read_ports(text, endpoint);
    if (!made_of(text, "0123456789abcdefABCDEF.:/-[]"))
        return "names, wildcards, zones, blanks and lists in a string are not allowed";
    if (*text == '[') {
        family = AF_INET6;
        ports = cut(++text, ']');
        if (!ports)
            return "']' is missing";
        if (*ports && *ports != ':')
            return "after ']' comes :PORT";
        ports = *ports ? ports + 1 : NULL;
    } else if (strchr(text, ':') == strrchr(text, ':')) {
        ports = cut(text, ':');
    } else {
        family = AF_INET6;
    }
    const char *problem = read_address(text, family, endpoint);
    return problem || !ports ? problem : read_ports(ports, endpoint);
}

int ns_endpoint_parse(const char *text, struct ns_endpoint *endpoint, char *problem, size_t size)
{
    *endpoint = (struct ns_endpoint){.port_high = 65535};
    char copy[80]; /* longer than any endpoint */
    snprintf(copy, sizeof copy, "%s", text);
    const char *wrong = read_endpoint(copy, endpoint);
    if (!wrong)
        return 0;
    snprintf(problem, size,
             "%s; allowed are ADDRESS, ADDRESS/BITS, PORT, LOW-HIGH, ADDRESS[/BITS]:PORT[-HIGH], "
             "and for IPv6 with a port [ADDRESS/BITS]:PORT",
             wrong);
    return -EINVAL;
}
