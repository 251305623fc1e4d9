/* SPDX-License-Identifier: MIT */
/* The exported calls that read and change a descriptor's options. As async-signal-safe as they are.
 */
#include "interpose.h"
#include "option.h"
#include "vfork.h"

#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

static struct ns_sock *tcp_slot(int fd)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (!slot || NS_GET(slot, kind) == NS_FD_OTHER || ns_in_vfork_child())
        return NULL;
    if (NS_GET(slot, kind) == NS_FD_ASK) {
        ns_engine_adopt(fd, slot);
        if (NS_GET(slot, kind) == NS_FD_OTHER)
            return NULL;
    }
    ns_gather_touch(fd, slot);
    return slot;
}

NS_EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    struct ns_sock *slot = tcp_slot(fd);
    return slot ? ns_option_set(fd, slot, level, option, value, len)
                : NS_REAL(setsockopt)(fd, level, option, value, len);
}

/* SO_ERROR is 0 where a flush has met the error before. */
static void failed_flush(int fd, struct ns_sock *slot, void *value, socklen_t len)
{
    int error;
    if (len != sizeof error)
        return;
    memcpy(&error, value, len);
    if (error == 0) {
        error = ns_gather_report(fd, slot);
        memcpy(value, &error, len);
        return;
    }
    if (NS_GET(slot, kind) == NS_FD_READS && !NS_MUTANT(reader_told))
        slot = ns_fd_original(&fd, slot);
    if (NS_GET(slot, kind) == NS_FD_GATHERS && ns_gather_breaks(error))
        ns_gather_broken(fd, slot);
}

NS_EXPORT int getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
    struct ns_sock *slot = tcp_slot(fd);
    if (!slot)
        return NS_REAL(getsockopt)(fd, level, option, value, len);
    int result = ns_option_get(fd, slot, level, option, value, len);
    if (level == SOL_SOCKET && option == SO_ERROR && result == 0 && value)
        failed_flush(fd, slot, value, *len);
    return result;
}

static void set_nonblock(int fd, bool nonblock)
{
    struct ns_sock *slot = ns_fd_slot(fd);
    if (!slot || NS_GET(slot, kind) == NS_FD_OTHER || ns_in_vfork_child())
        return;
    NS_PUT(slot, nonblock, nonblock);
    ns_fd_share(slot);
}

NS_EXPORT int ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    struct ns_sock *slot = ns_fd_slot(fd);
    if (slot)
        ns_gather_touch(fd, slot); /* SIOCOUTQ counts them */
    int result = NS_REAL(ioctl)(fd, request, argument);
    if (__builtin_expect(request == FIONBIO, 0) && result == 0)
        set_nonblock(fd, *(const int *)argument != 0);
    /* To be told that nothing is there is what a read that does not wait says. */
    if (slot && request == FIONREAD && result == 0 && !*(const int *)argument &&
        ns_engine_reads(fd) && !NS_MUTANT(busy_poll))
        ns_engine_read(fd, slot, -1, EAGAIN);
    return result;
}

/* After a fcntl that worked. */
static void after_fcntl(int fd, int command, long argument, int result)
{
    if (command == F_SETFL)
        set_nonblock(fd, (argument & O_NONBLOCK) != 0);
    else if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && !ns_in_vfork_child())
        ns_engine_duplicated(fd, result);
}

/* Every fcntl takes at most one argument, an int, a long or a pointer: a long carries them all. */
NS_EXPORT int fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    long argument = va_arg(arguments, long);
    va_end(arguments);
    int result = NS_REAL(fcntl)(fd, command, argument);
    if (result >= 0)
        after_fcntl(fd, command, argument, result);
    return result;
}

NS_EXPORT int fcntl64(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    long argument = va_arg(arguments, long);
    va_end(arguments);
    int result = NS_REAL(fcntl64)(fd, command, argument);
    if (result >= 0)
        after_fcntl(fd, command, argument, result);
    return result;
}
