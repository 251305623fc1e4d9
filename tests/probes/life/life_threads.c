/* SPDX-License-Identifier: MIT */
/* Threads that end, are cancelled, or jump away while their connections hold bytes; filters that
 * kill. */
#include "filter.h"
#include "life.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>

static void *writes_and_ends(void *conn)
{
    put(((struct conn *)conn)->fd, "from ");
    put(((struct conn *)conn)->fd, "a thread");
    return NULL;
}

static void *writes_and_leaves(void *conn)
{
    writes_and_ends(conn);
    pthread_exit(NULL);
}

SCENARIO("thread-ends")
{
    void *(*const ways[])(void *) = {writes_and_ends, writes_and_leaves};
    for (int i = 0; i < 2; i++) {
        struct conn conn = open_conn();
        pthread_t thread;
        pthread_create(&thread, NULL, ways[i], &conn);
        at_once(conn.peer, "from a thread");
        pthread_join(thread, NULL);
        still_governed(conn);
        close_conn(conn);
    }
}

enum { WAITS = 12 };
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
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    struct pollfd ready = {.fd = w->quiet.fd, .events = POLLIN};
    fd_set set;
    sigset_t signals;
    int epoll;
    switch (w->way) {
    case 0:
        read(w->quiet.fd, &byte, 1);
        break;
    case 1:
        recv(w->quiet.fd, &byte, 1, 0);
        break;
    case 2:
        recvmsg(w->quiet.fd, &message, 0);
        break;
    case 3:
        poll(&ready, 1, -1);
        break;
    case 4:
        ppoll(&ready, 1, NULL, NULL);
        break;
    case 5:
        FD_ZERO(&set);
        FD_SET(w->quiet.fd, &set);
        select(w->quiet.fd + 1, &set, NULL, NULL, NULL);
        break;
    case 6:
        epoll = epoll_create1(EPOLL_CLOEXEC);
        pthread_cleanup_push((void (*)(void *))(void *)close, (void *)(intptr_t)epoll);
        struct epoll_event event;
        epoll_wait(epoll, &event, 1, -1);
        pthread_cleanup_pop(1);
        break;
    case 7:
        sleep(60);
        break;
    case 8:
        sem_wait(&never);
        break;
    case 9:
        wait_on_condition();
        break;
    case 10:
        sigemptyset(&signals);
        sigaddset(&signals, SIGUSR2);
        sigwaitinfo(&signals, NULL);
        break;
    default:
        pause();
    }
}

static void *holds_and_waits(void *unused)
{
    (void)unused;
    char byte;
    put(waiter.conn.fd, "held");
    if (read(waiter.quiet.fd, &byte, 1) != 1) /* and owes an ACK */
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

/* The handler leaves in the middle of whatever it is that we do. */
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
            struct itimerspec soon = {{0, 0}, {0, i * 500}}; /* from inside us to inside the read */
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

/* A filter as OpenSSH's: what is not on the list ends the process. Here only what this library
 * could add is not. */
SCENARIO("filter")
{
    for (int by_number = 0; by_number < 2; by_number++) {
        struct conn conn = open_conn();
        answer(conn.peer, "!!!");
        pid_t pid = fork();
        if (pid == 0) {
            char byte;
            put(conn.fd, "held ");
            EXPECT(read(conn.fd, &byte, 1) == 1);
            put(conn.fd, "before ");
            must_not_ask = true;
            EXPECT(FORBID(by_number, SYS_setsockopt, SYS_getsockopt, SYS_futex));
            put(conn.fd, "and ");
            EXPECT(read(conn.fd, &byte, 1) == 1);
            put(conn.fd, "after");
            EXPECT(read(conn.fd, &byte, 1) == 1); /* and now an ACK would be owed */
            struct pollfd ready = {.fd = conn.fd, .events = POLLIN};
            EXPECT(poll(&ready, 1, 20) == 0);
            close(conn.fd);
            _exit(0);
        }
        arrives(conn.peer, "held before and after");
        close_conn(conn);
        child_ended(pid, 0);
    }
}

LIFE_MAIN
