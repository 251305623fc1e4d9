/* SPDX-License-Identifier: MIT */
/* See sanitize.h. Owns nothing. */
#include "process/sanitize.h"

#include <stdbool.h>
#include <string.h>

size_t ns_utf8_length(const char *p, size_t left)
{
    unsigned char c[4] = {0};
    if ((unsigned char)*p < 0x80)
        return 1;
    memcpy(c, p, left < 4 ? left : 4);
    if (c[0] >= 0xC2 && c[0] <= 0xDF)
        return (c[1] & 0xC0) == 0x80 ? 2 : 0;
    if ((c[1] & 0xC0) != 0x80 || (c[2] & 0xC0) != 0x80)
        return 0;
    if (c[0] >= 0xE0 && c[0] <= 0xEF) {
        bool overlong = c[0] == 0xE0 && c[1] < 0xA0;
        bool surrogate = c[0] == 0xED && c[1] > 0x9F;
        return overlong || surrogate ? 0 : 3;
    }
    if (c[0] < 0xF0 || c[0] > 0xF4 || (c[3] & 0xC0) != 0x80)
        return 0;
    return (c[0] == 0xF0 && c[1] < 0x90) || (c[0] == 0xF4 && c[1] > 0x8F) ? 0 : 4;
}

char *ns_sanitize(char *text)
{
    size_t left = strlen(text), n;
    for (char *at = text; left > 0; at += n, left -= n) {
        const unsigned char *c = (const unsigned char *)at;
        n = ns_utf8_length(at, left);
        /* C0, DEL, and C1 in UTF-8. A terminal that is not in UTF-8 reads single bytes as C1. */
        if (n == 0 || *c < 0x20 || *c == 0x7f || (c[0] == 0xc2 && c[1] <= 0x9f)) {
            n = n ? n : 1;
            memset(at, '?', n);
        }
    }
    return text;
}
