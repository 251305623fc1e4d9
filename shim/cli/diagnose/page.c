/* SPDX-License-Identifier: MIT */
/* Owns the page: config/diagnosis.html, which is part of this program, with the JSON inserted. A
 * process may be named "</script>", so that '<' is written as an escape sequence of JSON. Not
 * async-signal-safe. */
#include "cli/diagnose/report.h"

#include <string.h>

#define PLACE "@DIAGNOSIS@"

/* The Makefile knows that this file depends on the page. */
__asm__(".pushsection .rodata\n"
        ".global ns_page\n"
        "ns_page:\n"
        ".incbin \"config/diagnosis.html\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char ns_page[] __attribute__((visibility("hidden")));

void ns_report_write_page(FILE *stream, const char *json)
{
    const char *place = strstr(ns_page, PLACE);

    fwrite(ns_page, 1, (size_t)(place - ns_page), stream);
    for (; *json; json++) {
        if (*json == '<')
            fputs("\\u003c", stream);
        else
            putc(*json, stream);
    }
    fputs(place + strlen(PLACE), stream);
}
