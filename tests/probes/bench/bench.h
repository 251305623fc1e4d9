/* SPDX-License-Identifier: MIT */
/* Shared by the measured programs: epoll, quantiles, and calls of libc that bypass preloaded
 * libraries. */
#pragma once

#include "../loopback.h"

#include <gnu/lib-names.h>

static inline void watch(int epoll, int fd, epoll_data_t data)
{
    struct epoll_event event = {.events = EPOLLIN, .data = data};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        die_errno("epoll_ctl");
}

static inline size_t wait_for_some(int epoll, struct epoll_event *events, int most)
{
    int ready;
    do
        ready = epoll_wait(epoll, events, most, -1);
    while (ready < 0 && errno == EINTR);
    if (ready < 0)
        die_errno("epoll_wait");
    return (size_t)ready;
}

static inline int64_t *numbers(size_t count)
{
    int64_t *values = calloc(count, sizeof *values);
    if (values == NULL)
        die("no memory");
    return values;
}

static inline int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static inline int64_t quantile(int64_t *values, size_t count, size_t percent)
{
    qsort(values, count, sizeof *values, by_size);
    return values[(count - 1) * percent / 100];
}

/* libc's own function of that name. */
static inline void *libc_symbol(const char *name)
{
    static void *libc;
    void *symbol;
    if (libc == NULL && (libc = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD)) == NULL)
        die("%s", dlerror());
    symbol = dlsym(libc, name);
    if (symbol == NULL)
        die("%s", dlerror());
    return symbol;
}

static inline void allow_files(size_t files)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= files)
        return;
    limit.rlim_cur = files;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        die_errno("RLIMIT_NOFILE");
}

/* Makes a connection with TCP_NODELAY set by the program, so that the kernel's work is the same
 * with and without the library. */
static inline void open_near_and_far(int listener, const struct sockaddr_in *address, int *near,
                                     int *far)
{
    *near = loopback_connect(address);
    *far = accept_one(listener);
    set_option(*near, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
}
