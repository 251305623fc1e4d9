/* SPDX-License-Identifier: MIT */
/* Memory that is not a connection's: what lies behind a thread's stack is nobody's to read. A
 * neighbour comes and goes there while the thread converses, and what ends a library's own thread,
 * if it has one, is asked for again and again. See promise.h. */
#include "promise.h"

#include <sys/prctl.h>

enum { STACK = 256 * 1024, NEIGHBOUR = 128 * 1024, ROUNDS = 10000 };

static char *neighbour;
static volatile bool over;

static void *comes_and_goes(void *unused)
{
    while (!over) {
        EXPECT(mprotect(neighbour, NEIGHBOUR, PROT_READ | PROT_WRITE) == 0);
        EXPECT(mprotect(neighbour, NEIGHBOUR, PROT_NONE) == 0);
    }
    return unused;
}

static void on_signal(int number)
{
    (void)number;
}

static void *converses(void *unused)
{
    struct conn conn = open_conversing();
    for (int i = 0; i < ROUNDS; i++) {
        EXPECT(write(conn.fd, "a", 1) == 1 && write(conn.fd, "b", 1) == 1);
        poll(NULL, 0, 0);
        EXPECT(write(conn.fd, "a", 1) == 1 && write(conn.fd, "b", 1) == 1);
        poll(NULL, 0, 0);
        prctl(PR_SET_KEEPCAPS, 0);
    }
    close_conn(conn);
    return unused;
}

static void behind_a_stack(void)
{
    struct sigaction action = {.sa_handler = on_signal}; /* so that there may be a frame of one */
    char *memory = mmap(NULL, STACK + NEIGHBOUR, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pthread_t thread, other;
    pthread_attr_t attributes;
    sigaction(SIGUSR1, &action, NULL);
    EXPECT(memory != MAP_FAILED);
    neighbour = memory + STACK;
    pthread_attr_init(&attributes);
    EXPECT(pthread_attr_setstack(&attributes, memory, STACK) == 0);
    EXPECT(pthread_create(&other, NULL, comes_and_goes, NULL) == 0);
    EXPECT(pthread_create(&thread, &attributes, converses, NULL) == 0);
    pthread_join(thread, NULL);
    over = true;
    pthread_join(other, NULL);
    munmap(memory, STACK + NEIGHBOUR);
}

static const struct scenario scenarios[] = {
    {"behind-a-stack", behind_a_stack},
};

LIFE_MAIN(scenarios)
