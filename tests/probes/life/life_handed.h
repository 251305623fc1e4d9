/* SPDX-License-Identifier: MIT */
/* Sockets that survive an exec or go to another process. If the library is loaded there, it
 * continues to treat them. Otherwise they must have the program's own options. */
#pragma once

#include "life.h"

enum { HANDED = 10 };

/* The value of an option on a new socket. */
static int first_of(int option)
{
    int fd = (int)RAW(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    int value = kernel_option(fd, option);
    RAW(close, fd, 0, 0, 0);
    return value;
}

static bool is_as_made(int fd)
{
    return kernel_option(fd, TCP_NODELAY) == 0 &&
           kernel_option(fd, DELACK_MAX_US) == first_of(DELACK_MAX_US);
}

/* The kernel joins a stream of small writes, and its end is not late. */
static void streams(int fd)
{
    never_asked(fd);
    for (int i = 0; i < 10; i++)
        EXPECT(write(fd, "a piece", 7) == 7);
    EXPECT(!has_nodelay(fd));
    never_asked(fd);
    is_governed(fd);
}

/* The next connection of the listener that was handed over. */
static int accept_one(void)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    EXPECT(RAW(getsockname, HANDED, &address, &len, 0) == 0);
    raw_client(&address);
    return accept(HANDED, NULL, NULL);
}

SCENARIO("role-accepts")
{
    never_asked(HANDED);
    streams(accept_one());
}

/* This role runs without the library. */
SCENARIO("role-unshimmed")
{
    EXPECT(!is_shimmed());
    EXPECT(is_as_made(HANDED));
    EXPECT(is_as_made(accept_one()));
}

/* The library leaves a listener alone. */
static int listen_here(struct sockaddr_in *address)
{
    int fd = seen_listener(address);
    EXPECT(is_as_made(fd));
    return fd;
}

/* The child executes another role, which inherits the descriptor. */
static void goes_on_as(const char *role)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_in address;
        alarm(8);
        int fd = listen_here(&address);
        dup2(fd, HANDED);
        close(fd);
        if (strcmp(role, "role-unshimmed") == 0)
            unsetenv("LD_PRELOAD");
        execl("/proc/self/exe", "life", role, (char *)NULL);
        _exit(9);
    }
    child_ended(pid, 0);
}

SCENE("listener-stays", goes_on_as("role-accepts"))
SCENE("listener-leaves", goes_on_as("role-unshimmed"))

/* A worker that is quicker than the sender's return from sendmsg: it looks at each connection as
 * soon as it has come. */
static void connection_is_sent(bool by_child)
{
    enum { TIMES = 200 };
    struct sockaddr_in address;
    int pair[2], listener = listen_here(&address);
    open_pair(pair);
    pid_t worker = fork();
    if (worker == 0) {
        int set = 0;
        for (int i = 0; i < TIMES; i++) {
            int fd = receive_right(pair[1]);
            set += !is_as_made(fd);
            close(fd);
        }
        _exit(set != 0);
    }
    pid_t sender = by_child ? fork() : 0;
    if (sender == 0)
        for (int i = 0; i < TIMES; i++) {
            int client = raw_client(&address), server = accept(listener, NULL, NULL);
            send_right(pair[0], server);
            close(server);
            RAW(close, client, 0, 0, 0);
        }
    if (by_child && sender == 0)
        _exit(0);
    if (by_child)
        child_ended(sender, 0);
    child_ended(worker, 0);
    close(listener);
    close_pair(pair);
}

SCENE("connection-is-sent", connection_is_sent(false))
SCENE("connection-is-sent-by-child", connection_is_sent(true))
