/* SPDX-License-Identifier: MIT */
/* Included before the probes when they are built for an older or another C library: defines the
 * names that it lacks. These calls fail, as in a program that was configured at build time.
 * libc_lacks.c tests nagleshim's results for them. */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#if defined(__GLIBC__)
#define OLDER_THAN(minor) (!__GLIBC_PREREQ(2, minor))
#else
#define OLDER_THAN(minor) 1
#endif

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#define CLOSE_RANGE_CLOEXEC 4
#endif
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

#define LACKS(result, name, parameters)                                                            \
    static inline result name parameters                                                           \
    {                                                                                              \
        errno = ENOSYS;                                                                            \
        return -1;                                                                                 \
    }

#if OLDER_THAN(32)
static inline const char *strerrorname_np(int error)
{
    static char name[16];
    snprintf(name, sizeof name, "errno %d", error);
    return name;
}
#endif

#if OLDER_THAN(34)
#ifdef __GLIBC__
#define _Fork fork
#endif
LACKS(int, close_range, (unsigned low, unsigned high, int flags))
LACKS(int, execveat, (int fd, const char *path, char *const *argv, char *const *envp, int flags))
static inline void closefrom(int low)
{
}
#endif

#if OLDER_THAN(35)
LACKS(int, epoll_pwait2,
      (int fd, struct epoll_event *events, int most, const struct timespec *timeout,
       const sigset_t *mask))
#endif

#if !defined(__GLIBC__)
#define fcntl64 fcntl
#define ssignal signal
#define sysv_signal signal
#define __sigaction sigaction
/* Names that a fortified build calls. */
#define __read_chk(fd, data, size, room) read(fd, data, size)
#define __recv_chk(fd, data, size, room, flags) recv(fd, data, size, flags)
#define __recvfrom_chk(fd, data, size, room, flags, from, len)                                     \
    recvfrom(fd, data, size, flags, from, len)
#define __fgets_chk(text, room, size, stream) fgets(text, size, stream)
#define __fgets_unlocked_chk(text, room, size, stream) fgets_unlocked(text, size, stream)
#define __fread_chk(data, room, size, count, stream) fread(data, size, count, stream)
#define __fread_unlocked_chk(data, room, size, count, stream)                                      \
    fread_unlocked(data, size, count, stream)
#define __getdelim getdelim
#define __uflow getc_unlocked
#define __poll_chk(fds, count, timeout, room) poll(fds, count, timeout)
#define __ppoll_chk(fds, count, timeout, mask, room) ppoll(fds, count, timeout, mask)
#define __dprintf_chk(fd, flag, ...) dprintf(fd, __VA_ARGS__)
#define __vdprintf_chk(fd, flag, format, arguments) vdprintf(fd, format, arguments)
LACKS(ssize_t, preadv2, (int fd, const struct iovec *vector, int count, off_t at, int flags))
LACKS(ssize_t, pwritev2, (int fd, const struct iovec *vector, int count, off_t at, int flags))
static inline int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until)
{
    return clock == CLOCK_REALTIME ? sem_timedwait(sem, until) : (errno = ENOSYS, -1);
}
static inline int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                         clockid_t clock, const struct timespec *until)
{
    return clock == CLOCK_REALTIME ? pthread_cond_timedwait(condition, mutex, until) : ENOSYS;
}
#endif
