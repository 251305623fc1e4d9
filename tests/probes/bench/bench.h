/* SPDX-License-Identifier: MIT */
/* What the measured programs share: servers and clients of requests, epoll, quantiles, and the
 * calls of libc past whatever is preloaded. */
#ifndef PROBES_BENCH_H
#define PROBES_BENCH_H

#include "../loopback.h"

#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <sys/epoll.h>
#include <sys/resource.h>

static struct socket_options options __attribute__((unused)) = {.sndbuf = -1};

/* What a client asks is answered with so many bytes. */
enum { REQUEST = 64, ANSWER = 256 };

/* The next connection, with the server's own TCP_NODELAY. */
static inline int accept_client(int listener)
{
    int fd = accept_one(listener);
    if (options.nodelay)
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    return fd;
}

/* main of "server PORT" and "client HOST PORT ...", both with --nodelay behind it. Returns the
 * number of arguments of a client, which are words. */
static inline int serve_or_count(int argc, char **argv, void (*serve)(int listener), int words)
{
    if (argc > 1 && strcmp(argv[argc - 1], "--nodelay") == 0) {
        options.nodelay = true;
        argc--;
    }
    if (argc == 3 && strcmp(argv[1], "server") == 0)
        serve(listen_on(parse_number(argv[2], "PORT", 0, 65535),
                        &(struct socket_options){.sndbuf = -1}));
    if (argc != words || strcmp(argv[1], "client") != 0)
        usage_error("needs server PORT or client HOST PORT COUNT...");
    return argc;
}

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

/* Both ends of a connection whose TCP_NODELAY is the program's own: the kernel's work is then the
 * same with and without the shim. */
static inline void open_near_and_far(int listener, const struct sockaddr_in *address, int *near,
                                     int *far)
{
    *near = loopback_connect(address);
    *far = accept_one(listener);
    set_option(*near, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
}

#endif
