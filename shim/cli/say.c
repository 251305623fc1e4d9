/* SPDX-License-Identifier: MIT */
/* Owns the command's messages on stderr: one line each, which begins with the command's name. It
 * must never exit: the caller decides what a failure means. Not async-signal-safe. */
#include "cli/cli.h"

#include "cli/output.h"

#include "policy/scan.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
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

void ns_say(const char *command, const char *format, ...)
{
    char text[2 * PATH_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ns_sanitize(text);
    if (command)
        fprintf(stderr, "nagleshim %s: %s\n", command, text);
    else
        fprintf(stderr, "nagleshim: %s\n", text);
    ns_output_list("messages", text);
}
