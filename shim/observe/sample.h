/* SPDX-License-Identifier: MIT */
/* What the observing library asks the kernel about a socket. Nothing here blocks; errno is
 * unchanged; async-signal-safe. */
#ifndef NS_SAMPLE_H
#define NS_SAMPLE_H

#include "judge/look.h"

#include <stdbool.h>

/* SO_COOKIE of fd, which no other socket ever has; 0: fd is not a socket. */
uint64_t ns_sample_cookie(int fd);

/* Does a call on fd with recv's flags wait if there is nothing to read? */
bool ns_sample_blocks(int fd, int flags);

/* How many bytes written to fd no segment has carried yet; 0 also if the kernel does not say. */
uint32_t ns_sample_unsent(int fd);

/* Sample fd (TCP_INFO). more: its last write had MSG_MORE. False if the kernel does not answer. */
bool ns_sample_take(int fd, bool more, enum ns_look_kind kind, struct ns_look *sample);

#endif
