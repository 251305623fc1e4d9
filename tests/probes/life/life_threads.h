/* SPDX-License-Identifier: MIT */
/* Threads that jump away while their connections hold bytes, or are cancelled, and handlers that
 * write. */
#pragma once

#include "life.h"

static sigjmp_buf back;

static void jump(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

/* The handler jumps out of whatever the thread is doing. */
SCENARIO("jumps")
{
    struct conn conn = open_conn();
    struct sigaction action = {.sa_handler = jump, .sa_flags = SA_NODEFER};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    sigaction(SIGUSR1, &action, NULL);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    for (volatile int i = 1; i <= 200; i++) {
        char byte;
        answer(conn.peer, "!");
        EXPECT(read(conn.fd, &byte, 1) == 1);
        put(conn.fd, "jump");
        if (sigsetjmp(back, 1) == 0) {
            struct itimerspec soon = {
                {0, 0},
                {0, i * 500}}; /* between a time inside the library and one inside the read */
            timer_settime(timer, 0, &soon, NULL);
            read(conn.fd, &byte, 1);
            wrong("nothing came, and read came back");
        }
        arrives(conn.peer, "jump");
    }
    still_governed(conn);
    timer_delete(timer);
    close_conn(conn);
}

enum { MANY = 100 };
static int log_file;
static struct conn own; /* the handler's connection */
static volatile int reports;

/* Writes a traceback to a log, and reports it. */
static void report(int number)
{
    (void)number;
    int saved = errno;
    for (int i = 0; i < 12; i++)
        if (write(log_file, "  File \"x.py\", line 1 in y\n", 28) != 28)
            wrong("the log is not written");
    put(own.fd, "re");
    put(own.fd, "port");
    poll(NULL, 0, 0);
    reports++;
    errno = saved;
}

/* A server answers many connections in turn and writes a log, while a handler interrupts it at any
 * place. */
SCENARIO("handlers-write")
{
    struct conn conns[MANY];
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = report, .sa_flags = SA_RESTART};
    char data[4096];
    int turn = 0;
    own = open_conn();
    log_file = open("/dev/null", O_WRONLY);
    for (int i = 0; i < MANY; i++)
        conns[i] = open_conn();
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (double begin = now_ms(); now_ms() < begin + 3000; turn++) {
        for (int i = 0; i < MANY; i++)
            answer(conns[i].peer, "ping");
        for (int i = 0; i < MANY; i++) {
            EXPECT(read(conns[i].fd, data, 4) == 4);
            EXPECT(write(conns[i].fd, "pong", 4) == 4);
        }
        EXPECT(write(log_file, "a batch is answered\n", 20) == 20);
        poll(NULL, 0, 1);
        for (int i = 0; i < MANY; i++)
            EXPECT(RAW(recvfrom, conns[i].peer, data, sizeof data, MSG_DONTWAIT) > 0);
        while (RAW(recvfrom, own.peer, data, sizeof data, MSG_DONTWAIT) > 0)
            ;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    EXPECT(turn > 10 && reports > 100);
    wait_ms(1);
    while (RAW(recvfrom, own.peer, data, sizeof data, MSG_DONTWAIT) > 0)
        ;
    answer(own.peer, "!"); /* a connection that only sends may be left to Nagle's algorithm */
    EXPECT(read(own.fd, data, 1) == 1);
    for (int i = 0; i <= MANY; i++) {
        struct conn conn = i < MANY ? conns[i] : own;
        put(conn.fd, "still ");
        put(conn.fd, "here");
        arrives(conn.peer, "still here");
        is_governed(conn.fd);
        close_conn(conn);
    }
    close(log_file);
}

static struct {
    struct conn owing;
    int to, file;
    volatile ssize_t sent;
} cancelled;

static void *sends_a_file(void *unused)
{
    owe(cancelled.owing);
    pthread_cancel(pthread_self());
    cancelled.sent = sendfile(cancelled.to, cancelled.file, NULL, 100);
    pthread_testcancel();
    return unused;
}

/* sendfile is not a cancellation point. */
SCENARIO("sendfile-cancelled")
{
    pthread_t thread;
    void *result = NULL;
    int pair[2];
    open_pair(pair);
    cancelled.owing = open_conversing();
    cancelled.to = pair[0];
    cancelled.file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    cancelled.sent = -1;
    pthread_create(&thread, NULL, sends_a_file, NULL);
    pthread_join(thread, &result);
    EXPECT(result == PTHREAD_CANCELED);
    if (cancelled.sent != 100)
        wrong("sendfile with a cancellation pending: %zd", cancelled.sent);
    close(cancelled.file);
    close_pair(pair);
    close_conn(cancelled.owing);
}
