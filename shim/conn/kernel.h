/* SPDX-License-Identifier: MIT */
/* Questions to the kernel about a socket, and the way to set an option. */
#ifndef NS_KERNEL_H
#define NS_KERNEL_H

#include "policy/match.h"

/* Do socket()'s arguments make a TCP or MPTCP socket? */
bool ns_kernel_is_tcp(int domain, int type, int protocol);

/* Is fd a file in use, whose reads and writes do not wait for another program? False at its start.
 */
bool ns_kernel_is_file(int fd);

/* May fd be a TCP or MPTCP socket? Finds out without a socket call, and asks no file system. */
bool ns_kernel_may_be_tcp(int fd);

struct ns_kernel_kind {
    bool tcp; /* TCP or MPTCP over IPv4 or IPv6 */
    bool listens, connected, nonblock;
    int domain;
};

/* What fd is, by SO_DOMAIN, SO_TYPE and SO_PROTOCOL (socket(7)). domain is -errno if fd is not a
 * socket. One system call if fd is not a socket of IPv4 or IPv6. */
struct ns_kernel_kind ns_kernel_ask(int fd);

/* getsockname and getpeername. known is false if there is no such address. */
struct ns_address ns_kernel_local(int fd);
struct ns_address ns_kernel_remote(int fd);

/* Can the program read these bytes? Without a fault if it cannot. known: an address that can be
 * read, as of the caller's stack. A system call for each page that is not that of known, which
 * becomes the last one. */
bool ns_kernel_can_read(const void *address, size_t size, uintptr_t *known);

/* Are two descriptors the same socket? What the library sets on one of them would otherwise be
 * taken for the program's own on the other. */
bool ns_kernel_is_same(int one, int other);

/* The shortest round trip in microseconds (TCP_INFO); 0 if the kernel does not say. */
unsigned ns_kernel_rtt(int fd);

/* The bytes of the peer's largest segment: the MSS that this end has advertised (TCP_INFO), since
 * TCP_MAXSEG is that of this end's own segments. UINT_MAX if the kernel does not say. */
unsigned ns_kernel_segment(int fd);

/* Is the kernel in interactive mode, in which it delays ACKs? */
bool ns_kernel_delays_acks(int fd);

/* Has the peer ended its stream, and was all of it read? */
bool ns_kernel_has_ended(int fd);

/* The bytes in the receive buffer; and those that were written and not acknowledged. */
unsigned ns_kernel_unread(int fd);
unsigned ns_kernel_unacked(int fd);

/* Do segments queue up before a bottleneck of the line? False if the kernel does not say. answers:
 * the program reads from it, too. Then only a round trip of more than twice the shortest says so,
 * as round trips vary, and a request would wait for the answers before it. */
bool ns_kernel_line_is_full(int fd, bool answers);

/* The value of an integer option, or -errno. Only for options that are never negative. */
int ns_kernel_get(int fd, int level, int option);

/* Does fd have an upper-layer protocol (kTLS, TCP_ULP)? */
bool ns_kernel_has_ulp(int fd);

/* The second word of a TCP_NODELAY's value, which the kernel ignores. It tells the programs of
 * `nagleshim cure` (cure/code.h) that the library or the command makes the call. */
enum { NS_KERNEL_MAGIC = 0x6e61676c };

/* Set an integer option. 0 or -errno. */
int ns_kernel_set(int fd, int level, int option, int value);

#endif
