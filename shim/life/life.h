/* SPDX-License-Identifier: MIT */
/* A socket's life: when its rule is chosen, what the rule sets there, and when it is forgotten.
 * Nothing here blocks, allocates with malloc or takes a lock; errno is unchanged by all of it; all
 * is async-signal-safe. */
#ifndef NS_LIFE_H
#define NS_LIFE_H

#include "conn/fds.h"
#include "policy/match.h"

#include <sys/socket.h>

/* Start-up: the rules of this process. They must stay for good. */
void ns_life_open(const struct ns_ruleset *rules);

/* Leave every socket alone from now on, without any system call of ours after this one: push what
 * is held, and give back what was set. The table stays, for what cannot be given back. */
void ns_life_stand_aside(void);
bool ns_life_is_aside(void);

/* After socket() gave fd. */
void ns_life_created(int fd, int domain, int type, int protocol);

/* Before connect(): choose the rule, set what has to be set before the handshake. */
void ns_life_connecting(int fd, const struct sockaddr *remote, socklen_t len);

/* Before listen(). */
void ns_life_listening(int fd);

/* After accept() gave fd; flags are accept4's. */
void ns_life_accepted(int listener, int fd, int flags);

/* fd came into the process by a way that we did not see. At start-up touch says whether an
 * inherited connection is given its rule at once, since its reads and writes may be stdio's; if
 * not, at its first use. */
void ns_life_inherited(int fd, bool touch);

/* from has a duplicate, to, in this process. */
void ns_life_duplicated(int from, int to);

/* Before fd is closed or replaced: forget it, before its number can be used again. */
void ns_life_closing(int fd);

/* The same for descriptors low to high, both included. */
void ns_life_closing_range(unsigned low, unsigned high);

/* Writes to fd will come that we do not see (stdio, another process): push, set what would be set
 * later, and never hold or join there again. */
void ns_life_unseen(int fd);

/* The same of every connection, now and from now on (io_uring). */
void ns_life_all_unseen(void);

/* Before a fork or an exec: push what any thread holds, and give the kernel what waits for a rule.
 * replaced: another program will use the sockets, perhaps without us. */
void ns_life_handing_on(bool replaced);

/* In a child of fork. */
void ns_life_forked(void);

/* A call on fd failed in a way that a TCP socket does not fail: find out what fd is. */
void ns_life_heal(int fd, struct ns_sock *slot);

/* What is to be handed on has changed: the program has set TCP_NODELAY itself. */
void ns_life_changed(void);

/* Make the kernel's TCP_NODELAY what the slot's rule wants. */
void ns_life_enforce_nodelay(int fd, struct ns_sock *slot);

/* The first use of a socket that came from outside, or of a fresh one that was connected by a way
 * that we did not see. Returns the slot if a rule governs it as a connection. */
struct ns_sock *ns_life_adopt(int fd, struct ns_sock *slot);

/* The first use, by a call that only sockets know, of a descriptor that nobody has told us of. */
void ns_life_meet(int fd);

/* The slot of a connection that a rule governs, NULL for everything else. */
static inline struct ns_sock *ns_life_ruled(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (!slot)
        return NULL;
    uint8_t kind = NS_GET(slot, kind);
    if (__builtin_expect(kind <= NS_FD_OTHER, 1))
        return NULL;
    if (kind == NS_FD_RULED)
        return slot;
    return ns_life_adopt(fd, slot);
}

/* In front of every call that only sockets know. */
static inline void ns_life_uses_socket(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (__builtin_expect(!slot || NS_GET(slot, kind) == NS_FD_UNKNOWN, 0))
        ns_life_meet(fd);
}

#endif
