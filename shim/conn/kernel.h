/* SPDX-License-Identifier: MIT */
/* What we ask the kernel about a socket: what it is, who its ends are, what its options say; and the way to set an option. Nobody else asks, but the log about stderr (log.c), a
 * wait whether it would be one (flush.c), and option.c for the application. errno is unchanged by
 * all of these; none blocks; all are async-signal-safe. */
#ifndef NS_KERNEL_H
#define NS_KERNEL_H

#include "policy/match.h"

/* Do socket()'s arguments make a TCP or MPTCP socket? */
bool ns_kernel_is_tcp(int domain, int type, int protocol);

/* Is fd still a TCP or MPTCP socket, of whatever domain? One system call. */
bool ns_kernel_is_still_tcp(int fd);

/* Is fd a regular file? */
bool ns_kernel_is_file(int fd);

struct ns_kernel_kind {
    bool tcp; /* TCP or MPTCP over IPv4 or IPv6 */
    bool listens, connected, nonblock;
    int domain;
};

/* Is fd a socket at all? Asked by fstat, which a seccomp filter that forbids the network's calls
 * allows. */
bool ns_kernel_is_socket(int fd);

/* Ask the kernel what fd is: SO_DOMAIN, SO_TYPE, SO_PROTOCOL (socket(7)). Anything but a TCP socket
 * costs one system call. */
struct ns_kernel_kind ns_kernel_ask(int fd);

/* getsockname and getpeername, as the matcher wants them. */
struct ns_address ns_kernel_local(int fd);
struct ns_address ns_kernel_remote(int fd);

/* One integer option, or -errno; a value below 0 is not told from an error, so only for options
 * that have none. */
int ns_kernel_get(int fd, int level, int option);

/* Has fd an upper-layer protocol (kTLS, TCP_ULP)? */
bool ns_kernel_has_ulp(int fd);

/* 0 or -errno. */
int ns_kernel_set(int fd, int level, int option, int value);

/* What a fresh socket of this domain would say to setsockopt(value) (0 or -errno; 1 if none could
 * be made), and then to getsockopt (*answer): the kernel's own doubling, bounds and permissions.
 * Makes a socket and closes it; its descriptor is never below 3. */
int ns_kernel_would_be(int domain, int level, int option, int value, int *answer);

#endif
