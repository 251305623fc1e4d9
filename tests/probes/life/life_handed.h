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

/* A listener with the options that the library sets. */
static int listen_here(struct sockaddr_in *address)
{
    int fd = seen_listener(address);
    EXPECT(has_nodelay(fd) == is_shimmed());
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

/* A child's program has a copy of the parent's listener, and the parent continues to accept from
 * it. */
SCENARIO("listener-is-shared")
{
    struct sockaddr_in address;
    int listener = listen_here(&address);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(9);
    }
    child_ended(pid, 0);
    EXPECT(has_nodelay(listener) == is_shimmed());
    close(listener);
}

/* One of the library's, if it is loaded: it has set the option, or sets it at the second write. */
static void is_treated(int fd)
{
    EXPECT(write(fd, "a", 1) == 1 && write(fd, "b", 1) == 1);
    EXPECT(has_nodelay(fd) == is_shimmed());
    close(fd);
}

SCENARIO("listener-is-sent")
{
    struct sockaddr_in address;
    int pair[2], listener = listen_here(&address);
    open_pair(pair);
    send_right(pair[0], listener);
    EXPECT(is_as_made(listener));
    int client = raw_client(&address);
    int server = (int)RAW(accept4, listener, 0, 0, 0);
    EXPECT(is_as_made(server));
    RAW(close, client, 0, 0, 0);
    RAW(close, server, 0, 0, 0);
    client = raw_client(&address);
    is_treated(accept(listener, NULL, NULL)); /* the sender goes on accepting */
    RAW(close, client, 0, 0, 0);
    close(listener);
    close_pair(pair);
}

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

/* A message that cannot be sent takes nothing from the sockets in it. */
SCENARIO("pass-fails")
{
    struct sockaddr_in address;
    int full[2], pair[2], clients[3], listener = listen_here(&address);
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, full) == 0);
    open_pair(pair);
    while (send(full[0], "many bytes", 10, 0) > 0)
        ;
    clients[0] = raw_client(&address);
    int accepted = accept(listener, NULL, NULL);
    send_right(pair[0], accepted);
    close(accepted);
    int received = receive_right(pair[1]), fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 3; i++)
        EXPECT(try_to_send_right(full[0], (int[]){received, fresh, listener}[i]) == -1);
    EXPECT(connect(fresh, (struct sockaddr *)&address, sizeof address) == 0);
    clients[1] = (int)RAW(accept4, listener, 0, 0, 0);
    clients[2] = raw_client(&address);
    accepted = accept(listener, NULL, NULL);
    EXPECT(try_to_send_right(full[0], accepted) == -1);
    is_treated(received);
    is_treated(fresh);
    is_treated(accepted);
    for (int i = 0; i < 3; i++)
        RAW(close, clients[i], 0, 0, 0);
    close(listener);
    close_pair(full);
    close_pair(pair);
}

/* A forked child passes a connection that its parent uses. */
SCENARIO("parent-goes-on")
{
    struct conn conn = open_conn();
    int pair[2];
    open_pair(pair);
    EXPECT(write(conn.fd, "a", 1) == 1 && write(conn.fd, "b", 1) == 1);
    pid_t pid = fork();
    if (pid == 0) {
        send_right(pair[0], conn.fd);
        _exit(0);
    }
    child_ended(pid, 0);
    is_governed(conn.fd);
    close_conn(conn);
    close_pair(pair);
}

SCENE("connection-is-sent", connection_is_sent(false))
SCENE("connection-is-sent-by-child", connection_is_sent(true))
