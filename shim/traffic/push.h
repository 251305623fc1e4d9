/* SPDX-License-Identifier: MIT */
/* The only place that makes a socket send: bytes that are held, and ACKs that are owed. Nothing
 * here blocks, allocates or takes a lock; errno is unchanged; all is async-signal-safe. */
#ifndef NS_PUSH_H
#define NS_PUSH_H

#include "conn/fds.h"

/* May any connection of this process be joined (ns_sock.joins)? */
extern _Atomic bool ns_push_joined;

/* Milliseconds, for ns_burst. */
uint16_t ns_push_clock(void);

/* Take TCP_NODELAY off, so that Nagle joins what follows, and have this thread's next wait push it.
 * For a connection whose TCP_NODELAY is ours. */
void ns_join(int fd, struct ns_sock *slot);

/* Nagle may hold bytes here from now on (flush-before-read): the same but for the option. */
void ns_join_owed(int fd, struct ns_sock *slot);

/* Send what is held on fd, if anything is. */
void ns_push(int fd, struct ns_sock *slot);

/* The same where the thread that joined it has neither waited nor been answered, but after a pause
 * writes on. */
void ns_push_paused(int fd, struct ns_sock *slot);

/* What the thread holds on fd is over since it turns to another socket. */
void ns_push_turned(int held);

/* Send the ACK that is owed on fd, if one is. */
void ns_acknowledge(int fd, struct ns_sock *slot);

#endif
