/* SPDX-License-Identifier: MIT */
/* Shared by the programs of tests/promises/promises.bats: a connection that the library certainly
 * treats, a pending ACK on it, and time that is measured by raw system calls. Each program must
 * behave in the same way without the library. */
#ifndef PROBES_PROMISE_H
#define PROBES_PROMISE_H

#include "life.h"

#include <pthread.h>

/* Bursts of small writes, each followed by a wait and an answer. */
__attribute__((unused)) static void converse(struct conn conn)
{
    char byte;
    for (int i = 0; i < 8; i++) {
        put(conn.fd, "one ");
        put(conn.fd, "two ");
        put(conn.fd, "three");
        poll(NULL, 0, 1);
        arrives_within(conn.peer, "one two three", 1000);
        answer(conn.peer, "!");
        EXPECT(recv(conn.fd, &byte, 1, 0) == 1);
    }
}

/* The same on a new connection, which the library must then treat, if it is loaded. */
__attribute__((unused)) static struct conn open_conversing(void)
{
    struct conn conn = open_conn();
    converse(conn);
    is_governed(conn.fd);
    return conn;
}

/* The program has never set TCP_NODELAY, and getsockopt must report this. */
__attribute__((unused)) static void never_asked(int fd)
{
    int value = -1;
    socklen_t len = sizeof value;
    EXPECT(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value == 0);
}

/* The child's exit status, or -1 if it has not ended in time; then it is killed. */
__attribute__((unused)) static int ended_within(pid_t pid, double most)
{
    int status = -1;
    double begin = now_ms();
    long ended;
    while ((ended = RAW(wait4, pid, &status, WNOHANG | __WALL, 0)) == 0 && now_ms() - begin < most)
        compute_ms(1);
    if (ended != 0)
        return ended > 0 ? status : -1;
    RAW(kill, pid, SIGKILL, 0, 0);
    return -1;
}

/* A timer with a signal, on another clock than the one that ends a test. */
__attribute__((unused)) static timer_t make_timer(int number)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = number};
    timer_t timer;
    EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    return timer;
}

/* every 0: once. */
__attribute__((unused)) static void set_timer(timer_t timer, long first_us, long every_us)
{
    struct itimerspec when = {{0, every_us * 1000}, {0, first_us * 1000}};
    EXPECT(timer_settime(timer, 0, &when, NULL) == 0);
}

#endif
