/* SPDX-License-Identifier: MIT */
/* What the files of exported functions share. No policy here: look up, tell what is about to
 * happen, call, tell what came of it. */
#ifndef NS_CALLS_H
#define NS_CALLS_H

#include "traffic/held.h"
#include "traffic/in.h"
#include "socket/handover.h"
#include "socket/socket.h"
#include "traffic/out.h"
#include "conn/process.h"
#include "base/wrapper.h"
#include "traffic/flush.h"

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

/* Before a call that will wait, whatever for. */
static inline void ns_before_wait(void)
{
    ns_epoch_ends();
    if (ns_pending_any())
        ns_flush_pending();
}

/* Before a look that may also be a busy wait (waits: ns_probe_begins) and does not tell what it
 * found. */
static inline void ns_before_probe(void)
{
    bool waits = ns_probe_begins();
    if (ns_pending_any()) {
        if (waits)
            ns_flush_pending();
        else
            ns_flush_quiet();
    }
}

/* Before dup2 or one of its kin puts fd onto copy: forget copy, if the call is going to work. */
void ns_before_replacing(int fd, int copy);

/* Before close_range. */
void ns_before_close_range(unsigned low, unsigned high, int flags);

/* Before a child that shares our sockets is made; replaced: to become another program. */
void ns_before_child(bool replaced);

/* The same for a child of clone(), which shares what its flags say. */
void ns_before_clone(unsigned long flags);

/* In a child that has its own memory. */
void ns_in_child(void);

/* Before this process becomes another program, and before it ends: others may have its sockets. */
void ns_before_exec(void);
void ns_before_end(void);

/* Before a seccomp filter is installed. */
void ns_before_filter(void);

/* After message was sent or received: of descriptors that left (SCM_RIGHTS) others will use the
 * sockets; those that came in are looked at anew. Lengths as the kernel has read them. */
void ns_rights_sent(const struct msghdr *message);
void ns_rights_received(const struct msghdr *message);

#endif
