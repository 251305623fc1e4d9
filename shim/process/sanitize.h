/* SPDX-License-Identifier: MIT */
/* Text that another user chose. */
#ifndef NS_SANITIZE_H
#define NS_SANITIZE_H

#include <stddef.h>

/* The length of the UTF-8 sequence at p; 0 if it is invalid (RFC 3629: no overlong forms, no
 * surrogates). Pure. */
size_t ns_utf8_length(const char *p, size_t left);

/* Replace control characters and invalid UTF-8 by '?', in place: text that another user chose must
 * not drive the terminal or begin a line. Returns text. */
char *ns_sanitize(char *text);

#endif
