/* SPDX-License-Identifier: MIT */
/* The lexical rules of JSON that cJSON does not enforce. Pure; async-signal-safe. */
#ifndef NS_POLICY_SCAN_H
#define NS_POLICY_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* How far a scan came, and which containers are open there. */
struct ns_scan {
    size_t at;       /* where the problem is, or len */
    size_t token;    /* where the token with the problem starts */
    unsigned depth;  /* objects and lists that are open at `at` */
    unsigned arrays; /* bit n: the container at depth n + 1 is a list */
};

/* Scan len bytes. Returns NULL, or what is wrong at scan->at and what is allowed there. */
const char *ns_scan_text(const char *text, size_t len, struct ns_scan *scan);

/* Is the innermost open container an object? */
bool ns_scan_in_object(const struct ns_scan *scan);

/* The length of the UTF-8 sequence at p; 0 if it is invalid (RFC 3629: no overlong forms, no
 * surrogates). */
size_t ns_scan_utf8(const char *p, size_t left);

/* Is c whitespace in JSON? */
bool ns_scan_is_blank(char c);

#endif
