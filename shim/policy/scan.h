/* SPDX-License-Identifier: MIT */
/* Is a text JSON? Stricter than cJSON, and finds the first wrong byte. Pure; async-signal-safe
 * except ns_scan_text, which uses snprintf. */
#ifndef NS_POLICY_SCAN_H
#define NS_POLICY_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* True if len bytes are JSON. Otherwise *at is the first wrong place, and message has the mistake
 * and what is allowed. */
bool ns_scan_text(const char *text, size_t len, size_t *at, char *message, size_t size);

/* The length of the UTF-8 sequence at p; 0 if it is invalid (RFC 3629: no overlong forms, no
 * surrogates). */
size_t ns_scan_utf8(const char *p, size_t left);

/* Is c whitespace in JSON? */
bool ns_scan_is_blank(char c);

#endif
