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

/* After socket() gave fd. */
void ns_life_created(int fd, int domain, int type, int protocol);

/* Before connect(): choose the rule, set what has to be set before the handshake. */
void ns_life_connecting(int fd, const struct sockaddr *remote, socklen_t len);

/* Before listen(). */
void ns_life_listening(int fd);

/* After accept() gave fd; flags are accept4's. */
void ns_life_accepted(int listener, int fd, int flags);

/* fd came into the process by a way that we did not see. It is given its rule at its first use. */
void ns_life_inherited(int fd);

/* Before fd is closed or replaced: forget it, before its number can be used again. */
void ns_life_closing(int fd);

/* The same for descriptors low to high, both included. */
void ns_life_closing_range(unsigned low, unsigned high);

/* A connection whose TCP_NODELAY is ours has the bound on its delayed ACK, and no other has: so
 * whoever else comes to have it does not take that for the program's own. */
void ns_life_mark_as_ours(int fd, struct ns_conn *conn);

/* Some socket is not as it is to be handed on: the program has set TCP_NODELAY itself, say. */
void ns_life_changed(void);

/* Has that been called since this was? */
bool ns_life_take_changed(void);

/* From now on no connection is to hold or join bytes, since somebody may write to any of them past
 * us. Returns whether that was so before. Those that are known already are the caller's. */
bool ns_life_all_unseen(void);

/* The first use of a socket that came from outside, or of a fresh one that was connected by a way
 * that we did not see. Returns conn if a rule governs it as a connection. */
struct ns_conn *ns_life_adopt(int fd, struct ns_conn *conn);

/* The first use, by a call that only sockets know, of a descriptor that nobody has told us of. */
void ns_life_meet(int fd);

/* conn, which fd names, if a rule governs it as a connection, and NULL for everything else. */
static inline struct ns_conn *ns_life_if_ruled(int fd, struct ns_conn *conn)
{
    if (!ns_fd_is_conn(conn))
        return NULL;
    uint8_t kind = NS_GET(conn, kind);
    if (__builtin_expect(kind == NS_CONN_RULED, 1))
        return conn;
    return kind <= NS_CONN_ALONE ? NULL : ns_life_adopt(fd, conn);
}

/* The connection of fd if a rule governs it. */
static inline struct ns_conn *ns_life_ruled(int fd)
{
    return ns_fd_is_open(fd) ? ns_life_if_ruled(fd, ns_fd_look(fd)) : NULL;
}

/* The same for a call that only sockets know: one of which nobody has told us is met. */
static inline struct ns_conn *ns_life_ruled_socket(int fd)
{
    if (!ns_fd_is_open(fd))
        return NULL;
    struct ns_conn *conn = ns_fd_look(fd);
    if (__builtin_expect(conn == NS_FD_UNKNOWN, 0)) {
        ns_life_meet(fd);
        conn = ns_fd_look(fd);
    }
    return ns_life_if_ruled(fd, conn);
}

/* In front of the other calls that only sockets know. */
static inline void ns_life_uses_socket(int fd)
{
    if (__builtin_expect(!ns_fd_is_known(fd), 0))
        ns_life_meet(fd);
}

#endif
