/* SPDX-License-Identifier: MIT */
/* Shared by the files of exported functions. Each function finds the connection, runs the
 * before-hook, makes the real call and runs the after-hook. None contains mode-specific code. */
#ifndef NS_CALLS_H
#define NS_CALLS_H

#include "traffic/in.h"
#include "socket/handover.h"
#include "socket/socket.h"
#include "traffic/out.h"
#include "conn/process.h"
#include "base/wrapper.h"
#include "traffic/pending.h"

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

/* Before a call that may block, and cannot be made without waiting. */
static inline void ns_before_wait(void)
{
    ns_thread.waits++;
    if (ns_pending_any())
        ns_flush_pending();
}

/* Before accept() or accept4() on fd, and before connect(). */
void ns_before_accept(int fd);
void ns_before_connect(int fd, const struct sockaddr *remote, socklen_t len);

/* After a successful fcntl(). */
void ns_after_fcntl(int fd, int command, long argument, int result);

/* Before dup2 or dup3 puts fd onto copy: forgets copy if the call will succeed. */
void ns_before_replacing(int fd, int copy);

/* Before close_range with these arguments. */
void ns_before_close_range(unsigned low, unsigned high, int flags);

/* Before clone() with these flags. */
void ns_before_clone(unsigned long flags);

/* In a child that has its own memory. */
void ns_in_child(void);

/* Before this process ends. */
void ns_before_end(void);

/* After ns_real_load_all. */
void ns_stdio_start(void);

/* stdio may read from fd. */
void ns_stdio_reads(int fd);

/* Start-up: looks for liburing. */
void ns_loader_start(void);

/* seccomp(2), for which libc has no function. */
long ns_seccomp(long operation, long flags, long program);

/* Calls visit for each descriptor in a message (SCM_RIGHTS) that is about to be sent on fd, or was.
 * Without a fault if the program's pointers are bad. */
void ns_rights_sent(int fd, const struct msghdr *message, void (*visit)(int fd));

/* After message was received: descriptors in it are looked up. */
void ns_rights_received(const struct msghdr *message);

#endif
