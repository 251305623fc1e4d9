/* SPDX-License-Identifier: MIT */
#ifndef NS_HANDLER_H
#define NS_HANDLER_H

#include <stdbool.h>

/* May this thread be inside a signal handler? false is certain, but for a handler that uses more
 * than 64 KiB of stack. Some seventy system calls; never blocks, errno unchanged. */
bool ns_may_be_in_handler(void);

#endif
