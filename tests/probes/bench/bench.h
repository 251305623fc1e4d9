/* SPDX-License-Identifier: MIT */
/* Shared by the measured programs: quantiles, and calls of libc that bypass preloaded
 * libraries. */
#pragma once

#include "../loopback.h"

#include <gnu/lib-names.h>

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
