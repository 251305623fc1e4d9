/* SPDX-License-Identifier: MIT */
#ifndef NS_HANDLER_H
#define NS_HANDLER_H

#include <signal.h>
#include <stdbool.h>

/* May this thread be inside a signal handler? false is certain, but for a handler that uses more
 * than 64 KiB of stack. Some seventy system calls; never blocks, errno unchanged. */
bool ns_may_be_in_handler(void);

/* Has the process a handler, of a signal that libc has not for itself, of which is says so (NULL:
 * any)? Some sixty system calls; async-signal-safe, errno unchanged. */
bool ns_has_handler(bool (*is)(int number, const struct sigaction *action));

#endif
