/* SPDX-License-Identifier: MIT */
/* Follows a TCP socket from its creation to its close: chooses its rule and sets the rule's
 * options. A function that is about a descriptor does nothing in a caller that has a descriptor
 * table of its own (conn/process.h). */
#ifndef NS_SOCKET_H
#define NS_SOCKET_H

#include "conn/fds.h"
#include "policy/match.h"

#include <sys/socket.h>

/* Start-up. rules are the rules of this process; they must stay in memory. */
void ns_socket_open(const struct ns_ruleset *rules);

/* After socket() returned fd, or -1. The other arguments are socket's. */
void ns_socket_created(int fd, int domain, int type, int protocol);

/* Before connect(). Chooses the rule and sets the options that must be set before the handshake. */
void ns_socket_connecting(int fd, const struct sockaddr *remote, socklen_t len);

/* Before listen(). */
void ns_socket_listening(int fd);

/* After accept() returned fd, or -1. flags are accept4's. */
void ns_socket_accepted(int listener, int fd, int flags);

/* fd came into the process in another way: asks the kernel what it is. If it is a TCP socket, its
 * rule is chosen at its first use. NS_HANDED_ON: another process has handed it on (inherited, or in
 * a message). Otherwise a call is about to use it, and the kernel is asked only if the table does
 * not know it; NS_USED_AS_SOCKET: a call that works on sockets only. */
enum ns_arrival { NS_HANDED_ON, NS_USED, NS_USED_AS_SOCKET };
void ns_socket_arrived(int fd, enum ns_arrival how);

/* Descriptors below 64 that nobody has asked the kernel about. Each is asked about once, at the
 * first write or stream of it. (A call that works on sockets only asks about every unknown one.) */
extern _Atomic uint64_t ns_socket_unasked;

static inline bool ns_socket_may_be_inherited(int fd)
{
    uint64_t unasked = atomic_load_explicit(&ns_socket_unasked, memory_order_relaxed);
    return (unsigned)fd < 64 && unasked >> fd & 1;
}

/* Before fd is closed or replaced: removes it from the table before its number is used again. */
void ns_socket_closing(int fd);

/* From now on nothing is held on new connections, since something may write to
 * them unseen. Existing connections are changed by the caller. Returns whether this was already the
 * case. */
bool ns_socket_all_unseen(void);

/* A socket that is neither connected nor listening may be connected unseen, and a listener may
 * accept unseen. Sets the options of the rule now, if no rule asks for an address. */
void ns_socket_expect_unseen(int fd, struct ns_conn *conn);

/* After the library was disabled, it treats the socket as before. */
void ns_socket_goes_on(int fd, struct ns_conn *conn);

/* The connection object of fd; NULL if fd is not a known TCP socket. Chooses the rule of a
 * socket that came from outside. If sockets_only, the call works on sockets only: a descriptor that
 * is not in the table is looked up in the kernel. */
struct ns_conn *ns_socket_use(int fd, bool sockets_only);

/* The part of ns_socket_managed that needs more than a table lookup. */
struct ns_conn *ns_socket_managed_slowly(int fd, bool sockets_only);

/* The connection of fd if a rule applies to it, otherwise NULL. sockets_only: see ns_socket_use. */
static inline struct ns_conn *ns_socket_managed(int fd, bool sockets_only)
{
    if (!ns_fd_has_place(fd))
        return NULL;
    struct ns_conn *conn = ns_fd_lookup(fd);
    if (!ns_fd_is_conn(conn))
        return ns_fd_may_be_socket(conn) && (sockets_only || ns_socket_may_be_inherited(fd))
                   ? ns_socket_managed_slowly(fd, sockets_only)
                   : NULL;
    uint8_t kind = NS_GET(conn, kind);
    if (__builtin_expect(kind == NS_CONN_MANAGED, 1))
        return conn;
    return kind == NS_CONN_ALONE ? NULL : ns_socket_managed_slowly(fd, sockets_only);
}

#endif
