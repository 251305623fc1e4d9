/* SPDX-License-Identifier: MIT */
/* The exported calls that make, connect, share and close descriptors. As async-signal-safe as the
 * calls themselves. What a child of vfork, which shares this memory, does to its descriptors must
 * not change the table. */
#include "calls/calls.h"
#include "conn/kernel.h"

#include <linux/close_range.h>
#include <stdio.h>
#include <string.h>

NS_EXPORT int socket(int domain, int type, int protocol)
{
    int fd = NS_REAL(socket)(domain, type, protocol);
    ns_socket_created(fd, domain, type, protocol);
    return fd;
}

/* accept waits unless a connection is ready. */
void ns_before_accept(int fd)
{
    ns_thread.waits++;
    ns_flush_unless_ready(fd, NULL, POLLIN);
}

NS_EXPORT int accept(int listener, struct sockaddr *remote, socklen_t *len)
{
    ns_before_accept(listener);
    int fd = NS_REAL(accept)(listener, remote, len);
    ns_socket_accepted(listener, fd, 0);
    return fd;
}

NS_EXPORT int accept4(int listener, struct sockaddr *remote, socklen_t *len, int flags)
{
    ns_before_accept(listener);
    int fd = NS_REAL(accept4)(listener, remote, len, flags);
    ns_socket_accepted(listener, fd, flags);
    return fd;
}

void ns_before_connect(int fd, const struct sockaddr *remote, socklen_t len)
{
    ns_before_wait();
    ns_socket_connecting(fd, remote, len);
}

NS_EXPORT int connect(int fd, const struct sockaddr *remote, socklen_t len)
{
    ns_before_connect(fd, remote, len);
    return NS_REAL(connect)(fd, remote, len);
}

NS_EXPORT int listen(int fd, int backlog)
{
    ns_socket_listening(fd);
    return NS_REAL(listen)(fd, backlog);
}

NS_EXPORT int close(int fd)
{
    ns_socket_closing(fd);
    return NS_REAL(close)(fd);
}

/* CLOSE_RANGE_CLOEXEC and invalid calls close nothing. */
void ns_before_close_range(unsigned low, unsigned high, int flags)
{
    if ((unsigned)flags & ~CLOSE_RANGE_UNSHARE || low > high || ns_has_other_fds())
        return;
    if (flags && ns_process_has_threads()) {
        ns_vfork_parent = NS_PROCESS_NONE; /* other threads keep the table */
        return;
    }
    for (unsigned fd = low; fd <= high && fd < atomic_load(&ns_fd_used); fd++)
        if (ns_fd_lookup((int)fd) != NS_FD_UNKNOWN)
            ns_socket_closing((int)fd);
}

NS_EXPORT int close_range(unsigned low, unsigned high, int flags)
{
    if (ns_real_has(NS_CALL_close_range)) /* otherwise it fails */
        ns_before_close_range(low, high, flags);
    return NS_REAL(close_range)(low, high, flags);
}

/* libc closes it without close(). */
NS_EXPORT int fclose(FILE *stream)
{
    int fd = NS_QUIETLY(fileno(stream));
    if (fd >= 0)
        ns_socket_closing(fd);
    return NS_REAL(fclose)(stream);
}

NS_EXPORT int dup(int fd)
{
    int copy = NS_REAL(dup)(fd);
    ns_handover_duplicated(fd, copy);
    return copy;
}

/* dup2 and dup3 close copy if fd is valid. */
void ns_before_replacing(int fd, int copy)
{
    struct ns_conn *conn = fd == copy ? NULL : ns_fd_conn(copy);
    /* After a seccomp filter fcntl could kill the process. */
    if (conn && ns_conn_is_tracked(conn) && !ns_has_other_fds() &&
        (ns_process_is_disabled() || NS_QUIETLY(NS_REAL(fcntl)(fd, F_GETFD)) >= 0))
        ns_socket_closing(copy);
}

NS_EXPORT int dup2(int fd, int copy)
{
    ns_before_replacing(fd, copy);
    int result = NS_REAL(dup2)(fd, copy);
    ns_handover_duplicated(fd, result);
    return result;
}

NS_EXPORT int dup3(int fd, int copy, int flags)
{
    if (!(flags & ~O_CLOEXEC))
        ns_before_replacing(fd, copy);
    int result = NS_REAL(dup3)(fd, copy, flags);
    ns_handover_duplicated(fd, result);
    return result;
}

NS_EXPORT FILE *fdopen(int fd, const char *mode)
{
    FILE *stream = NS_REAL(fdopen)(fd, mode);
    if (!stream)
        return NULL;
    ns_handover_unseen(fd); /* stdio reads and writes without read() and write() */
    if (mode[0] == 'r' || strchr(mode, '+'))
        ns_stdio_reads(fd);
    return stream;
}

/* --- descriptors in messages (SCM_RIGHTS, unix(7)) --- */

/* Calls visit for each descriptor in the message. Lengths are read as 32 bits, the kernel's limit:
 * in musl the members are that wide, followed by padding that is not cleared. */
static void each_right(const struct msghdr *message, void (*visit)(int fd))
{
    const unsigned char *at = message->msg_control;
    size_t left = at ? (uint32_t)message->msg_controllen : 0;
    while (left >= sizeof(struct cmsghdr)) {
        struct cmsghdr header;
        memcpy(&header, at, sizeof header);
        size_t len = (uint32_t)header.cmsg_len;
        if (len < sizeof header || len > left)
            return;
        if (header.cmsg_level == SOL_SOCKET && header.cmsg_type == SCM_RIGHTS)
            for (size_t i = CMSG_LEN(0); i + sizeof(int) <= len; i += sizeof(int)) {
                int fd;
                memcpy(&fd, at + i, sizeof fd);
                visit(fd);
            }
        size_t step = CMSG_ALIGN(len);
        if (step > left)
            return;
        at += step;
        left -= step;
    }
}

void ns_rights_sent(int fd, const struct msghdr *message, void (*visit)(int fd))
{
    enum { MOST = 128 * 1024 }; /* the kernel refuses larger ones (net.core.optmem_max) */
    uintptr_t known = (uintptr_t)&known;
    if (ns_fd_any() && !ns_process_is_disabled() && ns_fd_has_place(fd) &&
        ns_fd_lookup(fd) == NS_FD_UNIX && ns_kernel_can_read(message, sizeof *message, &known) &&
        (uint32_t)message->msg_controllen <= MOST &&
        ns_kernel_can_read(message->msg_control, (uint32_t)message->msg_controllen, &known))
        each_right(message, visit);
}

static void arrives(int fd)
{
    ns_socket_arrived(fd, NS_HANDED_ON);
}

void ns_rights_received(const struct msghdr *message)
{
    each_right(message, arrives);
}
