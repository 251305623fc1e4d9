/* SPDX-License-Identifier: MIT */
/* Text that another user chose. */
#ifndef NS_SANITIZE_H
#define NS_SANITIZE_H

/* Replace control characters and invalid UTF-8 by '?', in place: text that another user chose must
 * not drive the terminal or begin a line. Returns text. */
char *ns_sanitize(char *text);

#endif
