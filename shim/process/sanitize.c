/* SPDX-License-Identifier: MIT */
/* See sanitize.h. Owns nothing. */
#include "process/sanitize.h"

#include "policy/scan.h"

#include <string.h>

char *ns_sanitize(char *text)
{
    size_t left = strlen(text), n;
    for (char *at = text; left > 0; at += n, left -= n) {
        const unsigned char *c = (const unsigned char *)at;
        n = ns_scan_utf8(at, left);
        /* C0, DEL, and C1 in UTF-8. A terminal that is not in UTF-8 reads single bytes as C1. */
        if (n == 0 || *c < 0x20 || *c == 0x7f || (c[0] == 0xc2 && c[1] <= 0x9f)) {
            n = n ? n : 1;
            memset(at, '?', n);
        }
    }
    return text;
}
