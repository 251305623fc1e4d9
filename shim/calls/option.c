/* SPDX-License-Identifier: MIT */
/* The exported calls that read and change a descriptor's options. As async-signal-safe as the calls
 * themselves. */
#include "calls/calls.h"
#include "socket/option.h"

#include <sys/ioctl.h>

NS_EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    struct ns_conn *conn = ns_socket_use(fd, true);
    return conn ? ns_option_set(fd, conn, level, option, value, len)
                : NS_REAL(setsockopt)(fd, level, option, value, len);
}
NS_IF_TIME64(NS_SECOND_NAME(setsockopt, __setsockopt64))

NS_EXPORT int getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
    struct ns_conn *conn = ns_socket_use(fd, true);
    return conn ? ns_option_get(fd, conn, level, option, value, len)
                : NS_REAL(getsockopt)(fd, level, option, value, len);
}
NS_IF_TIME64(NS_SECOND_NAME(getsockopt, __getsockopt64))

static void set_nonblock(int fd, bool nonblock)
{
    struct ns_conn *conn = ns_fd_conn(fd);
    if (conn && ns_conn_is_tracked(conn) && !ns_has_other_fds())
        NS_PUT(conn, nonblock, nonblock);
}

NS_EXPORT int ioctl(int fd, unsigned long request, ...)
{
    NS_GATHER(void *, argument, 1, request);
    int result = NS_REAL(ioctl)(fd, request, argument[0]);
    if (__builtin_expect(request == FIONBIO, 0) && result == 0)
        set_nonblock(fd, *(const int *)argument[0] != 0);
    if (__builtin_expect(request == FIONREAD, 0) && result == 0) {
        struct ns_conn *conn = ns_socket_managed(fd, false);
        if (conn && !*(const int *)argument[0])
            ns_in_nothing(fd, conn);
    }
    return result;
}
NS_IF_TIME64(NS_SECOND_NAME(ioctl, __ioctl_time64))

void ns_after_fcntl(int fd, int command, long argument, int result)
{
    if (command == F_SETFL)
        set_nonblock(fd, (argument & O_NONBLOCK) != 0);
    else if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        ns_handover_duplicated(fd, result);
}

/* fcntl takes at most one argument: an int, a long or a pointer. A long carries each of them. */
#define NS_FCNTL(name)                                                                             \
    NS_EXPORT int name(int fd, int command, ...)                                                   \
    {                                                                                              \
        NS_GATHER(long, argument, 1, command);                                                     \
        int result = NS_REAL(name)(fd, command, argument[0]);                                      \
        if (result >= 0)                                                                           \
            ns_after_fcntl(fd, command, argument[0], result);                                      \
        return result;                                                                             \
    }
NS_FCNTL(fcntl)
NS_FCNTL(fcntl64)
NS_IF_TIME64(NS_SECOND_NAME(fcntl64, __fcntl_time64))
