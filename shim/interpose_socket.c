/* SPDX-License-Identifier: MIT */
/* The exported calls that make, connect, share and close descriptors. As async-signal-safe as they
 * are. A child of vfork shares our memory: what it does to its descriptors must not reach the
 * table. */
#include "interpose.h"
#include "vfork.h"

#include <limits.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>

NS_EXPORT int socket(int domain, int type, int protocol)
{
    int fd = NS_REAL(socket)(domain, type, protocol);
    if (fd >= 0 && !ns_in_vfork_child())
        ns_engine_created(fd, domain, type, protocol);
    return fd;
}

/* accept waits for a connection, unless there is one. */
static void before_accept(int fd)
{
    if (ns_owes())
        ns_before_wait_for(fd, POLLIN);
}

static int after_accept(int listener, int fd, int flags)
{
    if (fd >= 0 && !ns_in_vfork_child() && !NS_MUTANT(rule_at_accept))
        ns_engine_accepted(listener, fd, flags);
    return fd;
}

NS_EXPORT int accept(int listener, struct sockaddr *remote, socklen_t *len)
{
    ns_epoch_ends();
    before_accept(listener);
    return after_accept(listener, NS_REAL(accept)(listener, remote, len), 0);
}

NS_EXPORT int accept4(int listener, struct sockaddr *remote, socklen_t *len, int flags)
{
    ns_epoch_ends();
    before_accept(listener);
    return after_accept(listener, NS_REAL(accept4)(listener, remote, len, flags), flags);
}

NS_EXPORT int connect(int fd, const struct sockaddr *remote, socklen_t len)
{
    ns_before_wait();
    if (!NS_MUTANT(rule_at_connect))
        ns_engine_connecting(fd, remote, len);
    int result = NS_REAL(connect)(fd, remote, len);
    if (result == 0 && ns_gather_wanted())
        ns_engine_connected(fd);
    return result;
}

NS_EXPORT int listen(int fd, int backlog)
{
    ns_engine_listening(fd);
    return NS_REAL(listen)(fd, backlog);
}

NS_EXPORT int shutdown(int fd, int how)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    int gathers = fd;
    if (slot && NS_GET(slot, kind) == NS_FD_READS && !NS_MUTANT(reader_shuts))
        slot = ns_fd_original(&gathers, slot);
    if (slot && NS_GET(slot, kind) == NS_FD_GATHERS) {
        how = ns_gather_shutdown(gathers, slot, how);
        if (how < 0)
            return 0;
    }
    /* SHUT_WR and SHUT_RDWR send what is held by the kernel, together with the FIN. */
    return NS_REAL(shutdown)(fd, how);
}

NS_EXPORT int close(int fd)
{
    if (!ns_in_vfork_child())
        ns_engine_closing(fd);
    return NS_REAL(close)(fd);
}

NS_EXPORT int close_range(unsigned low, unsigned high, int flags)
{
    /* CLOEXEC marks and closes nothing; a wrong call closes nothing either. */
    if (!((unsigned)flags & ~CLOSE_RANGE_UNSHARE) && low <= high && !ns_in_vfork_child() &&
        ns_real_has(NS_CALL_close_range))
        ns_engine_closing_range(low, high);
    return NS_REAL(close_range)(low, high, flags);
}

/* closefrom() for a libc that lacks it. */
static void close_each_from(unsigned first)
{
    struct rlimit files;
    int saved = errno;
    if (NS_REAL(syscall)(SYS_close_range, first, UINT_MAX, 0) != 0 && /* Linux 5.9 */
        getrlimit(RLIMIT_NOFILE, &files) == 0)
        for (unsigned fd = first; fd < files.rlim_cur && fd < INT_MAX; fd++)
            NS_REAL(syscall)(SYS_close, fd);
    errno = saved;
}

NS_EXPORT void closefrom(int low)
{
    unsigned first = low > 0 ? (unsigned)low : 0;
    if (!ns_in_vfork_child())
        ns_engine_closing_range(first, UINT_MAX);
    if (ns_real_has(NS_CALL_closefrom))
        NS_REAL(closefrom)(low);
    else /* it cannot say that it closed nothing */
        close_each_from(first);
}

NS_EXPORT int dup(int fd)
{
    int copy = NS_REAL(dup)(fd);
    if (copy >= 0 && !ns_in_vfork_child())
        ns_engine_duplicated(fd, copy);
    return copy;
}

/* A stdio stream may stand on what is there. */
static void before_covering(int fd, int copy)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    int saved = errno;
    if (fd != copy && slot && NS_GET(slot, kind) >= NS_FD_GATHERS &&
        NS_REAL(fcntl)(copy, F_GETFD) >= 0 && !NS_MUTANT(gather_covers))
        ns_gather_end(fd, slot);
    errno = saved;
}

/* dup2 and dup3 close what was there, if the descriptor to copy is good. */
void ns_before_replacing(int fd, int copy)
{
    before_covering(fd, copy);
    struct ns_sock *slot = fd == copy ? NULL : ns_fd_slot(copy);
    if (slot && NS_GET(slot, kind) != NS_FD_OTHER && NS_REAL(fcntl)(fd, F_GETFD) >= 0 &&
        !NS_MUTANT(push_before_dup2))
        ns_engine_closing(copy);
}

NS_EXPORT int dup2(int fd, int copy)
{
    bool child = ns_in_vfork_child();
    if (!child)
        ns_before_replacing(fd, copy);
    int result = NS_REAL(dup2)(fd, copy);
    if (result >= 0 && !child)
        ns_engine_duplicated(fd, copy);
    return result;
}

NS_EXPORT int dup3(int fd, int copy, int flags)
{
    bool child = ns_in_vfork_child();
    if (!child && !(flags & ~O_CLOEXEC))
        ns_before_replacing(fd, copy);
    int result = NS_REAL(dup3)(fd, copy, flags);
    if (result >= 0 && !child)
        ns_engine_duplicated(fd, copy);
    return result;
}

NS_EXPORT int fclose(FILE *stream)
{
    int saved = errno;
    int fd = fileno(stream);
    errno = saved;
    if (fd >= 0 && !ns_in_vfork_child())
        ns_engine_closing(fd); /* libc closes it inside itself */
    return NS_REAL(fclose)(stream);
}

NS_EXPORT FILE *fdopen(int fd, const char *mode)
{
    FILE *stream = NS_REAL(fdopen)(fd, mode);
    if (stream) {
        /* stdio reads and writes inside libc, where we cannot see it: a socket that came from
         * outside gets its rule now or never, and nothing of it may be held. */
        ns_engine_ruled(fd);
        ns_engine_never_hold(fd);
    }
    return stream;
}

/* dprintf and its forms write like stdio. */
static void before_printing(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (slot && NS_GET(slot, kind) >= NS_FD_GATHERS)
        ns_engine_never_hold(fd);
}

NS_EXPORT int vdprintf(int fd, const char *format, va_list arguments)
{
    before_printing(fd);
    return NS_REAL(vdprintf)(fd, format, arguments);
}

NS_EXPORT int dprintf(int fd, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    before_printing(fd);
    int result = NS_REAL(vdprintf)(fd, format, arguments);
    va_end(arguments);
    return result;
}

NS_EXPORT int __vdprintf_chk(int fd, int flag, const char *format, va_list arguments)
{
    before_printing(fd);
    return NS_REAL(__vdprintf_chk)(fd, flag, format, arguments);
}

NS_EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    before_printing(fd);
    int result = NS_REAL(__vdprintf_chk)(fd, flag, format, arguments);
    va_end(arguments);
    return result;
}
