/* SPDX-License-Identifier: MIT */
/* Threads that are cancelled or jump away while their connections hold bytes. */
#include "life.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>

enum { WAITS = 5 };
static struct waiter {
    struct conn conn, quiet;
    int way;
} waiter;
static sem_t never;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void unlock(void *unused)
{
    (void)unused;
    pthread_mutex_unlock(&mutex);
}

static void wait_on_condition(void)
{
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, NULL);
    for (;;)
        pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(1);
}

static void wait_some_way(const struct waiter *w)
{
    char byte;
    struct pollfd ready = {.fd = w->quiet.fd, .events = POLLIN};
    switch (w->way) {
    case 0:
        read(w->quiet.fd, &byte, 1);
        break;
    case 1:
        poll(&ready, 1, -1);
        break;
    case 2:
        sleep(60);
        break;
    case 3:
        sem_wait(&never);
        break;
    default:
        wait_on_condition();
    }
}

static void *holds_and_waits(void *unused)
{
    (void)unused;
    char byte;
    put(waiter.conn.fd, "held");
    if (read(waiter.quiet.fd, &byte, 1) != 1) /* and an ACK is pending */
        wrong("no byte");
    put(waiter.conn.fd, " and ");
    put(waiter.conn.fd, "held");
    wait_some_way(&waiter);
    wrong("wait %d came back", waiter.way);
    return NULL;
}

SCENARIO("cancellation")
{
    sem_init(&never, 0, 0);
    for (int way = 0; way < WAITS; way++) {
        waiter = (struct waiter){open_conn(), open_conn(), way};
        pthread_t thread;
        void *value = NULL;
        answer(waiter.quiet.peer, "!");
        pthread_create(&thread, NULL, holds_and_waits, NULL);
        at_once(waiter.conn.peer, "held and held"); /* the wait has sent them */
        pthread_cancel(thread);
        pthread_join(thread, &value);
        EXPECT(value == PTHREAD_CANCELED);
        still_governed(waiter.conn);
        still_governed(waiter.quiet);
        close_conn(waiter.conn);
        close_conn(waiter.quiet);
    }
}

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
