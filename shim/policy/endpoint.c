/* SPDX-License-Identifier: MIT */
/* See endpoint.h. Owns the spelling of address and port ranges. Strict, since a policy that means
 * another network than its author believes is worse than one that is refused: no leading zeros, no
 * bits set beyond the prefix, no host names (resolving could block, and the answer changes). */
#include "policy/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char beyond_prefix[] = "the address has bits set beyond its prefix";

struct span {
    const char *at;
    size_t len;
};

static struct span span_until(struct span *rest, char c)
{
    const char *end = memchr(rest->at, c, rest->len);
    struct span head = {rest->at, end ? (size_t)(end - rest->at) : rest->len};
    rest->at += head.len;
    rest->len -= head.len;
    return head;
}

/* A decimal number without leading zeros, not above most; otherwise -1. */
static int span_number(struct span digits, int most)
{
    int value = 0;
    if (digits.len == 0 || digits.len > 5 || (digits.at[0] == '0' && digits.len > 1))
        return -1;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9')
            return -1;
        value = value * 10 + (digits.at[i] - '0');
    }
    return value <= most ? value : -1;
}

static const char *read_ports(struct span text, struct ns_endpoint *endpoint)
{
    struct span high = text, low = span_until(&high, '-');
    int first = span_number(low, 65535), last = first;
    if (high.len) {
        high.at++;
        high.len--;
        if (low.len == 0 || high.len == 0)
            return "a range needs both ends, as 1-1023";
        last = span_number(high, 65535);
    }
    if (first < 1 || last < 1)
        return "a port is 1 to 65535";
    if (first > last)
        return "a port range is LOW-HIGH";
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

/* ADDRESS or ADDRESS/BITS of one family. For bits beyond the prefix see tell_network. */
static const char *read_address(struct span text, int family, struct ns_endpoint *endpoint)
{
    char digits[INET6_ADDRSTRLEN];
    struct span prefix = text, addr = span_until(&prefix, '/');
    bool v4 = family == AF_INET;
    if (addr.len >= sizeof digits)
        return "not an address";
    memcpy(digits, addr.at, addr.len);
    digits[addr.len] = '\0';
    struct in6_addr result = {0};
    if (v4)
        result.s6_addr[10] = result.s6_addr[11] = 0xFF;
    if (inet_pton(family, digits, v4 ? &result.s6_addr[12] : result.s6_addr) != 1)
        return v4 ? "not an IPv4 address" : "not an IPv6 address";
    int bits = v4 ? 32 : 128;
    if (prefix.len) {
        prefix.at++;
        prefix.len--;
        bits = span_number(prefix, bits);
        if (bits < 0)
            return v4 ? "an IPv4 prefix is /0 to /32" : "an IPv6 prefix is /0 to /128";
    }
    endpoint->addr = result;
    endpoint->prefix = (uint8_t)(v4 ? bits + 96 : bits);
    return set_beyond(&result, endpoint->prefix) ? beyond_prefix : NULL;
}

/* The message for an address with bits set beyond its prefix: names the network it is in. */
static void tell_network(const struct ns_endpoint *endpoint, char *problem, size_t size)
{
    struct in6_addr network = endpoint->addr;
    char text[INET6_ADDRSTRLEN];
    bool v4 = IN6_IS_ADDR_V4MAPPED(&network) && endpoint->prefix >= 96;
    for (unsigned bit = endpoint->prefix; bit < 128; bit++)
        network.s6_addr[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
    inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? &network.s6_addr[12] : network.s6_addr, text,
              sizeof text);
    snprintf(problem, size, "%s; write %s/%u", beyond_prefix, text,
             v4 ? endpoint->prefix - 96u : endpoint->prefix);
}

/* [ADDRESS/BITS] or [ADDRESS/BITS]:PORTS */
static const char *read_bracketed(struct span text, struct ns_endpoint *endpoint)
{
    text.at++;
    text.len--;
    struct span rest = text, addr = span_until(&rest, ']');
    if (rest.len == 0)
        return "']' is missing";
    const char *problem = read_address(addr, AF_INET6, endpoint);
    if (problem || rest.len == 1)
        return problem;
    if (rest.at[1] != ':')
        return "after ']' comes :PORT";
    return read_ports((struct span){rest.at + 2, rest.len - 2}, endpoint);
}

/* fd00::1:443 is an address whose last part is 443; port 443 may be meant. An address without "::"
 * has eight parts, so there it is clear. A part of one digit is seldom a port. */
static bool ends_like_a_port(const char *text)
{
    const char *last = strrchr(text, ':') + 1;
    size_t digits = strspn(last, "0123456789");
    return strstr(text, "::") && last[-2] != ':' && last[digits] == '\0' && digits >= 2 &&
           *last != '0';
}

static bool made_of(const char *text, const char *characters)
{
    while (*text && strchr(characters, *text))
        text++;
    return *text == 0;
}

static const char *read_endpoint(const char *text, struct ns_endpoint *endpoint)
{
    struct span all = {text, strlen(text)}, rest = all;
    if (made_of(text, "0123456789-"))
        return read_ports(all, endpoint);
    if (text[0] == '[')
        return read_bracketed(all, endpoint);
    if (!made_of(text, "0123456789abcdefABCDEF.:/-"))
        return "host names, wildcards and zones are not allowed";
    struct span addr = span_until(&rest, ':');
    if (rest.len == 0)
        return read_address(addr, AF_INET, endpoint);
    if (memchr(rest.at + 1, ':', rest.len - 1)) {
        endpoint->ends_like_a_port = ends_like_a_port(text);
        return read_address(all, AF_INET6, endpoint);
    }
    const char *problem = read_address(addr, AF_INET, endpoint);
    return problem ? problem : read_ports((struct span){rest.at + 1, rest.len - 1}, endpoint);
}

/* Frequent mistakes have messages of their own. */
static const char *judge_form(const char *text)
{
    if (*text == '\0')
        return "it is empty; leave the key out for any address and port";
    if (strstr(text, "://"))
        return "it is a URL; write the address and the port alone, such as 10.0.0.1:80 or "
               "[fd00::1]:80";
    if (strpbrk(text, ",;"))
        return "it is several in one string; write a list, such as [\"10.0.0.1\", \"10.0.0.2\"]";
    if (strpbrk(text, " \t\r\n\v\f"))
        return "it has a blank; write an endpoint without blanks, and several of them as a list";
    return NULL;
}

/* The ports of ":80" and "*:80"; NULL if text is neither. */
static const char *ports_of_any(const char *text)
{
    const char *ports = text + (*text == '*');
    return *ports == ':' && ports[1] && made_of(ports + 1, "0123456789-") ? ports + 1 : NULL;
}

int ns_endpoint_parse(const char *text, struct ns_endpoint *endpoint, char *problem, size_t size)
{
    *endpoint = (struct ns_endpoint){.port_low = 0, .port_high = 65535};
    const char *wrong = judge_form(text), *ports = ports_of_any(text);
    if (ports)
        snprintf(problem, size, "for any address write the port alone: \"%s\"", ports);
    else if (wrong)
        snprintf(problem, size, "%s", wrong);
    if (ports || wrong)
        return -EINVAL;
    wrong = read_endpoint(text, endpoint);
    if (!wrong)
        return 0;
    if (wrong == beyond_prefix)
        tell_network(endpoint, problem, size);
    else
        snprintf(problem, size,
                 "%s; allowed are ADDRESS, ADDRESS/BITS, PORT, LOW-HIGH, "
                 "ADDRESS[/BITS]:PORT[-HIGH], and for IPv6 with a port [ADDRESS/BITS]:PORT",
                 wrong);
    return -EINVAL;
}

char *ns_endpoint_tell_port(const struct ns_endpoint *endpoint, char *buffer, size_t size)
{
    const uint8_t *bytes = endpoint->addr.s6_addr;
    static const uint8_t zeros[12];
    unsigned high = bytes[12] * 256u + bytes[13], low = bytes[14] * 256u + bytes[15];
    char address[INET6_ADDRSTRLEN];
    /* inet_ntop would write the last four bytes of these as an IPv4 address. */
    if (memcmp(bytes, zeros, sizeof zeros) == 0)
        snprintf(address, sizeof address, "::%x:%x", high, low);
    else if (IN6_IS_ADDR_V4MAPPED(&endpoint->addr))
        snprintf(address, sizeof address, "::ffff:%x:%x", high, low);
    else
        inet_ntop(AF_INET6, &endpoint->addr, address, sizeof address);
    const char *port = strrchr(address, ':') + 1;
    snprintf(buffer, size, "%s is an address, of any port; if %s is the port, write [%.*s]:%s",
             address, port, (int)(port - address - 1), address, port);
    return buffer;
}
