/* SPDX-License-Identifier: MIT */
/* Threads that jump away while their connections hold bytes. */
#include "life.h"

#include <pthread.h>
#include <setjmp.h>

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

LIFE_MAIN
