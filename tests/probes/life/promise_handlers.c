/* SPDX-License-Identifier: MIT */
/* Calls in signal handlers that have interrupted the allocator: fork() in a program with one
 * thread, and connect(). A program may make these calls there. See promise.h. */
#include "promise.h"

static timer_t timer;
static volatile sig_atomic_t handled, failed;
static struct sockaddr_in somewhere;

/* Allocates and frees blocks that are too large for a thread's cache, until the handler has run. */
static void allocate_until_handled(unsigned seed)
{
    enum { BLOCKS = 64, LEAST = 2000, MOST = 60000 };
    char *blocks[BLOCKS] = {NULL};
    handled = 0;
    set_timer(timer, 20 + seed % 200, 0);
    for (unsigned i = seed; !handled; i = i * 1664525u + 1013904223u) {
        char **block = &blocks[(i >> 24) % BLOCKS];
        free(*block);
        *block = malloc(LEAST + (i >> 8) % (MOST - LEAST));
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static void handle(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    timer = make_timer(SIGUSR1);
}

/* As a crash handler starts a debugger. */
static void forks_in_handler(int number)
{
    int status = -1;
    pid_t pid = fork();
    (void)number;
    if (pid == 0)
        _exit(7);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 7 << 8)
        failed = 1;
    handled = 1;
}

SCENARIO("forks")
{
    enum { FORKS = 300 };
    struct conn conn = open_conversing();
    handle(forks_in_handler);
    for (unsigned i = 0; i < FORKS && !failed; i++)
        allocate_until_handled(i * 2654435761u);
    timer_delete(timer);
    EXPECT(!failed);
    converse(conn);
    close_conn(conn);
}

static void connects_in_handler(int number)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    (void)number;
    if (fd < 0 || connect(fd, (struct sockaddr *)&somewhere, sizeof somewhere) != 0)
        failed = 1;
    handled = 1;
}

static void *idle(void *unused)
{
    for (;;)
        compute_ms(900);
    return unused;
}

/* The first connection of a process. Each process can test this once, so there are many. With a
 * second thread the allocator uses locks. */
SCENARIO("connects")
{
    enum { PROCESSES = 60 };
    int listener = raw_listener(0, &somewhere);
    for (unsigned i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            pthread_t thread;
            if (i % 2)
                pthread_create(&thread, NULL, idle, NULL);
            handle(connects_in_handler);
            allocate_until_handled(i * 2654435761u);
            _exit(failed);
        }
        int status = ended_within(pid, 3000);
        if (status != 0) {
            wrong("process %u ended with %d", i, status);
            break;
        }
        RAW(close, RAW(accept4, listener, 0, 0, SOCK_NONBLOCK), 0, 0, 0);
    }
    RAW(close, listener, 0, 0, 0);
    close_conn(open_conversing());
}

LIFE_MAIN
