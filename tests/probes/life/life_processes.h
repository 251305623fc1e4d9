/* SPDX-License-Identifier: MIT */
/* Connections whose process forks, starts programs, ends, or got them from another. */
#pragma once

#include "life.h"

extern char **environ;

/* Held bytes leave before a fork, so that the order in which parent and child end does not matter.
 */
SCENARIO("fork")
{
    struct conn conn = open_conn();
    put(conn.fd, "held");
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    at_once(conn.peer, "held");
    child_ended(pid, 0);
    still_governed(conn);
    put(conn.fd, "parent ");
    pid = fork();
    if (pid == 0) {
        put(conn.fd, "child ");
        wait_ms(150);
        put(conn.fd, "again ");
        _exit(0);
    }
    arrives(conn.peer, "parent child ");
    child_ended(pid, 0);
    at_once(conn.peer, "again ");
    put(conn.fd, "parent");
    arrives(conn.peer, "parent");
    close_conn(conn);
}

static void exit_with_sharer(void (*leave)(int))
{
    struct conn conn = open_conn();
    pid_t pid = fork(); /* the parent keeps the socket open */
    if (pid == 0) {
        put(conn.fd, "goodbye");
        leave(0);
    }
    int status;
    while (RAW(wait4, pid, &status, WNOHANG, 0) == 0)
        ;
    at_once(conn.peer, "goodbye");
    close_conn(conn);
}

SCENARIO("exit")
{
    exit_with_sharer(exit);
    exit_with_sharer(_exit);
    exit_with_sharer(_Exit);
    exit_with_sharer(quick_exit);
}

SCENARIO("vfork")
{
    struct conn conn = open_conn(), other = open_conn();
    put(conn.fd, "held");
    pid_t pid = vfork();
    if (pid == 0) {
        /* None of this affects the parent. */
        close(conn.fd);
        int copy = fcntl(1, F_DUPFD, conn.fd);
        dup2(1, other.fd);
        close(copy);
        copy = socket(AF_INET, SOCK_DGRAM, 0);
        write(copy, "x", 1);
        send(other.fd, "", 0, 0);
        prctl(PR_SET_SECCOMP, 99, 0, 0, 0); /* no such mode */
        _exit(0);
    }
    at_once(conn.peer, "held");
    child_ended(pid, 0);
    still_governed(conn);
    still_governed(other);
    close_conn(conn);
    close_conn(other);
}

/* daemon() forks inside libc. Its child continues to write, and waits. */
static void becomes_daemon(bool writes_on)
{
    struct conn conn = open_conn();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    pid_t pid = fork();
    if (pid == 0) {
        put(conn.fd, "before");
        EXPECT(daemon(1, 1) == 0);
        if (writes_on)
            put(conn.fd, " after");
        wait_ms(300);
        _exit(0);
    }
    arrives(conn.peer, writes_on ? "before after" : "before");
    child_ended(pid, 0);
    close_conn(conn);
    EXPECT(wait(NULL) > 0);
}

SCENE("daemon", becomes_daemon(true))
SCENE("daemon-waits", becomes_daemon(false))

/* Children accept from a listener of the parent. */
SCENARIO("prefork")
{
    struct sockaddr_in address;
    int listener = seen_listener(&address);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = accept(listener, NULL, NULL);
        serve(fd, fd);
        _exit(0);
    }
    close(listener);
    be_served(raw_client(&address));
    child_ended(pid, 0);
}

/* Starts this program again as a service manager, which announces the descriptor with LISTEN_FDS,
 * or inetd would. The options that the library has set in this process are cleared before. */
static pid_t start_again(int fd, int number, int copies, const char *role, bool announced)
{
    char name[32];
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    set_kernel_option(fd, TCP_NODELAY, 0);
    fd = (int)RAW(fcntl, fd, F_DUPFD, 50, 0); /* never the target number */
    for (int i = 0; i < copies; i++)
        RAW(dup3, fd, number + i, 0, 0);
    snprintf(name, sizeof name, "%d", (int)getpid());
    if (announced) {
        setenv("LISTEN_PID", name, 1);
        setenv("LISTEN_FDS", "1", 1);
    }
    execl("/proc/self/exe", "life", role, (char *)NULL);
    _exit(9);
}

/* When the program has ended, the listener's options are as before. */
static void hands_listener(bool announced)
{
    struct sockaddr_in address;
    static const int options[] = {TCP_NODELAY, DELACK_MAX_US, TCP_KEEPIDLE};
    enum { COUNT = sizeof options / sizeof *options };
    int listener = raw_listener(0, &address), before[COUNT];
    for (int i = 0; i < COUNT; i++)
        before[i] = kernel_option(listener, options[i]);
    pid_t pid = start_again(listener, 3, 1, "role-listener", announced);
    be_served(raw_client(&address));
    child_ended(pid, 0);
    for (int i = 0; i < COUNT; i++)
        EXPECT(kernel_option(listener, options[i]) == before[i]);
    RAW(close, listener, 0, 0, 0);
}

SCENE("service-manager", hands_listener(true))
SCENE("listener-inherited", hands_listener(false))

static void hands_on(int number, int copies, const char *role)
{
    struct conn conn = open_conn();
    pid_t pid = start_again(conn.fd, number, copies, role, true);
    close(conn.fd);
    be_served(conn.peer);
    child_ended(pid, 0);
}

SCENE("inetd", hands_on(0, 2, "role-inetd"))
/* As systemd does with Accept=yes and without StandardInput=socket. */
SCENE("service-manager-accepts", hands_on(3, 1, "role-connection"))

SCENE("role-connection", serve(3, 3))

/* A server on stdio may never make a call that the library sees, so its inherited connection gets a
 * rule at once. */
SCENARIO("inetd-silent")
{
    struct conn conn = open_conn();
    pid_t pid = start_again(conn.fd, 0, 2, "role-silent", true);
    child_ended(pid, 0);
    EXPECT(has_nodelay(conn.fd) == is_shimmed());
    close_conn(conn);
}

SCENE("role-silent", RAW(exit_group, 0, 0, 0, 0))

SCENARIO("role-listener")
{
    int fd = accept(3, NULL, NULL);
    serve(fd, fd);
    close(fd);
}

SCENE("role-inetd", is_governed(1); serve(0, 1))
