/* SPDX-License-Identifier: MIT */
/* See kernel.h. Owns nothing. Only ns_kernel_set may change a socket. */
#include "conn/kernel.h"

#include "base/raw_syscall.h"
#include "base/system.h"

#include <limits.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262 /* linux/in.h, since 5.6 */
#endif

/* Bits of type that are not the type (socket(2)). */
enum { TYPE_FLAGS = SOCK_CLOEXEC | SOCK_NONBLOCK };

bool ns_kernel_is_tcp(int domain, int type, int protocol)
{
    return (domain == AF_INET || domain == AF_INET6) && (type & ~TYPE_FLAGS) == SOCK_STREAM &&
           (protocol == 0 || protocol == IPPROTO_TCP || protocol == IPPROTO_MPTCP);
}

int ns_kernel_get(int fd, int level, int option)
{
    int value = 0;
    socklen_t len = sizeof value;
    return NS_QUIETLY(NS_REAL(getsockopt)(fd, level, option, &value, &len) == 0 ? value : -errno);
}

bool ns_kernel_has_ulp(int fd)
{
    char name[16] = "";
    socklen_t len = sizeof name;
    return NS_QUIETLY(NS_REAL(getsockopt)(fd, IPPROTO_TCP, TCP_ULP, name, &len)) == 0 && len > 0;
}

/* 0 if the kernel does not say. */
static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    NS_QUIETLY(NS_REAL(getsockopt)(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size));
    return cookie;
}

bool ns_kernel_is_same(int one, int other)
{
    uint64_t cookie = cookie_of(one);
    return cookie && cookie == cookie_of(other);
}

/* Members of struct tcp_info, as words: libc's struct is older. */
enum { UNACKED = 6, RTT = 17, ADVMSS = 21, UNSENT = 36, MIN_RTT = 37, WORDS };

/* False if the kernel does not know all of them, or has measured no round trip yet. */
static bool ask_line(int fd, uint32_t *info)
{
    socklen_t size = WORDS * sizeof *info;
    return NS_QUIETLY(NS_REAL(getsockopt)(fd, IPPROTO_TCP, TCP_INFO, info, &size)) == 0 &&
           size == WORDS * sizeof *info && info[MIN_RTT] != UINT32_MAX;
}

unsigned ns_kernel_rtt(int fd)
{
    uint32_t info[WORDS];
    return ask_line(fd, info) ? info[MIN_RTT] : 0;
}

unsigned ns_kernel_segment(int fd)
{
    enum { TIMESTAMPS = 12 }; /* bytes of this option in each segment */
    uint32_t info[WORDS];
    return ask_line(fd, info) ? info[ADVMSS] - TIMESTAMPS : UINT_MAX;
}

/* Would poll say that nothing can be written (sk_stream_is_writeable, include/net/sock.h)? The send
 * buffer counts the memory of segments: of small ones some 800 bytes each, and of those that
 * Nagle's algorithm joins only their data. */
static bool fills_buffer(int fd)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof memory;
    return NS_QUIETLY(NS_REAL(getsockopt)(fd, SOL_SOCKET, SO_MEMINFO, memory, &size)) == 0 &&
           memory[SK_MEMINFO_WMEM_QUEUED] > memory[SK_MEMINFO_SNDBUF] / 3 * 2;
}

/* Few segments fill no line: perhaps the peer delays its ACKs, and Nagle's algorithm would wait. */
bool ns_kernel_line_is_full(int fd, bool answers)
{
    enum { FEW = 8, SLACK_US = 4000, LAN_US = 1000 };
    uint32_t info[WORDS];
    return ask_line(fd, info) &&
           ((info[UNACKED] >= FEW &&
             (info[UNSENT] ||
              info[RTT] > info[MIN_RTT] + info[MIN_RTT] / (answers ? 1 : 8) + SLACK_US)) ||
            (info[MIN_RTT] > LAN_US && fills_buffer(fd)));
}

int ns_kernel_set(int fd, int level, int option, int value)
{
    const int words[2] = {value, NS_KERNEL_MAGIC};
    const bool is_nodelay = level == IPPROTO_TCP && option == TCP_NODELAY;
    const socklen_t size = is_nodelay ? sizeof words : sizeof value;
    return NS_QUIETLY(NS_REAL(setsockopt)(fd, level, option, words, size) == 0 ? 0 : -errno);
}

/* A pipe, a socket and a terminal have no offset, and that of an eventfd or timerfd stays 0. The
 * kernel's own lseek answers for a file, and asks no server (fuse_file_llseek, nfs_file_llseek). In
 * 32 bits an offset of 2 GiB or more is negative, or EOVERFLOW (fs/read_write.c). */
bool ns_kernel_is_file(int fd)
{
    long at;
    return NS_QUIETLY((at = NS_SYSTEM(SYS_lseek, fd, 0l, SEEK_CUR)) > 0 || at < -1 ||
                      (at < 0 && errno == EOVERFLOW));
}

/* Sockets have no offset. Neither have some files of FUSE, whose server this statx does not ask
 * (fs/fuse/dir.c). Only TCP knows the request; a listener refuses it (tcp_ioctl, net/ipv4/tcp.c).
 */
bool ns_kernel_may_be_tcp(int fd)
{
    struct statx found;
    int bytes;
    return NS_QUIETLY(
        NS_SYSTEM(SYS_lseek, fd, 0l, SEEK_CUR) < 0 && errno == ESPIPE &&
        NS_SYSTEM(SYS_statx, fd, "", (long)(AT_EMPTY_PATH | AT_STATX_DONT_SYNC), (long)STATX_TYPE,
                  &found) == 0 &&
        S_ISSOCK(found.stx_mode) &&
        (NS_SYSTEM(SYS_ioctl, fd, (long)SIOCOUTQNSD, &bytes) == 0 || errno == EINVAL));
}

/* Its own delayed ACK ends the mode (tcp_delack_timer_handler, net/ipv4/tcp_timer.c;
 * tcp_getsockopt, net/ipv4/tcp.c). */
bool ns_kernel_delays_acks(int fd)
{
    return ns_kernel_get(fd, IPPROTO_TCP, TCP_QUICKACK) == 0;
}

static unsigned count_bytes(int fd, long which)
{
    int bytes = 0;
    return NS_QUIETLY(NS_SYSTEM(SYS_ioctl, fd, which, &bytes)) == 0 ? (unsigned)bytes : 0;
}

unsigned ns_kernel_unread(int fd)
{
    return count_bytes(fd, FIONREAD);
}

unsigned ns_kernel_unacked(int fd)
{
    return count_bytes(fd, SIOCOUTQ);
}

/* A recv would take an error of the connection from the program, even with MSG_PEEK. The first byte
 * of struct tcp_info is the state. */
bool ns_kernel_has_ended(int fd)
{
    uint8_t state = 0;
    socklen_t size = sizeof state;
    NS_QUIETLY(NS_REAL(getsockopt)(fd, IPPROTO_TCP, TCP_INFO, &state, &size));
    bool has_fin = state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK || state == TCP_CLOSING ||
                   state == TCP_TIME_WAIT || state == TCP_CLOSE;
    return has_fin && ns_kernel_unread(fd) == 0;
}

struct ns_kernel_kind ns_kernel_ask(int fd)
{
    struct ns_kernel_kind kind = {.domain = ns_kernel_get(fd, SOL_SOCKET, SO_DOMAIN)};
    if (kind.domain != AF_INET && kind.domain != AF_INET6)
        return kind;
    kind.tcp = ns_kernel_is_tcp(kind.domain, ns_kernel_get(fd, SOL_SOCKET, SO_TYPE),
                                ns_kernel_get(fd, SOL_SOCKET, SO_PROTOCOL));
    if (!kind.tcp)
        return kind;
    kind.listens = ns_kernel_get(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1;
    kind.connected = !kind.listens && ns_kernel_remote(fd).known;
    int status = NS_QUIETLY(NS_REAL(fcntl)(fd, F_GETFL));
    kind.nonblock = status >= 0 && (status & O_NONBLOCK);
    return kind;
}

/* Not by libc: tsocks's own getpeername() reads from a connection that it has not finished, and
 * torsocks's own syscall() calls a null pointer. */
static struct ns_address name_of(int fd, long number)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    long result = ns_raw_syscall(number, fd, (long)&address, (long)&len, 0, 0, 0);
    return ns_address_from((struct sockaddr *)&address, result == 0 ? len : 0);
}

struct ns_address ns_kernel_local(int fd)
{
    return name_of(fd, SYS_getsockname);
}

struct ns_address ns_kernel_remote(int fd)
{
    return name_of(fd, SYS_getpeername);
}

/* The kernel copies the signals before it refuses the operation -1 (rt_sigprocmask,
 * kernel/signal.c). */
bool ns_kernel_can_read(const void *address, size_t size, uintptr_t *known)
{
    enum { SET_SIZE = 8, PAGE = 4096 }; /* larger pages consist of these */
    uintptr_t at = (uintptr_t)address & -(uintptr_t)SET_SIZE, end = (uintptr_t)address + size;
    int saved = errno;
    bool can = at && end >= at; /* a null pointer would be no signals to copy */
    for (; can && at < end; at = (at + PAGE) & -(uintptr_t)PAGE) {
        can = (at ^ *known) < PAGE ||
              NS_SYSTEM(SYS_rt_sigprocmask, -1l, at, NULL, (long)SET_SIZE) == 0 || errno != EFAULT;
        *known = at;
    }
    errno = saved;
    return can;
}
